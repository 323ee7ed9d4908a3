"""Pictures as the Qwen vision towers want them: sizes from the published rules, then patches. Plain arrays, no torch.

The sizes are arithmetic on width and height, so they are known before a picture is decoded. Rules: the repositories
QwenLM/Qwen2-VL and QwenLM/Qwen3-VL (``qwen-vl-utils`` 0.0.14) and the image processors of transformers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from medheb.core.errors import MedhebError

Size = tuple[int, int]  # width, height
MAX_ASPECT = 200
# qwen-vl-utils 0.0.14: a frame costs at least 128 and at most 768 tokens of 32 x 32 pixels, before the common budget.
FRAME_MIN_PIXELS = 128 * 32 * 32
FRAME_MAX_PIXELS = 768 * 32 * 32
MIN_EXCESS = 1.05


@dataclass(frozen=True)
class Fit:
    """Both sides to multiples of ``factor``, the area between ``least`` and ``most`` pixels, aspect nearly kept."""

    factor: int
    least: int
    most: int

    def size(self, size: Size) -> Size:
        """The fitted size.

        Raises:
            MedhebError: one side is more than 200 times the other.
        """
        width, height = size
        if max(size) > MAX_ASPECT * min(size):
            raise MedhebError(
                f"a picture of {width} x {height} pixels",
                f"is more than {MAX_ASPECT} times as long as it is wide",
                "Build its source again, or leave its task out",
            )
        factor = self.factor
        fitted = (max(factor, round(width / factor) * factor), max(factor, round(height / factor) * factor))
        if fitted[0] * fitted[1] > self.most:
            shrink = math.sqrt(width * height / self.most)
            return (_down(width / shrink, factor), _down(height / shrink, factor))
        if fitted[0] * fitted[1] < self.least:
            grow = math.sqrt(self.least / (width * height))
            return (math.ceil(width * grow / factor) * factor, math.ceil(height * grow / factor) * factor)
        return fitted


def _down(side: float, factor: int) -> int:
    return max(factor, math.floor(side / factor) * factor)


def frames_fit(count: int, total_pixels: int, factor: int = 32) -> Fit:
    """The rule for ``count`` frames that share ``total_pixels`` (pairs of frames are one step in time)."""
    share = max(min(FRAME_MAX_PIXELS, total_pixels // count * 2), int(FRAME_MIN_PIXELS * MIN_EXCESS))
    return Fit(factor, FRAME_MIN_PIXELS, share)


def resized(image: Image.Image, sizes: Sequence[Size]) -> NDArray[np.uint8]:
    """uint8 [height, width, 3]: RGB, resized (bicubic, antialiased) to each size in turn."""
    rgb = image.convert("RGB")
    for size in sizes:
        if rgb.size != size:
            rgb = rgb.resize(size, Image.Resampling.BICUBIC)
    return np.asarray(rgb, dtype=np.uint8)


@dataclass(frozen=True)
class Grid:
    """How a vision tower cuts pictures.

    Args:
        patch: side of a patch in pixels.
        merge: patches a side that become one token.
        temporal: frames of one step in time.
        mean, std: of the normalised channels, on a scale of 0 to 1.
    """

    patch: int
    merge: int
    temporal: int
    mean: tuple[float, float, float]
    std: tuple[float, float, float]

    @property
    def factor(self) -> int:
        """Side of a token in pixels."""
        return self.patch * self.merge

    def tokens(self, size: Size, steps: int = 1) -> int:
        """Tokens of a picture, or of ``steps`` steps in time."""
        return steps * (size[0] // self.factor) * (size[1] // self.factor)

    def steps(self, frames: int) -> int:
        """Steps in time of so many frames; the last frame is repeated where they do not fill a step."""
        return -(-frames // self.temporal)

    def thw(self, size: Size, steps: int = 1) -> tuple[int, int, int]:
        """Patches in time, down and across, as the towers take them."""
        return (steps, size[1] // self.patch, size[0] // self.patch)

    def patches(self, frames: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Patches of uint8 frames [t, height, width, 3] as the towers order them.

        Returns:
            uint8 [steps * rows * columns, channels, temporal, patch, patch]; a single picture fills its step alone,
            so ``temporal`` is then 1 and :func:`normalised` repeats it.
        """
        count, height, width, _ = frames.shape
        depth = 1 if count == 1 else self.temporal
        if count % depth:
            frames = np.concatenate([frames, np.repeat(frames[-1:], depth - count % depth, axis=0)])
        rows, columns = height // self.factor, width // self.factor
        cut = frames.reshape(-1, depth, rows, self.merge, self.patch, columns, self.merge, self.patch, 3)
        ordered = cut.transpose(0, 2, 5, 3, 6, 8, 1, 4, 7)
        return np.ascontiguousarray(ordered).reshape(-1, 3, depth, self.patch, self.patch)
