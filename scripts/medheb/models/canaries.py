"""Two models that see nothing. Every run contains them: what they score shows whether ranks can be gifted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from medheb.core.digests import json_digest
from medheb.index.records import Item
from medheb.models.base import ImageRef, Prepared, ReadImage, Rendered, Side, SizeOf, Vectors, render_content


@dataclass(frozen=True)
class CanaryAdapter:
    """Hands the digest of the content to the encoder; no image is read."""

    def render(self, item: Item, instruction: str, side: Side, images: Sequence[ImageRef]) -> Rendered:
        """Text and images."""
        return render_content(item, images)

    def parts(self, rendered: Rendered) -> tuple[Rendered, ...]:
        """The input itself."""
        return (rendered,)

    def combine(self, rendered: Rendered, vectors: Vectors) -> Vectors:
        """The only vector."""
        only: Vectors = vectors[0]
        return only

    def tokens(self, part: Rendered, size_of: SizeOf) -> int:
        """All inputs cost the same."""
        return 1

    def prepare(self, part: Rendered, read_image: ReadImage) -> Prepared:
        """``digest``, uint8 [32]: of text and pixels, since PNG bytes depend on the machine that wrote them."""
        content = json_digest([part.modality, part.text, [image.content or image.sha256 for image in part.images]])
        return Prepared({"digest": np.frombuffer(bytes.fromhex(content), dtype=np.uint8)}, tokens=1)


class RandomEncoder:
    """A unit vector drawn from the digest of the content: chance, up to noise, the same on every machine."""

    def __init__(self, dimension: int) -> None:
        self.dimension = dimension

    def encode(self, prepared: Sequence[Prepared]) -> Vectors:
        """float32 [n, dimension]."""
        seeds = [int.from_bytes(part.arrays["digest"].tobytes(), "big") for part in prepared]
        vectors = np.stack(
            [np.random.Generator(np.random.PCG64(seed)).standard_normal(self.dimension) for seed in seeds]
        )
        unit: Vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
        return unit


class ConstantEncoder:
    """The same unit vector for everything: exactly chance, unless ties are gifts."""

    def __init__(self, dimension: int) -> None:
        self.dimension = dimension

    def encode(self, prepared: Sequence[Prepared]) -> Vectors:
        """float32 [n, dimension]."""
        return np.full((len(prepared), self.dimension), self.dimension**-0.5, dtype=np.float32)
