"""How a manifest says which values become black and white."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from medheb.imaging.volume import Volume
from medheb.imaging.windows import percentile_range, window_range
from medheb.manifest.base import Strict


class Window(Strict):
    """Grey values of a CT."""

    kind: Literal["window"]
    level: float
    width: float = Field(gt=0)


class Percentiles(Strict):
    """Grey values of an MR: percentiles of the positive voxels."""

    kind: Literal["percentiles"]
    lower: float = Field(ge=0, lt=100)
    upper: float = Field(gt=0, le=100)


GreyRange = Annotated[Window | Percentiles, Field(discriminator="kind")]


def grey_range(volume: Volume, grey: Window | Percentiles) -> tuple[float, float]:
    """Values that become black and white.

    Raises:
        MedhebError: percentiles of a volume without signal.
    """
    if isinstance(grey, Window):
        return window_range(grey.level, grey.width)
    return percentile_range(volume, grey.lower, grey.upper)
