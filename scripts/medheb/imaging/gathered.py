"""A whole volume from the slices of a pass that also serves others, in bounded memory."""

from __future__ import annotations

import numpy as np

from medheb.imaging.axial import affine_of
from medheb.imaging.stored import StoredVolume
from medheb.imaging.volume import Array, Volume, canonical

# What a 512 x 512 scan of 1,100 slices needs. Finer scans are averaged in blocks of 2 x 2 voxels of a slice.
GATHERED_BYTES = 600 * 1000**2


class GatheredVolume:
    """Collects the slices of a volume as stored.

    Args:
        volume: what was opened.
        assumed: axis codes for a volume whose header does not give usable ones.
        max_bytes: more than that is averaged in blocks within each slice; a rest of less than a block is left out.

    Raises:
        MedhebError: no usable orientation and none assumed.
    """

    def __init__(self, volume: StoredVolume, assumed: str | None = None, max_bytes: int = GATHERED_BYTES) -> None:
        self._where = volume.where
        self._affine, self.axis_codes = affine_of(volume, assumed)
        kept = np.dtype(np.int16) if volume.dtype.itemsize <= 2 else np.dtype(np.float32)
        if volume.dtype == np.uint16:
            kept = np.dtype(np.float32)
        rows, columns, count = volume.shape
        self.block = 1
        while (rows // self.block) * (columns // self.block) * count * kept.itemsize > max_bytes:
            self.block *= 2
        self._array: Array = np.empty((rows // self.block, columns // self.block, count), kept, order="F")

    def add(self, index: int, plane: Array) -> None:
        """Take in slice ``index``, as stored."""
        if self.block > 1:
            plane = self._averaged(plane)
        self._array[:, :, index] = plane

    def _averaged(self, plane: Array) -> Array:
        """Means of the blocks, rounded where the volume has integers."""
        rows, columns = self._array.shape[:2]
        end = (rows * self.block, columns * self.block)
        total = np.zeros((rows, columns), np.float32, order="F")  # as slices of the file lie
        for row in range(self.block):
            for column in range(self.block):
                total += plane[row : end[0] : self.block, column : end[1] : self.block]
        total /= np.float32(self.block**2)
        return np.rint(total) if self._array.dtype.kind == "i" else total

    def volume(self) -> Volume:
        """The volume in RAS order.

        Raises:
            MedhebError: the affine cannot be inverted.
        """
        scale = np.diag([self.block, self.block, 1.0, 1.0])
        scale[:2, 3] = (self.block - 1) / 2
        return canonical(self._array, self._affine @ scale, self._where)
