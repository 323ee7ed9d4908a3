"""Planes across all three body axes of a stored volume, gathered in one pass over the file.

Only the wanted planes are kept, so a volume of 640 x 640 x 400 voxels costs some 50 MB instead of 330.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
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
        fault = volume.damage if volume.affine is None else "does not say how it is oriented"
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
    numbers = {axis: sorted(set(chosen)) for axis, chosen in wanted.items()}
    gathered = [_Across(volume, turn, axis, chosen) for axis, chosen in numbers.items()]
    for index, plane in volume.slices():
        each(plane)
        for across in gathered:
            across.add(index, plane)
    return {across.axis: across.planes() for across in gathered}


class _Across:
    """The wanted planes across one body axis, filled slice by slice."""

    def __init__(self, volume: StoredVolume, turn: Turn, axis: int, numbers: Sequence[int]) -> None:
        self.axis, self._turn, self._numbers = axis, turn, numbers
        self._stored = turn.stored[axis]
        last = volume.shape[self._stored] - 1
        self._places = [last - number if turn.flipped[axis] else number for number in numbers]
        first, second = (length for other, length in enumerate(volume.shape) if other != self._stored)
        # Across the slice axis: planes as they come. Else slice by slice (slice, plane, other stored axis), so that
        # each slice fills one block of memory.
        shape = (len(numbers), first, second) if self._stored == volume.axis else (second, len(numbers), first)
        self._kept: Array = np.empty(shape, volume.dtype)

    def add(self, index: int, plane: Array) -> None:
        """Take in stored slice ``index``."""
        if self._stored == 0:
            self._kept[index] = plane[self._places]
        elif self._stored == 1:
            self._kept[index] = plane[:, self._places].T
        elif index in self._places:
            self._kept[self._places.index(index)] = plane

    def planes(self) -> dict[int, Array]:
        """Planes by number, in body order."""
        kept = self._kept if self._stored == 2 else self._kept.transpose(1, 2, 0)
        return {
            number: _turned(plane, self.axis, self._turn) for number, plane in zip(self._numbers, kept, strict=True)
        }


def _turned(plane: Array, axis: int, turn: Turn) -> Array:
    """A stored plane with its axes in body order, both increasing."""
    first, second = (other for other in range(3) if other != axis)
    ordered = plane if turn.stored[first] < turn.stored[second] else plane.T
    turned: Array = ordered[:: -1 if turn.flipped[first] else 1, :: -1 if turn.flipped[second] else 1]
    return turned
