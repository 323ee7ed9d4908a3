"""What an adapter is: it renders an item into what the model will see, and encodes a batch of those.

The engine (``medheb.embed``) knows nothing else of a model. The key of a rendered input is all
that decides whether a vector is computed or taken from the store.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from medheb.core.digests import json_digest
from medheb.index.records import Item, Modality

Side = Literal["query", "candidate"]
Vectors = NDArray[np.float32]


@dataclass(frozen=True)
class ImageRef:
    """An image by content; ``path`` (in the benchmark folder) only says where to read it."""

    path: str
    sha256: str


@dataclass(frozen=True)
class Rendered:
    """What a model sees of one input. Fields that an adapter ignores stay empty: equal inputs share a key."""

    modality: Modality
    text: str = ""
    instruction: str = ""
    side: str = ""
    images: tuple[ImageRef, ...] = ()

    @property
    def key(self) -> str:
        """Digest of the content: text, instruction, side, modality and image bytes, never paths."""
        return json_digest(
            [self.modality, self.text, self.instruction, self.side, [image.sha256 for image in self.images]]
        )


ReadImage = Callable[[ImageRef], Image.Image]


class Encoder(Protocol):
    """An adapter with its weights loaded."""

    def encode(self, inputs: Sequence[Rendered], read_image: ReadImage) -> Vectors:
        """Unit vectors, float32 [len(inputs), dimension].

        Rows must not depend on what else is in the batch: a resumed run has other batches.
        """
        ...


def render_content(item: Item, instruction: str, side: Side, images: Sequence[ImageRef]) -> Rendered:
    """Text and images, without instruction and side: for models that were never trained on instructions."""
    return Rendered(item.modality, text=item.text, images=tuple(images))
