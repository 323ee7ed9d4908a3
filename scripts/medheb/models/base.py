"""What a model is to the engine: an adapter without weights, and an encoder with them.

The adapter renders an item into what the model will see, cuts that into parts that are embedded and stored each
under its own key, and turns a part into arrays in a worker process. The encoder turns arrays into vectors in the
process that holds the weights. The adapter then makes one vector of an input out of those of its parts.

The engine (``medheb.embed``) knows nothing else of a model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from medheb.core.digests import json_digest
from medheb.index.records import Item, Modality

Side = Literal["query", "candidate"]
Vectors = NDArray[np.float32]


@dataclass(frozen=True)
class ImageRef:
    """An image by content; ``path`` (in the benchmark folder) only says where to read it.

    Stored vectors are found by ``sha256``, the bytes of the file. ``content`` is the L2 digest of the pixels, where the
    inventory of the source tells it: what must not hang on how a file is compressed uses this one.
    """

    path: str
    sha256: str
    content: str = field(default="", compare=False)


@dataclass(frozen=True)
class Rendered:
    """What a model sees of an input or a part. Fields that an adapter ignores stay empty: equal ones share a key."""

    modality: Modality
    text: str = ""
    instruction: str = ""
    side: str = ""
    images: tuple[ImageRef, ...] = ()

    @cached_property
    def key(self) -> str:
        """Digest of the content: text, instruction, side, modality and image bytes, never paths."""
        return json_digest(
            [self.modality, self.text, self.instruction, self.side, [image.sha256 for image in self.images]]
        )


@dataclass(frozen=True)
class Prepared:
    """One part, decoded and processed on the CPU: what a worker hands to the encoder.

    Args:
        arrays: under the adapter's own names (``pixel_values``, ``input_ids``); nothing but arrays crosses processes.
            ``cut``, if it is there, is the number of tokens that the adapter cut off a text that is too long.
        tokens: its real length, which padding and the budget of a batch count.
    """

    arrays: Mapping[str, NDArray[Any]]
    tokens: int


ReadImage = Callable[[ImageRef], Image.Image]
SizeOf = Callable[[ImageRef], tuple[int, int]]
"""Width and height of an image in pixels, without decoding it."""


class Adapter(Protocol):
    """A model without its weights.

    Cheap to make; picklable, because it goes to worker processes; hashable: equal adapters render alike. Its module
    imports torch and transformers only inside the functions that need them: every evaluation and worker loads it.
    """

    def render(self, item: Item, instruction: str, side: Side, images: Sequence[ImageRef]) -> Rendered:
        """What the model sees of an item."""
        ...

    def parts(self, rendered: Rendered) -> tuple[Rendered, ...]:
        """What is embedded and stored, each under its own key; at least one.

        A model that reads everything in one stream has one part, the input itself. A dual tower has each image, text
        and instruction as a part, so that all tasks share every image.
        """
        ...

    def combine(self, rendered: Rendered, vectors: Vectors) -> Vectors:
        """One unit vector [d] of an input from those of its parts, [parts, d]."""
        ...

    def tokens(self, part: Rendered, size_of: SizeOf) -> int:
        """Length of a part before anything is decoded; batches are planned with it. At least 1."""
        ...

    def prepare(self, part: Rendered, read_image: ReadImage) -> Prepared:
        """Decode and process a part; runs in worker processes.

        Raises:
            MedhebError: an image that cannot be read, or an input that would have to lose images to fit.
        """
        ...


class Encoder(Protocol):
    """The weights, loaded in the process that uses the device."""

    dimension: int

    def encode(self, prepared: Sequence[Prepared]) -> Vectors:
        """Vectors, float32 [len(prepared), dimension], finite.

        A row depends on the other rows at most by the noise of the number format. All parts are of one modality,
        the longest first.
        """
        ...


@runtime_checkable
class CutsTexts(Protocol):
    """An encoder whose library cuts texts by itself, so that no adapter can count them."""

    def cut(self, prepared: Sequence[Prepared]) -> list[bool]:
        """Which of these are texts longer than the model reads."""
        ...


def render_content(item: Item, images: Sequence[ImageRef]) -> Rendered:
    """Text and images, without instruction and side: for models that were never trained on instructions."""
    return Rendered(item.modality, text=item.text, images=tuple(images))
