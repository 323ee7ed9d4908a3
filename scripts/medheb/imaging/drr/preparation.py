"""Is it a CT in HU, on a grid without shear? And its density and materials."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from medheb.core.errors import MedhebError
from medheb.imaging.hounsfield import HounsfieldCheck
from medheb.imaging.volume import GRID_TOLERANCE_MM, Array, Volume

CHECKED_PLANES = 64
AIR = -1000  # HU of what lies around a volume
HU_RANGE = (-1024, 3071)
SHEAR_TOLERANCE = 1e-3

# Borders of the three materials; what lies in between is soft tissue, lung included.
AIR_UP_TO_HU, BONE_ABOVE_HU = -800, 350
# Density in g/cm3 over HU: two straight lines that meet at water, after published calibrations of CT.
LINE_BELOW, LINE_ABOVE, WATER_DENSITY = 0.001029, 0.0005886, 1.03

Float32 = npt.NDArray[np.float32]


def check_hu(volume: Volume) -> None:
    """Refuse what is no CT in Hounsfield units; looks at evenly spaced coronal planes.

    Raises:
        MedhebError: not three-dimensional or empty, voxels that are not numbers, no air, or no soft tissue.
    """
    array, where = volume.array, volume.where
    if array.ndim != 3 or array.size == 0:
        raise MedhebError(where, f"has the shape {array.shape}", "Give one three-dimensional volume with voxels")
    if array.dtype.kind == "f" and not all(np.isfinite(array[:, row]).all() for row in range(array.shape[1])):
        raise MedhebError(where, "holds voxels that are not numbers", "Get an undamaged copy")
    check = HounsfieldCheck()
    for row in range(0, array.shape[1], max(1, array.shape[1] // CHECKED_PLANES)):
        check.add(array[:, row])
    check.require(where)


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


def soft_from_all(summed: Float32) -> Float32:
    """Air, bone and all (3, ...) to air, bone and the rest, which is soft tissue; in place."""
    summed[2] -= summed[0]
    summed[2] -= summed[1]
    np.maximum(summed[2], np.float32(0), out=summed[2])
    return summed
