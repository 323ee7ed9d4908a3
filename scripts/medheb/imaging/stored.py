"""Arrays as they lie in their file: checked header now, voxels slice by slice later, in one pass.

Readers (:mod:`nifti`, :mod:`nrrd`, :mod:`dicom`, :mod:`arrays`) all hand out these two types. Nothing here turns,
flips or resamples: a slice is what the file stores. :meth:`StoredVolume.canonical` is the way to RAS order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import nibabel
import numpy as np

from medheb.core.errors import MedhebError
from medheb.imaging.volume import Affine, Array, Volume, canonical, size_fault

# Reads the slices with the given numbers, which increase, and nothing else.
SliceReader = Callable[[Sequence[int]], Iterator[Array]]


@dataclass(frozen=True)
class StoredSlices:
    """An array of any dimension whose header has been read and checked.

    Args:
        where: file (and member) it comes from, for messages.
        shape: as stored, first index first.
        dtype: type of the slices handed out. Volumes: stored integers of up to 32 bits, else float32. NumPy files: as
            stored.
        axis: axis that slices are numbered along: the last of volumes, the first of NumPy files.
        read: reads slices by number.
    """

    where: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    axis: int
    read: SliceReader = field(repr=False, compare=False)

    @property
    def count(self) -> int:
        """Number of slices."""
        return self.shape[self.axis]

    def slices(self, indices: Iterable[int] | None = None) -> Iterator[tuple[int, Array]]:
        """Slices by number, each once, in increasing order, in one pass over the file.

        Args:
            indices: numbers of the wanted slices in any order, repeats allowed; ``None`` for all.

        Yields:
            Number and slice: the stored array without its ``axis``.

        Raises:
            MedhebError: the file ends early or cannot be decoded.
            ValueError: a number outside the array.
        """
        wanted = range(self.count) if indices is None else sorted(set(indices))
        if wanted and not 0 <= wanted[0] <= wanted[-1] < self.count:
            raise ValueError(f"{self.where} has slices 0 to {self.count - 1}, not {wanted[0]} to {wanted[-1]}")
        return zip(wanted, self.read(wanted), strict=True)

    def array(self) -> Array:
        """The whole array, shape ``self.shape``, type ``self.dtype``, but float32 in place of float64.

        Raises:
            MedhebError: the file ends early or cannot be decoded.
        """
        # Memory order follows the slice axis, so that filling and reading a slice touch one block.
        kept = np.dtype(np.float32) if self.dtype == np.float64 else self.dtype
        whole = np.empty(self.shape, dtype=kept, order="F" if self.axis else "C")
        for index, plane in self.slices():
            whole[(slice(None),) * self.axis + (index,)] = plane
        return whole


@dataclass(frozen=True)
class StoredVolume(StoredSlices):
    """A three-dimensional scan or label map as stored; slices are cut across the last axis.

    Args:
        shape: (I, J, K) as stored; slice k is (I, J).
        spacing: voxel size in mm along the array's axes, as the header gives it, 0 and NaN included.
        affine: 4 x 4, voxel index to millimetres in RAS space; ``None`` where the header's is damaged.
        oriented: whether the file itself states the affine; ``False`` where the reader had to assume one.
        sized: whether the lengths in the affine are the file's; ``False`` where it gives 0 and 1 mm was taken.
    """

    shape: tuple[int, int, int]
    spacing: tuple[float, float, float]
    affine: Affine | None
    oriented: bool = True
    sized: bool = True

    @property
    def damage(self) -> str:
        """Why there is no affine, in words."""
        return size_fault(self.spacing) or "has a damaged orientation matrix"

    @property
    def axis_codes(self) -> str | None:
        """Direction that each array axis grows in, such as ``LPS``; ``None`` where the file does not say."""
        if self.affine is None or not self.oriented:
            return None
        return "".join(str(code) for code in nibabel.orientations.aff2axcodes(self.affine))

    def canonical(self, accept_assumed: bool = False) -> Volume:
        """The whole volume with its axes reordered to closest RAS.

        Args:
            accept_assumed: take the orientation that readers assume by convention where the file states none.

        Raises:
            MedhebError: no usable orientation, or voxels that cannot be read.
        """
        if self.affine is None or not (self.oriented or accept_assumed):
            fault = self.damage if self.affine is None else "does not say how it is oriented"
            raise MedhebError(
                self.where, fault, "Get an undamaged copy, or use it only where orientation is not needed"
            )
        if not self.sized:
            raise MedhebError(self.where, str(size_fault(self.spacing)), "Get an undamaged copy")
        return canonical(self.array(), self.affine, self.where)


def usable(affine: Array) -> Affine | None:
    """The affine as float64, or ``None`` if it is not finite or cannot be inverted."""
    checked: Affine = np.asarray(affine, dtype=np.float64)
    if not np.isfinite(checked).all() or abs(np.linalg.det(checked[:3, :3])) < 1e-9:
        return None
    return checked


def kept_dtype(stored: np.dtype[Any]) -> np.dtype[Any]:
    """Type in which values of a stored type are handed out: integers of up to 32 bits as they are, else float32."""
    if stored.kind in "iu" and stored.itemsize <= 4:
        return stored.newbyteorder("=")
    return np.dtype(np.float32)
