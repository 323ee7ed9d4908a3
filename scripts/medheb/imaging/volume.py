"""A volume in canonical RAS order: array, affine, voxel size."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import nibabel
import numpy as np
import numpy.typing as npt

from medheb.core.errors import MedhebError

# Decoded bytes that a reader accepts. The largest real scan (1024 x 1024 x 708, int16) has 1.5 GB.
MAX_VOLUME_BYTES = 4 * 1024**3
GRID_TOLERANCE_MM = 0.05

Array = npt.NDArray[Any]
Affine = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Volume:
    """A three-dimensional scan or label map.

    Args:
        array: shape (X, Y, Z); x grows to the patient's right, y to the front, z to the head.
        affine: 4 x 4, voxel index to millimetres in RAS space.
        where: file or folder it was read from, for messages.
    """

    array: Array
    affine: Affine
    where: str

    @property
    def spacing(self) -> tuple[float, float, float]:
        """Voxel size in mm along x, y, z."""
        x, y, z = (float(np.linalg.norm(self.affine[:3, axis])) for axis in range(3))
        return x, y, z

    @property
    def shape(self) -> tuple[int, int, int]:
        """Number of voxels along x, y, z."""
        x, y, z = self.array.shape
        return x, y, z


def size_fault(spacing: Sequence[float]) -> str | None:
    """What is wrong with the voxel size that a header states, ``None`` if it is one."""
    if all(math.isfinite(length) and length > 0 for length in spacing):
        return None
    return f"says that its voxels are {' x '.join(f'{length:g}' for length in spacing)} mm large"


def canonical(array: Array, affine: Affine, where: str) -> Volume:
    """Reorder axes to closest RAS. The array stays a view of the given one.

    Args:
        array: shape (I, J, K).
        affine: 4 x 4, index to RAS millimetres.
        where: file named in errors.

    Raises:
        MedhebError: the affine is not finite or not invertible.
    """
    if not np.isfinite(affine).all() or abs(np.linalg.det(affine[:3, :3])) < 1e-9:
        raise MedhebError(where, "has an orientation matrix that cannot be inverted", "Get an undamaged copy")
    orientation = nibabel.orientations.io_orientation(affine)
    turned: Array = nibabel.orientations.apply_orientation(array, orientation)
    turned_affine: Affine = affine @ nibabel.orientations.inv_ornt_aff(orientation, array.shape)
    return Volume(turned, turned_affine, where)


def check_declared(where: str, shape: Sequence[int], dtype: np.dtype[Any], max_bytes: int) -> int:
    """Check what a header declares, before any pixel is read.

    Returns:
        The declared number of bytes.

    Raises:
        MedhebError: not three-dimensional, an empty axis, no single real number per voxel, or too large.
    """
    if dtype.names is not None or dtype.kind not in "iuf":
        raise MedhebError(
            where,
            f"holds voxels of no single real number, such as colour ({dtype})",
            "Give a volume with one real number per voxel",
        )
    if len(shape) != 3:
        raise MedhebError(
            where, f"is {len(shape)}-dimensional {tuple(shape)}", "Give one three-dimensional volume per file"
        )
    if min(shape) < 1:
        raise MedhebError(where, f"declares an empty axis {tuple(shape)}", "Get an undamaged copy")
    declared = dtype.itemsize
    for length in shape:
        declared *= int(length)
    if declared > max_bytes:
        raise MedhebError(
            where,
            f"declares {declared} bytes of voxels, more than the cap of {max_bytes}",
            "Check the file; no known source needs more",
        )
    return declared


def on_grid_of(part: Volume, whole: Volume) -> Array:
    """``part`` laid into zeros on the grid of ``whole``, shifted by whole voxels, never resampled.

    Returns:
        Array of the shape of ``whole`` and the type of ``part``; the part's own array if the grids are equal.

    Raises:
        MedhebError: another voxel size or direction, a fraction of a voxel between them, or a part that reaches out.
    """
    remedy = f"Give a mask that was made for {whole.where}"
    if not np.allclose(part.affine[:3, :3], whole.affine[:3, :3], atol=GRID_TOLERANCE_MM):
        raise MedhebError(part.where, f"has another voxel size or direction than {whole.where}", remedy)
    offset = np.linalg.solve(whole.affine[:3, :3], part.affine[:3, 3] - whole.affine[:3, 3])
    start = np.rint(offset).astype(int)
    if np.abs((offset - start) * np.array(whole.spacing)).max() > GRID_TOLERANCE_MM:
        raise MedhebError(part.where, f"lies between the voxels of {whole.where}", remedy)
    end = start + np.array(part.shape)
    if (start < 0).any() or (end > np.array(whole.shape)).any():
        raise MedhebError(part.where, f"reaches out of {whole.where}", remedy)
    if part.shape == whole.shape:
        return part.array
    laid = np.zeros(whole.shape, dtype=part.array.dtype)
    laid[start[0] : end[0], start[1] : end[1], start[2] : end[2]] = part.array
    return laid
