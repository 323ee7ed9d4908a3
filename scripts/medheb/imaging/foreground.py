"""MR grey values: percentiles of a volume's foreground, informative slices, and slices normalised by them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from medheb.imaging.volume import Array
from medheb.imaging.windows import Picture

Float32 = npt.NDArray[np.float32]
Keep = Callable[[Array], npt.NDArray[np.bool_]]
NARROW = 2


@dataclass(frozen=True)
class GreyRange:
    """Values that become black and white, both as float32."""

    low: np.float32
    high: np.float32


def cleaned(plane: Array) -> Array:
    """The plane as float32 with NaN and both infinities 0; integers are returned as they are."""
    if plane.dtype.kind != "f":
        return plane
    clean: Float32 = plane.astype(np.float32)
    clean[~np.isfinite(clean)] = 0
    return clean


def positive(plane: Array) -> npt.NDArray[np.bool_]:
    """Foreground of MR: voxels above 0."""
    kept: npt.NDArray[np.bool_] = plane > 0
    return kept


def nonzero(plane: Array) -> npt.NDArray[np.bool_]:
    """Foreground of cone-beam CT: voxels other than 0."""
    kept: npt.NDArray[np.bool_] = plane != 0
    return kept


class Foreground:
    """Foreground of a volume, collected slice by slice; order statistics equal those of ``numpy.percentile``.

    Integers of up to 16 bits are counted by value (256 KB however large the volume); other types are kept as float32.

    Args:
        keep: which voxels of a cleaned slice count.
    """

    def __init__(self, keep: Keep = positive) -> None:
        self._keep = keep
        self._counts: npt.NDArray[np.int64] | None = None
        self._offset = 0
        self._values: list[Float32] = []
        self.shares: list[float] = []

    def add(self, plane: Array) -> None:
        """Count one slice of any shape; all slices have one type."""
        plane = cleaned(plane)
        kept = self._keep(plane)
        self.shares.append(int(np.count_nonzero(kept)) / kept.size)
        if plane.dtype.kind in "iu" and plane.dtype.itemsize <= NARROW:
            limits = np.iinfo(plane.dtype)
            self._offset = int(limits.min)
            counts = np.bincount(plane[kept].astype(np.intp) - self._offset, minlength=limits.max - limits.min + 1)
            self._counts = counts if self._counts is None else self._counts + counts
        else:
            self._values.append(plane[kept].astype(np.float32))

    def informative(self, share: float) -> list[int]:
        """Numbers of the slices of which at least ``share`` is foreground, counted in the order they were added."""
        return [index for index, own in enumerate(self.shares) if own >= share]

    @property
    def size(self) -> int:
        """Number of foreground voxels."""
        return int(self._counts.sum()) if self._counts is not None else sum(len(part) for part in self._values)

    def percentiles(self, *wanted: float) -> list[np.float32]:
        """Percentiles of the foreground as float32 values, by linear interpolation in float32.

        Raises:
            ValueError: no foreground.
        """
        if self.size == 0:
            raise ValueError("no foreground")
        if self._counts is None:
            joined = np.concatenate(self._values)
            self._values = [joined]
            return [np.float32(np.percentile(joined, percent, overwrite_input=True)) for percent in wanted]
        ends = np.cumsum(self._counts)
        return [self._of_counts(ends, percent) for percent in wanted]

    def _of_counts(self, ends: npt.NDArray[np.int64], percent: float) -> np.float32:
        """The arithmetic of ``numpy.percentile``: place in float64, neighbours and their mixture in float32."""
        last = int(ends[-1]) - 1
        place = last * (percent / 100)
        before = min(int(place), last)
        weight = place - before if before < last else 0.0
        lower, upper = (
            np.float32(int(np.searchsorted(ends, rank, side="right")) + self._offset)
            for rank in (before, min(before + 1, last))
        )
        difference = upper - lower
        if weight >= 0.5:
            return np.float32(upper - difference * np.float32(1 - weight))
        return np.float32(lower + difference * np.float32(weight))

    def grey_range(self, lower: float, upper: float) -> GreyRange | None:
        """Range between two percentiles, or of all foreground if they are equal; ``None`` if that is empty too."""
        if self.size == 0:
            return None
        for pair in ((lower, upper), (0, 100)):
            low, high = self.percentiles(*pair)
            if high > low:
                return GreyRange(low, high)
        return None


def foreground_of(planes: Iterable[Array], keep: Keep = positive) -> Foreground:
    """Foreground of all the slices given."""
    foreground = Foreground(keep)
    for plane in planes:
        foreground.add(plane)
    return foreground


def widened_range(foreground: Foreground, grey: GreyRange | None, factor: float) -> tuple[float, float]:
    """The foreground's grey range with its upper end moved out by ``factor``; never empty.

    Without a range of values the upper end is the lower one plus 1, before it is moved. It is moved in float64, as
    published: in float32 an end of 232 can become 232.00002, and voxels that are 85 after scaling become 84.
    """
    if grey:
        low, high = float(grey.low), float(grey.high)
    else:
        low = float(foreground.percentiles(0)[0]) if foreground.size else 0.0
        high = low + 1
    return low, low + (high - low) * factor


def normalised(plane: Array, grey: GreyRange | None) -> Picture:
    """A slice with ``grey`` mapped to 0..255; black where there is no range. Background 0 becomes black.

    Clip to the range, scale, cut off the fraction, all in float32; NaN and infinities count as 0.
    """
    if grey is None:
        return np.zeros(plane.shape, dtype=np.uint8)
    values = np.clip(cleaned(plane).astype(np.float32), grey.low, grey.high)
    scaled = (values - grey.low) / (grey.high - grey.low) * np.float32(255)
    picture: Picture = np.clip(scaled, 0, 255).astype(np.uint8)
    return picture
