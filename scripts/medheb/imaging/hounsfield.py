"""Does a CT hold Hounsfield units? Checked slice by slice, because slope and intercept get applied twice, or never."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from medheb.core.errors import MedhebError
from medheb.imaging.volume import Array

# Two straight facts about a body in a scanner: air around it or in it, and soft tissue. The limits are ours.
AIR_HU, TISSUE_HU = (-1100, -700), (-200, 200)
MIN_SHARE = 0.01
# A grid of some 256 x 256 voxels tells the shares of a slice well enough.
SAMPLED_SIDE = 256
LOWEST, HIGHEST = -32768, 32767
REMEDY = "Give a CT of a body, with its rescale slope and intercept applied exactly once"


class HounsfieldCheck:
    """Counts of the values of a volume, collected slice by slice (512 KB however large it is)."""

    def __init__(self) -> None:
        self._counts = np.zeros(HIGHEST - LOWEST + 1, dtype=np.int64)
        self._slices = 0
        self._lowest, self._highest = math.inf, -math.inf

    def add(self, plane: Array) -> None:
        """Count one slice."""
        self._slices += 1
        values = plane[tuple(slice(None, None, max(1, side // SAMPLED_SIDE)) for side in plane.shape)].ravel()
        if values.dtype.kind == "f":
            values = values[np.isfinite(values)]
        if values.size:
            self._lowest = min(self._lowest, float(values.min()))
            self._highest = max(self._highest, float(values.max()))
        if values.dtype.kind == "f":
            values = np.rint(values)
        places = np.clip(values, LOWEST, HIGHEST).astype(np.intp) - LOWEST
        self._counts += np.bincount(places, minlength=self._counts.size)

    def _share(self, bounds: tuple[int, int], shift: int = 0) -> float:
        """Share of the values that lie within ``bounds`` after ``shift`` is added to them."""
        low, high = (min(max(bound - shift - LOWEST, 0), self._counts.size - 1) for bound in bounds)
        return float(self._counts[low : high + 1].sum() / self._counts.sum())

    def _fits(self, shift: int) -> bool:
        return min(self._share(AIR_HU, shift), self._share(TISSUE_HU, shift)) >= MIN_SHARE

    def fault(self) -> str | None:
        """What speaks against Hounsfield units, or ``None``.

        Raises:
            ValueError: no slice was added.
        """
        if not self._slices:
            raise ValueError("no slice was added")
        if not self._counts.any():
            return "holds no voxel that is a number"
        if self._lowest == self._highest:
            return f"holds the one value {self._lowest:g} everywhere"
        air, tissue = self._share(AIR_HU), self._share(TISSUE_HU)
        if air > 1 - MIN_SHARE:
            return f"shows air alone: {air:.1%} of its voxels lie between {AIR_HU[0]} and {AIR_HU[1]} HU"
        for share, kind, cause in ((air, "air", "was never applied"), (tissue, "soft tissue", "was applied twice")):
            if share < MIN_SHARE:
                return f"is not in HU: {share:.1%} of its voxels look like {kind}, as if the intercept {cause}"
        return None

    def mistake(self, intercepts: Sequence[int]) -> str | None:
        """As :meth:`fault`, but only what is beyond doubt: with one of the intercepts more, or less, it is a CT.

        A volume of air alone is no such case.

        Args:
            intercepts: rescale intercepts that the source's scanners use, such as -1024.
        """
        if self.fault() is None or not self._counts.any():
            return None
        for intercept in intercepts:
            if self._fits(-intercept):
                return f"is not in HU: its rescale intercept of {intercept} was applied twice"
            if self._fits(intercept):
                return f"is not in HU: its rescale intercept of {intercept} was never applied"
        return None

    def require(self, where: str) -> None:
        """Refuse a volume that is not in HU.

        Raises:
            MedhebError: naming the volume and the fault.
        """
        if fault := self.fault():
            raise MedhebError(where, fault, REMEDY)
