"""Is it a CT in HU, on a grid without shear? And its density and materials."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from medheb.core.errors import MedhebError
from medheb.imaging.volume import GRID_TOLERANCE_MM, Array, Volume

# Three straight facts about a CT of a body in air: air around it or in it, and soft tissue.
AIR_HU, TISSUE_HU = (-1100, -700), (-200, 200)
MIN_SHARE = 0.01
SAMPLED_VOXELS = 1_000_000
HU_RANGE = (-1024, 3071)
SHEAR_TOLERANCE = 1e-3

# Borders of the three materials; what lies in between is soft tissue, lung included.
AIR_UP_TO_HU, BONE_ABOVE_HU = -800, 350
# Density in g/cm3 over HU: two straight lines that meet at water, after published calibrations of CT.
LINE_BELOW, LINE_ABOVE, WATER_DENSITY = 0.001029, 0.0005886, 1.03

Float32 = npt.NDArray[np.float32]


def check_hu(volume: Volume) -> None:
    """Refuse what is no CT in Hounsfield units; looks at every voxel of small volumes, at a grid of large ones.

    Raises:
        MedhebError: not three-dimensional or empty, voxels that are not numbers, no air, or no soft tissue.
    """
    array, where = volume.array, volume.where
    if array.ndim != 3 or array.size == 0:
        raise MedhebError(where, f"has the shape {array.shape}", "Give one three-dimensional volume with voxels")
    step = max(1, int(np.ceil((array.size / SAMPLED_VOXELS) ** (1 / 3))))
    sample = array[::step, ::step, ::step]
    if array.dtype.kind == "f" and not all(np.isfinite(array[:, row]).all() for row in range(array.shape[1])):
        raise MedhebError(where, "holds voxels that are not numbers", "Get an undamaged copy")
    air, tissue = (float(((sample >= low) & (sample <= high)).mean()) for low, high in (AIR_HU, TISSUE_HU))
    seen = (
        f"({air:.1%} of the voxels look like air, {tissue:.1%} like soft tissue, {sample.min():g} to {sample.max():g})"
    )
    if air < MIN_SHARE:
        raise MedhebError(
            where,
            f"is not in HU: it holds no air {seen}",
            "Give a CT with its rescale slope and intercept applied once; stored values often lack them",
        )
    if tissue < MIN_SHARE:
        raise MedhebError(
            where,
            f"is not in HU: it holds no soft tissue {seen}",
            "Give a CT with its rescale slope and intercept applied once; applied twice, tissue lies at -1000",
        )


def check_grid(volume: Volume) -> bool:
    """Whether the voxel axes run along the body's axes, up to a twentieth of a millimetre at the far end.

    Raises:
        MedhebError: voxel axes that are not at right angles to each other.
    """
    axes = volume.affine[:3, :3]
    directions = axes / np.linalg.norm(axes, axis=0)
    cosines = np.abs(directions.T @ directions - np.eye(3))
    if cosines.max() > SHEAR_TOLERANCE:
        angle = np.degrees(np.arccos(min(1.0, cosines.max())))
        raise MedhebError(
            volume.where,
            f"has a sheared grid: two of its axes stand at {angle:.1f} degrees",
            "Resample it to a right-angled grid first; a tilted gantry makes such scans",
        )
    drift = np.abs(axes * (np.array(volume.shape) - 1))
    np.fill_diagonal(drift, 0)
    return bool(drift.max() <= GRID_TOLERANCE_MM)


def materials(hu: Array, out: Float32 | None = None) -> Float32:
    """Density in g/cm3, and where there is bone and air (0 or 1), of HU of any shape.

    Args:
        hu: (...).
        out: (3, ...) to write into, which spares a projector many large allocations.

    Returns:
        Density, bone, air: (3, ...).
    """
    if out is None:
        out = np.empty((3, *hu.shape), dtype=np.float32)
    density, bone, air = out
    clipped = np.clip(hu, *HU_RANGE)
    np.multiply(clipped, np.float32(LINE_BELOW), out=density, casting="same_kind")
    np.multiply(clipped, np.float32(LINE_ABOVE), out=bone, casting="same_kind")
    np.minimum(density, bone, out=density)
    density += np.float32(WATER_DENSITY)
    np.maximum(density, np.float32(0), out=density)
    np.greater(hu, BONE_ABOVE_HU, out=bone)
    np.less_equal(hu, AIR_UP_TO_HU, out=air)
    return out
