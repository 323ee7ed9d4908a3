"""The ``cone`` projector: a diverging beam through three materials, in NumPy, for one frontal view.

Detector and coronal planes are parallel, so all rays of a view are scaled by one number within one plane: the plane
is laid out along columns and rows of the detector by two one-dimensional interpolations (Joseph's method). Only one
plane is held beside the volume.

Density and the shares of the materials are interpolated each by itself and then multiplied, as in DeepDRR; around the
volume lies a rim of air, so that it fades out instead of ending inside a voxel.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from medheb.core.errors import MedhebError
from medheb.imaging.drr.geometry import Geometry, Vector, corners, middle
from medheb.imaging.drr.oblique import march
from medheb.imaging.drr.preparation import AIR, Float32, check_grid, check_hu, materials, soft_from_all
from medheb.imaging.volume import Volume

RIM = 2  # voxels of air around the volume
PART = 64  # pixels whose rows are worked on at once
Index = npt.NDArray[np.intp]


def areal_density(volume: Volume, geometry: Geometry) -> Float32:
    """Grams of air, bone and soft tissue per cm2 along the ray to each pixel, (3, H, W).

    Args:
        volume: CT in HU, in canonical order; not changed, not copied as a whole unless its grid is oblique.
        geometry: the view; the beam's axis goes through the middle of the volume.

    Raises:
        MedhebError: not HU, sheared, or so large that the focal spot would lie inside.
    """
    check_hu(volume)
    aligned = check_grid(volume)
    centre = middle(volume)
    source = geometry.source(centre)
    depths = corners(volume)[1]
    if depths.min() <= source[1] <= depths.max():
        raise MedhebError(
            volume.where, f"is {np.ptp(depths):.0f} mm deep and reaches the X-ray tube", "Move the tube away from it"
        )
    summed = _aligned(volume, geometry, centre) if aligned else march(volume, geometry, centre)
    across = (geometry.offsets() / geometry.source_to_detector_mm) ** 2
    slant = np.sqrt(1 + across[:, None] + across[None, :]).astype(np.float32)
    summed *= slant / np.float32(10)  # mm to cm
    return summed


class _Axis:
    """Pixels along one axis of the detector whose rays meet the plane: which they are, and between which voxels."""

    def __init__(self, place: Vector, length: int) -> None:
        """``place``: voxel position of each pixel, monotone; the rim counts as voxels."""
        position = place + RIM
        length += 2 * RIM
        inside = np.flatnonzero((position >= -0.5) & (position <= length - 0.5))
        self.pixels = slice(inside[0], inside[-1] + 1) if len(inside) else slice(0, 0)
        position = np.clip(position[self.pixels], 0, length - 1)
        self.first: Index = np.minimum(position.astype(np.intp), length - 2)
        self.weight: Float32 = (position - self.first).astype(np.float32)[:, None]

    def lay_out(self, rows: Float32, part: slice, work: Float32) -> Float32:
        """Rows of the plane at ``part`` of the pixels, (voxels, n) to (pixels, n), held in ``work``."""
        index = self.first[part]
        size, shape = len(index) * rows.shape[1], (len(index), rows.shape[1])
        near: Float32 = work[0, :size].reshape(shape)
        far: Float32 = work[1, :size].reshape(shape)
        rows.take(index, axis=0, out=near, mode="clip")  # mode: with "raise" NumPy would copy
        rows.take(index + 1, axis=0, out=far, mode="clip")
        far -= near
        far *= self.weight[part]
        near += far
        return near

    def parts(self) -> Iterator[slice]:
        """The pixels in parts whose rows stay in the processor's cache."""
        for start in range(0, len(self.first), PART):
            yield slice(start, min(start + PART, len(self.first)))


def _aligned(volume: Volume, geometry: Geometry, centre: Vector) -> Float32:
    """Sum over coronal planes of density times share times distance, in mm g/cm3, (3, rows, columns)."""
    (dx, dy, dz), (x, y, z) = np.diag(volume.affine)[:3], volume.affine[:3, 3]
    nx, ny, nz = volume.shape
    source, offsets, pixels = geometry.source(centre), geometry.offsets(), geometry.pixels
    summed = np.zeros((3, pixels, pixels), dtype=np.float32)  # columns, rows
    kind = volume.array.dtype if volume.array.dtype == np.int16 else np.dtype(np.float32)
    plane = np.full((nz + 2 * RIM, nx + 2 * RIM), AIR, dtype=kind)
    tissue = np.empty((3, *plane.shape), dtype=np.float32)
    turned = np.empty((3, plane.shape[1] * pixels), dtype=np.float32)
    work = np.empty((3, 2, PART * max(plane.shape[1], pixels)), dtype=np.float32)
    for index in range(ny):
        scale = abs(y + index * dy - source[1]) / geometry.source_to_detector_mm
        columns = _Axis((centre[0] - offsets * scale - x) / dx, nx)
        rows = _Axis((centre[2] - offsets * scale - z) / dz, nz)
        plane[RIM:-RIM, RIM:-RIM] = volume.array[:, index, :].T
        materials(plane, tissue)
        shape = plane.shape[1], len(rows.first)
        lines = [buffer[: shape[0] * shape[1]].reshape(shape) for buffer in turned]  # voxels along x, rows
        for part in rows.parts():
            for line, share in zip(lines, tissue, strict=True):
                line[:, part] = rows.lay_out(share, part, work[0]).T
        target = summed[:, columns.pixels, rows.pixels]
        for part in columns.parts():
            _add(target[:, part], *(columns.lay_out(line, part, room) for line, room in zip(lines, work, strict=True)))
    summed *= np.float32(dy)
    return soft_from_all(np.ascontiguousarray(summed.transpose(0, 2, 1)))


def _add(target: Float32, density: Float32, bone: Float32, air: Float32) -> None:
    """Add density times share of air and of bone, and density itself, to ``target`` (3, ...)."""
    bone *= density
    air *= density
    target[0] += air
    target[1] += bone
    target[2] += density
