"""A model for the tests of the engine: reads real files, knows lengths beforehand, and can be told to fail.

Its vectors depend on the batch in their last bits, as those of a real network do, so a run that cuts other batches is
found out.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from PIL import Image

from medheb.core.digests import sha256_bytes
from medheb.index.records import Item
from medheb.models.base import ImageRef, Prepared, ReadImage, Rendered, Side, SizeOf, Vectors, render_content

DIMENSION = 6


@dataclass(frozen=True)
class ToyAdapter:
    """One stream; an image is worth its pixels in sixteens, a text its length.

    Args:
        seconds: that a part takes to prepare.
    """

    seconds: float = 0.0

    def render(self, item: Item, instruction: str, side: Side, images: Sequence[ImageRef]) -> Rendered:
        return render_content(item, images)

    def parts(self, rendered: Rendered) -> tuple[Rendered, ...]:
        return (rendered,)

    def combine(self, rendered: Rendered, vectors: Vectors) -> Vectors:
        only: Vectors = vectors[0] / np.linalg.norm(vectors[0])
        return only

    def tokens(self, part: Rendered, size_of: SizeOf) -> int:
        pixels = sum(width * height for width, height in map(size_of, part.images))
        return max(1, pixels // 16 + len(part.text))

    def prepare(self, part: Rendered, read_image: ReadImage) -> Prepared:
        time.sleep(self.seconds)
        images = [read_image(image) for image in part.images]
        grey = [np.asarray(image.convert("L"), dtype=np.float32).ravel() for image in images]
        letters = np.frombuffer(part.text.encode(), dtype=np.uint8).astype(np.float32)
        values = np.concatenate([*grey, letters])
        return Prepared({"values": values}, max(1, sum(len(pixels) for pixels in grey) // 16 + len(part.text)))


@dataclass
class ToyEncoder:
    """Moments of the values, with a little of the batch.

    Args:
        seconds: that a batch takes.
        largest: batches of more tokens than this find no memory.
        fail_at: the batch, counted from 1, that raises ``error``.
    """

    seconds: float = 0.0
    largest: int = 10**9
    fail_at: int = 0
    error: Exception = field(default_factory=lambda: RuntimeError("CUDA error: unspecified launch failure"))
    dimension: int = DIMENSION
    calls: list[tuple[int, int]] = field(default_factory=list)

    def encode(self, prepared: Sequence[Prepared]) -> Vectors:
        longest = max(part.tokens for part in prepared)
        self.calls.append((len(prepared), longest))
        if len(self.calls) == self.fail_at:
            raise self.error
        if len(prepared) * longest > self.largest:
            raise OutOfMemoryError("CUDA out of memory. Tried to allocate 3.00 GiB")
        time.sleep(self.seconds)
        rows = [
            [np.mean(part.arrays["values"] ** power) ** (1 / power) for power in (1, 2, 3, 4, 5)] for part in prepared
        ]
        noise = np.full((len(prepared), 1), 1 + 1e-6 * (len(prepared) * longest % 97))
        return np.hstack([np.array(rows), noise]).astype(np.float32)


class OutOfMemoryError(RuntimeError):
    """Of the same name as torch's."""


def write_pictures(folder: Path, sizes: Sequence[tuple[int, int]]) -> list[ImageRef]:
    """Noisy grey pictures of these widths and heights, and how an adapter names them."""
    rng = np.random.default_rng(0)
    folder.mkdir(parents=True, exist_ok=True)
    refs = []
    for number, (width, height) in enumerate(sizes):
        path = folder / f"{number:03}.png"
        Image.fromarray(rng.integers(0, 255, (height, width), dtype=np.uint8)).save(path)
        refs.append(ImageRef(path.name, sha256_bytes(path.read_bytes())))
    return refs


class DyingAdapter(ToyAdapter):
    """Takes its worker down, as a kernel does that runs out of memory."""

    def prepare(self, part: Rendered, read_image: ReadImage) -> Prepared:
        os._exit(9)
