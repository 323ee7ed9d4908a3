"""An image tower and a text tower, joined by a bridge, as one embedding model.

A vector has three blocks: image space, the shared (bridge) space and text space. Images fill the
first two, texts the last two, so images meet images in their own space, texts meet texts in theirs,
and the two meet in the bridge. Several fields of one input (the slices of a volume, a question
beside an image) are averaged, as the paper does for its dual towers (section 5.1).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from medheb.models.base import ImageRef, ReadImage, Rendered, Vectors
from medheb.models.bridge import FittedBridge, unit_rows
from medheb.models.towers import ImageEncoder, TextEncoder

HALF = np.float32(0.5**0.5)


class DualEncoder:
    """Two loaded towers and their bridge."""

    def __init__(self, images: ImageEncoder, texts: TextEncoder, bridge: FittedBridge) -> None:
        self.images = images
        self.texts = texts
        self.bridge = bridge
        # Fields seen so far: slices of volumes are shared with each other and with single images.
        self._fields: dict[str, Vectors] = {}

    def encode(self, inputs: Sequence[Rendered], read_image: ReadImage) -> Vectors:
        """Unit vectors, float32 [n, image dimension + 2 x text dimension]."""
        refs = {f"image:{image.sha256}": image for rendered in inputs for image in rendered.images}
        texts = {f"text:{rendered.text}": rendered.text for rendered in inputs if rendered.text}
        self._add_images({name: ref for name, ref in refs.items() if name not in self._fields}, read_image)
        self._add_texts({name: text for name, text in sorted(texts.items()) if name not in self._fields})
        return unit_rows(np.stack([self._mean_of_fields(rendered) for rendered in inputs]))

    def _add_images(self, refs: dict[str, ImageRef], read_image: ReadImage) -> None:
        if not refs:
            return
        features = self.images(read_image(ref) for ref in refs.values())
        blocks = [
            HALF * self.bridge.centred_image(features),
            HALF * self.bridge.bridged_image(features),
            np.zeros((len(refs), self.bridge.weight.shape[1]), dtype=np.float32),
        ]
        self._fields.update(zip(refs, np.hstack(blocks), strict=True))

    def _add_texts(self, texts: dict[str, str]) -> None:
        if not texts:
            return
        vectors = self.texts(list(texts.values()))
        blocks = [
            np.zeros((len(texts), self.bridge.weight.shape[0]), dtype=np.float32),
            HALF * self.bridge.centred_text(vectors),
            HALF * vectors,
        ]
        self._fields.update(zip(texts, np.hstack(blocks), strict=True))

    def _mean_of_fields(self, rendered: Rendered) -> Vectors:
        parts: list[Vectors] = []
        if rendered.images:
            parts.append(np.mean([self._fields[f"image:{image.sha256}"] for image in rendered.images], axis=0))
        if rendered.text:
            parts.append(self._fields[f"text:{rendered.text}"])
        mean: Vectors = np.mean(parts, axis=0)
        return mean
