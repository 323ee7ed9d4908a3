"""An image tower and a text tower, joined by a bridge, as one embedding model.

A vector has three blocks: image space, the shared (bridge) space and text space. Images fill the
first two, texts the last two, so images meet images in their own space, texts meet texts in theirs,
and the two meet in the bridge. Several fields of one input (the slices of a volume, a question
beside an image) are averaged, as the paper does for its dual towers (section 5.1).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from medheb.models.base import ReadImage, Rendered, Vectors
from medheb.models.bridge import FittedBridge, unit_rows
from medheb.models.towers import ImageEncoder, TextEncoder

HALF = np.float32(0.5**0.5)


class DualEncoder:
    """Two loaded towers and their bridge."""

    def __init__(self, images: ImageEncoder, texts: TextEncoder, bridge: FittedBridge) -> None:
        self.images = images
        self.texts = texts
        self.bridge = bridge

    def encode(self, inputs: Sequence[Rendered], read_image: ReadImage) -> Vectors:
        """Unit vectors, float32 [n, image dimension + 2 x text dimension]."""
        refs = {image.sha256: image for rendered in inputs for image in rendered.images}
        texts = sorted({rendered.text for rendered in inputs if rendered.text})
        image_size, text_size = self.bridge.weight.shape
        fields: dict[str, Vectors] = {}
        if refs:
            features = self.images(read_image(ref) for ref in refs.values())
            blocks = [
                HALF * self.bridge.centred_image(features),
                HALF * self.bridge.bridged_image(features),
                np.zeros((len(refs), text_size), dtype=np.float32),
            ]
            fields |= {f"image:{sha}": row for sha, row in zip(refs, np.hstack(blocks), strict=True)}
        if texts:
            vectors = self.texts(texts)
            blocks = [
                np.zeros((len(texts), image_size), dtype=np.float32),
                HALF * self.bridge.centred_text(vectors),
                HALF * vectors,
            ]
            fields |= {f"text:{text}": row for text, row in zip(texts, np.hstack(blocks), strict=True)}
        return unit_rows(np.stack([self._mean_of_fields(rendered, fields) for rendered in inputs]))

    @staticmethod
    def _mean_of_fields(rendered: Rendered, fields: dict[str, Vectors]) -> Vectors:
        parts: list[Vectors] = []
        if rendered.images:
            parts.append(np.mean([fields[f"image:{image.sha256}"] for image in rendered.images], axis=0))
        if rendered.text:
            parts.append(fields[f"text:{rendered.text}"])
        mean: Vectors = np.mean(parts, axis=0)
        return mean
