"""The ``cone`` projector's way through grids that are turned against the body's axes: small steps, eight voxels each.

Slower by far than the way through straight grids, which :mod:`cone` takes wherever it can. The volume is not copied.
"""

from __future__ import annotations

import numpy as np

from medheb.imaging.drr.geometry import Geometry, Vector, corners
from medheb.imaging.drr.preparation import AIR, Float32, materials, soft_from_all
from medheb.imaging.volume import Affine, Array, Volume

STEP = 0.5  # of the smallest voxel side
CHUNK = 8192  # points worked on at once


def march(volume: Volume, geometry: Geometry, centre: Vector) -> Float32:
    """Sum over planes of density times share times distance, in mm g/cm3: air, bone, soft tissue, (3, rows, columns).

    Args:
        volume: HU in canonical order.
        geometry: the view.
        centre: world position of the middle of the volume.
    """
    voxels, affine = _in_memory_order(volume)
    inverse = np.linalg.inv(affine)
    source, offsets = geometry.source(centre), geometry.offsets()
    sizes = np.array(voxels.shape)[:, None]
    ends = corners(volume)[1]
    rim, step = max(volume.spacing), STEP * min(volume.spacing)
    summed = np.zeros((3, geometry.pixels, geometry.pixels), dtype=np.float32)
    for depth in np.arange(ends.min() - rim, ends.max() + rim, step) + step / 2:
        scale = abs(depth - source[1]) / geometry.source_to_detector_mm
        x, z = centre[0] - offsets * scale, centre[2] - offsets * scale
        # Voxel position of every pixel of the plane: one constant and two straight terms.
        position = (
            (inverse[:3, 1] * depth + inverse[:3, 3])[:, None, None]
            + inverse[:3, 2][:, None, None] * z[None, :, None]
            + inverse[:3, 0][:, None, None] * x[None, None, :]
        ).reshape(3, -1)
        inside = np.flatnonzero(((position > -1) & (position < sizes)).all(axis=0))
        target = summed.reshape(3, -1)
        for start in range(0, len(inside), CHUNK):
            pixels = inside[start : start + CHUNK]
            density, bone, air = _between(voxels, position[:, pixels])
            target[0, pixels] += density * air
            target[1, pixels] += density * bone
            target[2, pixels] += density
    summed *= np.float32(step)
    return soft_from_all(summed)


def _in_memory_order(volume: Volume) -> tuple[Array, Affine]:
    """The volume's voxels as they lie in memory (C order), and the affine that belongs to that order of axes."""
    array, affine = volume.array, volume.affine.copy()
    for axis, stride in enumerate(array.strides):
        if stride < 0:
            affine[:3, 3] += affine[:3, axis] * (array.shape[axis] - 1)
            affine[:3, axis] *= -1
            array = np.flip(array, axis)
    order = sorted(range(3), key=lambda axis: -array.strides[axis])
    return np.ascontiguousarray(array.transpose(order)), affine[:, [*order, 3]]


def _between(voxels: Array, position: Vector) -> Float32:
    """Density, bone and air at positions (3, n) that lie less than a voxel outside at most, from eight voxels each."""
    flat = voxels.reshape(-1)
    near = np.floor(position)
    beyond = (position - near).astype(np.float32)
    weights = (1 - beyond, beyond)
    first = near.astype(np.intp)
    # Per axis: offset in memory of the near and the far voxel, and where there is none, which counts as air.
    strides = (voxels.shape[1] * voxels.shape[2], voxels.shape[2], 1)
    places, missing = [], []
    for axis, (length, stride) in enumerate(zip(voxels.shape, strides, strict=True)):
        pair = first[axis], first[axis] + 1
        edge = pair[0].min() < 0 or pair[1].max() >= length
        missing.append([(place < 0) | (place >= length) if edge else None for place in pair])
        places.append([(np.clip(place, 0, length - 1) if edge else place) * stride for place in pair])
    found = np.zeros(position.shape, dtype=np.float32)
    tissue = np.empty_like(found)
    for x in (0, 1):
        for y in (0, 1):
            line, weight = places[0][x] + places[1][y], weights[x][0] * weights[y][1]
            for z in (0, 1):
                hu = flat.take(line + places[2][z])
                for gone in (missing[0][x], missing[1][y], missing[2][z]):
                    if gone is not None:
                        hu[gone] = AIR
                materials(hu, tissue)
                tissue *= weight * weights[z][2]
                found += tissue
    return found
