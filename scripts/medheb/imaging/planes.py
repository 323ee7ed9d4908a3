"""Planes across all three body axes of a stored volume, gathered in one pass over the file.

Only the wanted planes are kept, so a volume of 640 x 640 x 400 voxels costs some 50 MB instead of 330.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import nibabel
import numpy as np

from medheb.core.errors import MedhebError
from medheb.imaging.stored import StoredVolume
from medheb.imaging.volume import Array

SAGITTAL, CORONAL, AXIAL = 0, 1, 2  # the body axis that a plane is across: right, front, head


@dataclass(frozen=True)
class Turn:
    """How the stored axes lie on the body axes.

    Args:
        stored: for each body axis the stored axis along it.
        flipped: for each body axis whether the stored one runs to the left, the back or the feet.
    """

    stored: tuple[int, int, int]
    flipped: tuple[bool, bool, bool]

    def shape(self, volume: StoredVolume) -> tuple[int, int, int]:
        """Lengths along the body axes."""
        x, y, z = (volume.shape[axis] for axis in self.stored)
        return x, y, z


def turn_of(volume: StoredVolume, accept_assumed: bool = False) -> Turn:
    """The closest assignment of stored axes to body axes.

    Args:
        volume: three-dimensional.
        accept_assumed: take the orientation that readers assume by convention where the file states none.

    Raises:
        MedhebError: no usable orientation.
    """
    if volume.affine is None or not (volume.oriented or accept_assumed):
        fault = "has a damaged orientation matrix" if volume.affine is None else "does not say how it is oriented"
        raise MedhebError(volume.where, fault, "Get an undamaged copy; without orientation no plane has a name")
    order = nibabel.orientations.io_orientation(volume.affine)
    axes = [int(axis) for axis in order[:, 0]]
    x, y, z = (axes.index(axis) for axis in range(3))
    return Turn((x, y, z), (bool(order[x, 1] < 0), bool(order[y, 1] < 0), bool(order[z, 1] < 0)))


def body_planes(
    volume: StoredVolume,
    turn: Turn,
    wanted: Mapping[int, Iterable[int]],
    each: Callable[[Array], None] = lambda plane: None,
) -> dict[int, dict[int, Array]]:
    """The wanted planes, indexed by the two other body axes in the order right, front, head, both increasing.

    Args:
        volume: slices across its last axis.
        turn: of this volume.
        wanted: for each body axis the plane numbers in closest-RAS order.
        each: called with every stored slice, in order: for statistics over the whole volume in the same pass.

    Returns:
        Planes by body axis and number, in the stored type.

    Raises:
        MedhebError: voxels that cannot be read.
    """
    lengths = turn.shape(volume)
    places = {
        axis: {number: lengths[axis] - 1 - number if turn.flipped[axis] else number for number in sorted(set(numbers))}
        for axis, numbers in wanted.items()
    }
    rest = {axis: [other for other in range(3) if other != turn.stored[axis]] for axis in places}
    kept = {
        axis: {
            number: np.empty([volume.shape[other] for other in rest[axis]], volume.dtype, order="F")
            for number in numbers
        }
        for axis, numbers in places.items()
    }
    for index, plane in volume.slices():
        each(plane)
        for axis, numbers in places.items():
            across = turn.stored[axis]
            for number, place in numbers.items():
                if across != volume.axis:
                    kept[axis][number][:, index] = plane.take(place, axis=across)
                elif place == index:
                    kept[axis][number][:] = plane
    return {
        axis: {number: _turned(plane, axis, turn) for number, plane in planes.items()} for axis, planes in kept.items()
    }


def _turned(plane: Array, axis: int, turn: Turn) -> Array:
    """A stored plane with its axes in body order, both increasing."""
    first, second = (other for other in range(3) if other != axis)
    ordered = plane if turn.stored[first] < turn.stored[second] else plane.T
    turned: Array = ordered[:: -1 if turn.flipped[first] else 1, :: -1 if turn.flipped[second] else 1]
    return turned
