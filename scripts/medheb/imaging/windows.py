"""Grey values to uint8 in float32, by truncation as the published scripts do: CT windows, MR ranges, single slices.

Two published orders of operations give the same pixels, so there is one function: subtract, divide, times 255, clip,
truncate; or clip to the window first. Rounding is monotone, the ends of the window map to exactly 0 and 255, and
what lies outside is clipped to them either way (a property test compares both).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from medheb.core.errors import MedhebError
from medheb.imaging.volume import Array, Volume

Picture = npt.NDArray[np.uint8]


def to_uint8(values: Array, low: float, high: float) -> Picture:
    """Map [low, high] to [0, 255] in float32, clip, cut off the fraction. NaN becomes 0.

    Args:
        values: any shape; call it per slice, it makes a float32 copy.
        low: value that becomes 0.
        high: value that becomes 255; larger than ``low``.

    Raises:
        ValueError: ``high`` is not larger than ``low``.
    """
    if not high > low:
        raise ValueError(f"an empty grey value range [{low}, {high}]")
    scaled = values.astype(np.float32)
    scaled -= np.float32(low)
    scaled /= np.float32(high - low)
    scaled *= np.float32(255)
    return _cut(scaled)


def _cut(scaled: npt.NDArray[np.float32]) -> Picture:
    """Clip to 0..255 and cut off the fraction, in place; NaN becomes 0."""
    np.clip(scaled, 0, 255, out=scaled)
    if np.isnan(scaled).any():
        scaled[np.isnan(scaled)] = 0
    return scaled.astype(np.uint8)


def unit_to_uint8(values: Array, low: float, high: float) -> Picture:
    """As :func:`to_uint8`, but clipped to 0..1 before the factor 255: (v - low) / (high - low), clip, times 255."""
    if not high > low:
        raise ValueError(f"an empty grey value range [{low}, {high}]")
    scaled = values.astype(np.float32)
    scaled -= np.float32(low)
    scaled /= np.float32(high - low)
    np.clip(scaled, 0, 1, out=scaled)
    scaled *= np.float32(255)
    return _cut(scaled)


def stretched(plane: Array) -> Picture:
    """One slice with its own minimum and maximum mapped to 0 and 255, as published; uint8 is returned as it is.

    Arithmetic as NumPy does it in the slice's own type, faults included: integers wrap where the range exceeds the
    type, and what then lies outside 0..255 keeps its lowest 8 bits (what x86-64 makes of that cast, which C leaves
    open). A constant slice and one with a NaN become black.
    """
    if plane.dtype == np.uint8:
        return plane
    low, high = plane.min(), plane.max()
    if np.isnan(low) or low == high:
        return np.zeros(plane.shape, dtype=np.uint8)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        scaled = (plane - low) / (high - low) * 255
    whole = np.where(np.isfinite(scaled), scaled, 0).astype(np.int64)
    picture: Picture = whole.astype(np.uint8)
    return picture


def window_range(level: float, width: float) -> tuple[float, float]:
    """Lowest and highest value of a CT window in HU."""
    return level - width / 2, level + width / 2


def percentile_range(volume: Volume, lower: float, upper: float) -> tuple[float, float]:
    """Grey value range of an MR volume: percentiles of its positive voxels (whole volume, linear interpolation).

    Raises:
        MedhebError: no positive voxel, or all of them equal.
    """
    foreground = volume.array[volume.array > 0]
    foreground = foreground[np.isfinite(foreground)]
    if foreground.size == 0:
        raise MedhebError(volume.where, "holds no voxel above 0", "Check the file; an MR volume has signal")
    low, high = (float(value) for value in np.percentile(foreground, [lower, upper]))
    if high <= low:
        low, high = float(foreground.min()), float(foreground.max())
    if high <= low:
        raise MedhebError(volume.where, f"holds the one value {low:g} everywhere", "Check the file")
    return low, high
