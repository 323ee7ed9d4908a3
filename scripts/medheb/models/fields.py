"""Models with two towers: pictures, text and instruction are embedded apart, then averaged (paper, section 5.1).

Each picture, text and instruction is a part of its own, so that all tasks share it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from medheb.imaging.sampling import uniform_indices
from medheb.index.records import Item
from medheb.manifest.networks import NetworkAdapter, TowerAdapter
from medheb.models.base import ImageRef, Prepared, ReadImage, Rendered, Side, SizeOf, Vectors
from medheb.models.bridge import unit_rows
from medheb.models.hub_weights import load_tokenizer


def sampled(images: Sequence[ImageRef], frames: int) -> tuple[ImageRef, ...]:
    """All of them, or ``frames`` evenly spaced ones, first and last included (float64 linspace, then floor)."""
    if len(images) <= frames:
        return tuple(images)
    return tuple(images[at] for at in uniform_indices(0, len(images) - 1, frames))


class Checkpoint:
    """What is read from a checkpoint at its first use and never travels to another process.

    Equal settings see an input alike, so such adapters are equal.

    Args:
        settings: of the model's manifest.
        where: gives the checkpoint's folder; asked when the first part is measured or prepared.
    """

    def __init__(self, settings: NetworkAdapter, where: Callable[[], Path]) -> None:
        self.settings = settings
        self._where = where
        self._kept: dict[str, Any] = {}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Checkpoint) and (type(self), self.settings) == (type(other), other.settings)

    def __hash__(self) -> int:
        return hash((type(self), self.settings))

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_kept": {}}

    @property
    def folder(self) -> Path:
        """The checkpoint with tokenizer and image processor."""
        folder: Path = self.kept("folder", self._where)
        return folder

    def kept(self, name: str, make: Callable[[], Any]) -> Any:
        """The value under ``name``, made when it is asked for first."""
        if name not in self._kept:
            self._kept[name] = make()
        return self._kept[name]


class Towers(Checkpoint, ABC):
    """How a dual tower sees an input. Subclasses say how one picture and one text are processed."""

    settings: TowerAdapter

    def render(self, item: Item, instruction: str, side: Side, images: Sequence[ImageRef]) -> Rendered:
        """Fields of an item: its pictures (at most ``frames``), its text, and a query's instruction."""
        shown = instruction.strip() if self.settings.instruction == "field" else ""
        text = item.text if item.text.strip() else ""
        return Rendered(item.modality, text, shown, images=sampled(images, self.settings.frames))

    def parts(self, rendered: Rendered) -> tuple[Rendered, ...]:
        """Each picture, then the text, then the instruction as a text."""
        texts = [text for text in (rendered.text, rendered.instruction) if text]
        return (
            *(Rendered("image", images=(image,)) for image in rendered.images),
            *(Rendered("text", text=text) for text in texts),
        )

    def combine(self, rendered: Rendered, vectors: Vectors) -> Vectors:
        """Mean over pictures, then over fields; scaled to length one."""
        if self.settings.unit_fields:
            vectors = unit_rows(vectors)
        count = len(rendered.images)
        fields = list(vectors[count:])
        if count:
            pictures = vectors[:count].mean(axis=0, keepdims=True)
            fields.insert(0, (unit_rows(pictures) if self.settings.unit_fields else pictures)[0])
        vector: Vectors = unit_rows(np.mean(fields, axis=0, keepdims=True))[0]
        return vector

    def tokens(self, part: Rendered, size_of: SizeOf) -> int:
        """Patches of a picture, whatever its size; tokens of a text as the tower pads them."""
        return self.image_tokens() if part.images else self.text_tokens(part.text)

    def prepare(self, part: Rendered, read_image: ReadImage) -> Prepared:
        """One picture as uint8 [3, height, width], or one text as ``input_ids`` [n]."""
        if part.images:
            pixels = self.pixels(read_image(part.images[0]))
            return Prepared({"pixels": pixels}, self.image_tokens())
        arrays = self.text(part.text)
        return Prepared(arrays, self.text_tokens(part.text))

    @property
    def tokenizer(self) -> Any:
        """The checkpoint's tokenizer."""
        return self.kept("tokenizer", lambda: load_tokenizer(self.text_folder()))

    def text_folder(self) -> Path:
        """Where the tokenizer lies."""
        return self.folder

    def cut(self, text: str, **how: Any) -> Mapping[str, NDArray[Any]]:
        """Token ids [n] within the limit, and how many were cut off at the end."""
        limit = self.settings.max_tokens
        ids = self.tokenizer(text, truncation=True, max_length=limit, **how)["input_ids"]
        whole = len(self.tokenizer(text, truncation=False, verbose=False)["input_ids"])
        return {"input_ids": np.asarray(ids, dtype=np.int64), "cut": np.asarray(max(0, whole - limit))}

    @abstractmethod
    def image_tokens(self) -> int:
        """Patches of any picture."""

    @abstractmethod
    def text_tokens(self, text: str) -> int:
        """Tokens that a text costs."""

    @abstractmethod
    def pixels(self, image: Image.Image) -> NDArray[np.uint8]:
        """uint8 [3, height, width] of one picture, before it is normalised."""

    @abstractmethod
    def text(self, text: str) -> Mapping[str, NDArray[Any]]:
        """Arrays of one text."""
