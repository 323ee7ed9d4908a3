"""Axial slices of a stored volume: as they lie in the file, or turned to the radiological display."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

import nibabel
import numpy as np

from medheb.core.errors import MedhebError
from medheb.imaging.stored import StoredVolume
from medheb.imaging.volume import Affine, Array, size_fault

DISPLAY = "LPS"
RIGHT_ANGLE_COSINE = 1e-3
KEPT_BYTES = 512 * 1024**2
Each = Callable[[int, Array], None]


@dataclass(frozen=True)
class _Turn:
    """From stored axes to LPS; ``axes`` is nibabel's: for each stored axis its new place and its sign."""

    axes: Array

    @property
    def slicewise(self) -> bool:
        """Whether the stored slice axis is the body's long axis, so that each stored slice is an axial one."""
        return bool(self.axes[2, 0] == 2)

    @property
    def upside_down(self) -> bool:
        return bool(self.axes[self.along, 1] < 0)

    @property
    def along(self) -> int:
        """The stored axis that runs along the body."""
        return int(np.flatnonzero(self.axes[:, 0] == 2)[0])

    def plane(self, plane: Array) -> Array:
        """A plane across the body, its axes in stored order, as a picture: rows to the back, columns to the left."""
        across = np.delete(self.axes, self.along, axis=0)
        turned: Array = nibabel.orientations.apply_orientation(plane, across).T
        return turned

    def whole(self, array: Array) -> Array:
        """The array in LPS order, a view."""
        turned: Array = nibabel.orientations.apply_orientation(array, self.axes)
        return turned


class AxialSlices:
    """The slices of one volume, by number, read in one pass.

    As stored: rows along the first array axis, columns along the second, numbered along the third, whatever these
    are in the body. Displayed: the patient's right on the left, the front on top, numbered from the feet upwards; of a
    volume whose slices are not axial the wanted planes are held in memory for that.

    Args:
        volume: what was opened.
        displayed: turn to the radiological display.
        assumed: axis codes, such as ``LPS``, for a volume whose header does not give usable ones.
        keep: keep the voxels of a volume of up to half a gigabyte, for those who read the slices twice.

    Raises:
        MedhebError: to be displayed, but neither the header nor ``assumed`` says how.
    """

    def __init__(
        self, volume: StoredVolume, displayed: bool = False, assumed: str | None = None, keep: bool = False
    ) -> None:
        self.volume = volume
        self._turn: _Turn | None = None
        self.transform = "as stored: rows along the first axis, columns along the second"
        if displayed:
            codes = volume.axis_codes or assumed
            if codes is None:
                fault = volume.damage if volume.affine is None else "does not say how it lies"
                raise MedhebError(volume.where, fault, "Get an undamaged copy, or build it as published, as stored")
            orientations = nibabel.orientations
            axes = orientations.ornt_transform(orientations.axcodes2ornt(codes), orientations.axcodes2ornt(DISPLAY))
            self._turn = _Turn(axes)
            self.transform = f"{codes}{'' if volume.axis_codes else ' (assumed)'} to {DISPLAY}, transposed for display"
        self._across = self._turn is not None and not self._turn.slicewise
        size = int(np.prod(volume.shape, dtype=np.int64)) * volume.dtype.itemsize
        self._hold = keep and size <= KEPT_BYTES
        self._array: Array | None = None
        self.count = volume.shape[self._turn.along if self._turn else volume.axis]

    def planes(self, indices: Collection[int] | None = None, each: Each | None = None) -> Iterator[tuple[int, Array]]:
        """Slices by number, each once, in increasing or decreasing order.

        Args:
            indices: wanted numbers, repeats allowed; ``None`` for all.
            each: is called with number and voxels of every slice as stored, in the same pass over the file.

        Raises:
            MedhebError: the file ends early or cannot be decoded.
        """
        wanted = set(range(self.count)) if indices is None else set(indices)
        if self._hold:
            yield from self._from_memory(wanted, each)
            return
        if self._turn and self._across:
            yield from self._gathered(self._turn, wanted, each)
            return
        last = self.count - 1
        turn = self._turn
        stored = {last - number for number in wanted} if turn and turn.upside_down else wanted
        for index, plane in self.volume.slices(None if each else stored):
            if each:
                each(index, plane)
            if index in stored:
                number = last - index if turn and turn.upside_down else index
                yield number, turn.plane(plane) if turn else plane

    def _gathered(self, turn: _Turn, wanted: set[int], each: Each | None) -> Iterator[tuple[int, Array]]:
        """Planes across the stored slices, which all have a line of each."""
        numbers = sorted(wanted)
        lines = [self.count - 1 - number if turn.upside_down else number for number in numbers]
        first, second, count = self.volume.shape
        planes = np.empty((count, len(lines), second if turn.along == 0 else first), dtype=self.volume.dtype)
        for index, plane in self.volume.slices():
            if each:
                each(index, plane)
            planes[index] = plane[lines] if turn.along == 0 else plane[:, lines].T
        for place, number in enumerate(numbers):
            yield number, turn.plane(planes[:, place].T)

    def _from_memory(self, wanted: set[int], each: Each | None) -> Iterator[tuple[int, Array]]:
        if self._array is None:
            self._array = self.volume.array()
        if each:
            for index in range(self.volume.count):
                each(index, self._array[:, :, index])
        whole = self._turn.whole(self._array) if self._turn else self._array
        for number in sorted(wanted):
            plane = whole[:, :, number]
            yield number, plane.T if self._turn else plane


def affine_of(volume: StoredVolume, assumed: str | None) -> tuple[Affine, str]:
    """The volume's own affine and axis codes; where it states none, one made of its spacing and the assumed codes.

    Raises:
        MedhebError: neither is there.
    """
    if volume.affine is not None and volume.axis_codes and volume.sized:
        return volume.affine, volume.axis_codes
    if assumed is None and volume.sized:
        raise MedhebError(
            volume.where, "does not say how it is oriented", "Get a copy with a whole header, or name the axes"
        )
    fault = size_fault(volume.spacing)
    if fault or assumed is None:
        raise MedhebError(volume.where, str(fault), "Get a copy with a whole header")
    axes = nibabel.orientations.axcodes2ornt(assumed)
    affine = np.zeros((4, 4))
    affine[3, 3] = 1
    for axis, (place, sign) in enumerate(axes):
        affine[int(place), axis] = sign * volume.spacing[axis]
    return affine, assumed


def is_sheared(affine: Affine) -> bool:
    """Whether two voxel axes are not at right angles, as a tilted gantry leaves them."""
    directions = affine[:3, :3] / np.linalg.norm(affine[:3, :3], axis=0)
    return bool(np.abs(directions.T @ directions - np.eye(3)).max() > RIGHT_ANGLE_COSINE)
