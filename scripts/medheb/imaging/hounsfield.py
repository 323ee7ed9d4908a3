"""Does a CT hold Hounsfield units? Checked slice by slice, because slope and intercept get applied twice, or never."""

from __future__ import annotations

import numpy as np

from medheb.core.errors import MedhebError
from medheb.imaging.volume import Array

# Two straight facts about a body in a scanner: air around it or in it, and soft tissue. The limits are ours.
AIR_HU, TISSUE_HU = (-1100, -700), (-200, 200)
MIN_SHARE = 0.01
# Every second voxel of every second row tells the shares of a slice well enough.
STEP = 2


class HounsfieldCheck:
    """Shares of air and soft tissue, collected slice by slice."""

    def __init__(self) -> None:
        self._voxels = self._air = self._tissue = 0

    def add(self, plane: Array) -> None:
        """Count one slice."""
        sample = plane[::STEP, ::STEP]
        self._voxels += sample.size
        self._air += int(np.count_nonzero((sample >= AIR_HU[0]) & (sample <= AIR_HU[1])))
        self._tissue += int(np.count_nonzero((sample >= TISSUE_HU[0]) & (sample <= TISSUE_HU[1])))

    def fault(self) -> str | None:
        """What speaks against Hounsfield units, or ``None``.

        Raises:
            ValueError: no slice was added.
        """
        if not self._voxels:
            raise ValueError("no slice was added")
        air, tissue = self._air / self._voxels, self._tissue / self._voxels
        for share, kind, cause in ((air, "air", "was never applied"), (tissue, "soft tissue", "was applied twice")):
            if share < MIN_SHARE:
                return f"is not in HU: {share:.1%} of its voxels look like {kind}, as if the intercept {cause}"
        return None

    def require(self, where: str) -> None:
        """Refuse a volume that is not in HU.

        Raises:
            MedhebError: naming the volume and the fault.
        """
        if fault := self.fault():
            raise MedhebError(where, fault, "Give a CT with its rescale slope and intercept applied exactly once")
