"""An image tower and a text tower, joined by a bridge, as one embedding model.

A vector has three blocks: image space, the shared (bridge) space and text space. Images fill the
first two, texts the last two, so images meet images in their own space, texts meet texts in theirs,
and the two meet in the bridge. Several fields of one input (the slices of a volume, a question
beside an image) are averaged, as the paper does for its dual towers (section 5.1). Each image and
each text is a part of its own, so every task that shows it shares its vector.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from medheb.index.records import Item
from medheb.manifest.model import ImageTower
from medheb.models.base import ImageRef, Prepared, ReadImage, Rendered, Side, SizeOf, Vectors, render_content
from medheb.models.bridge import FittedBridge, unit_rows
from medheb.models.tower_inputs import image_tokens, network_input, text_ids, tokens_cut

if TYPE_CHECKING:  # torch takes seconds to import; workers and evaluations do without
    from medheb.models.towers import ImageEncoder, TextEncoder

HALF = np.float32(0.5**0.5)


@dataclass(frozen=True)
class DualEncoderAdapter:
    """How the towers see an input.

    Args:
        image: the image tower.
        text_folder: the text tower's folder with its tokenizer.
        max_tokens: longer texts are cut at their end.
    """

    image: ImageTower
    text_folder: Path
    max_tokens: int

    def render(self, item: Item, instruction: str, side: Side, images: Sequence[ImageRef]) -> Rendered:
        """Text and images; the towers know no instructions."""
        return render_content(item, images)

    def parts(self, rendered: Rendered) -> tuple[Rendered, ...]:
        """Each image once per occurrence, then the text."""
        images = tuple(Rendered("image", images=(image,)) for image in rendered.images)
        return (*images, Rendered("text", text=rendered.text)) if rendered.text else images

    def combine(self, rendered: Rendered, vectors: Vectors) -> Vectors:
        """Mean over the images, then with the text; unit length."""
        count = len(rendered.images)
        fields = [vectors[:count].mean(axis=0)] if count else []
        fields += [vectors[count]] if rendered.text else []
        unit: Vectors = unit_rows(np.mean(fields, axis=0)[None])[0]
        return unit

    def tokens(self, part: Rendered, size_of: SizeOf) -> int:
        """Patches of an image, tokens of a text."""
        if part.images:
            return image_tokens(self.image)
        return len(self.ids(part.text))

    def prepare(self, part: Rendered, read_image: ReadImage) -> Prepared:
        """``pixels``, float32 [3, size, size], or ``ids``, int64 [tokens], and how many more were cut off."""
        if part.images:
            return Prepared({"pixels": self.pixels(read_image(part.images[0]))}, tokens=image_tokens(self.image))
        ids = self.ids(part.text)
        cut = tokens_cut(self.text_folder, part.text, self.max_tokens)
        return Prepared({"ids": ids, "cut": np.asarray(cut)}, tokens=len(ids))

    def pixels(self, image: Image.Image) -> NDArray[np.float32]:
        """What the image tower reads, float32 [3, size, size]."""
        return network_input(image, self.image)

    def ids(self, text: str) -> NDArray[np.int64]:
        """What the text tower reads, int64 [tokens]."""
        return text_ids(self.text_folder, text, self.max_tokens)


class DualEncoder:
    """Two loaded towers and their bridge."""

    def __init__(self, images: ImageEncoder, texts: TextEncoder, bridge: FittedBridge) -> None:
        self.images = images
        self.texts = texts
        self.bridge = bridge
        self.dimension = bridge.weight.shape[0] + 2 * bridge.weight.shape[1]

    def encode(self, prepared: Sequence[Prepared]) -> Vectors:
        """float32 [n, image dimension + 2 x text dimension], unit rows."""
        if "pixels" in prepared[0].arrays:
            return self._images([part.arrays["pixels"] for part in prepared])
        return self._texts([part.arrays["ids"] for part in prepared])

    def _images(self, pixels: Sequence[Vectors]) -> Vectors:
        features = self.images(pixels)
        nothing = np.zeros((len(pixels), self.bridge.weight.shape[1]), dtype=np.float32)
        blocks = [HALF * self.bridge.centred_image(features), HALF * self.bridge.bridged_image(features), nothing]
        return np.hstack(blocks)

    def _texts(self, ids: Sequence[NDArray[np.int64]]) -> Vectors:
        vectors = self.texts(ids)
        nothing = np.zeros((len(ids), self.bridge.weight.shape[0]), dtype=np.float32)
        return np.hstack([nothing, HALF * self.bridge.centred_text(vectors), HALF * vectors])
