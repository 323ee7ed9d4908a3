"""Grey values: CT windows and MR percentile ranges to uint8, by truncation as the published scripts do."""

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
    scaled = np.nan_to_num(values.astype(np.float32), nan=low, posinf=high, neginf=low)
    scaled = (scaled - np.float32(low)) / np.float32(high - low) * np.float32(255)
    picture: Picture = np.clip(scaled, 0, 255).astype(np.uint8)
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
