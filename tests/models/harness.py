"""One tiny model as the engine uses it: render, parts, prepare, encode, combine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from pydantic import TypeAdapter
from tiny_checkpoints import picture

from medheb.index.records import Item
from medheb.manifest.model import Adapter as AdapterSettings
from medheb.manifest.networks import NetworkAdapter
from medheb.models.base import Encoder, ImageRef, Prepared, Rendered, Side, Vectors
from medheb.models.networks import open_adapter, open_network
from medheb.models.streams import Decoder

TOWERS = ("siglip", "blip2_itc", "medimageinsight")
STREAMS = ("vlm2vec", "rzen", "qwen3vl")
FOLDERS = {"vlm2vec": "qwen2vl", "rzen": "qwen2vl"}
SETTINGS: dict[str, dict[str, Any]] = {
    "siglip": {},
    "blip2_itc": {},
    "medimageinsight": {"size": 32, "window": 4, "head_width": 4, "text_heads": 2},
    "vlm2vec": {"prompt": "vlm2vec"},
    "rzen": {
        "prompt": "rzen",
        "volumes": "pictures",
        "positions": "plain",
        "image_pixels": [3136, 6272],
        "frame_pixels": [784, 3136],
    },
    # the least volume of the real model has 4,608 tokens: too many for a test
    "qwen3vl": {"volume_pixels": 131072, "frames": 64},
}
IMAGES = {ImageRef(f"{number}.png", f"{number:064x}"): picture(number) for number in range(70)}
REFS = tuple(IMAGES)


def read(ref: ImageRef) -> Image.Image:
    return IMAGES[ref]


def size_of(ref: ImageRef) -> tuple[int, int]:
    return IMAGES[ref].size


def settings_for(name: str, **changes: Any) -> NetworkAdapter:
    content = {
        "name": FOLDERS.get(name, name),
        "weights": {"kind": "folder", "path": "unused"},
        **SETTINGS.get(name, {}),
        **changes,
    }
    made = TypeAdapter[Any](AdapterSettings).validate_python(content)
    assert isinstance(made, NetworkAdapter)
    return made


class Tiny:
    """A tiny model, opened."""

    def __init__(self, settings: NetworkAdapter, folder: Path, lora: Path | None = None) -> None:
        self.settings = settings
        self.adapter = open_adapter(settings, folder, lora)
        self.encoder: Encoder = open_network(settings, folder, lora, "cpu")

    def render(
        self, text: str = "", images: Sequence[ImageRef] = (), instruction: str = "", side: Side = "query"
    ) -> Rendered:
        modality = "text" if not images else "image" if len(images) == 1 else "volume"
        return self.adapter.render(Item(modality, text, tuple(ref.path for ref in images)), instruction, side, images)

    def prepared(self, rendered: Rendered) -> list[Prepared]:
        return [self.adapter.prepare(part, read) for part in self.adapter.parts(rendered)]

    def vector(self, text: str = "", images: Sequence[ImageRef] = (), instruction: str = "") -> Vectors:
        rendered = self.render(text, images, instruction)
        prepared = self.prepared(rendered)
        pictures = [part for part in prepared if "pixels" in part.arrays]
        others = [part for part in prepared if "pixels" not in part.arrays]
        rows = [self.encoder.encode(group) for group in (pictures, others) if group]
        return self.adapter.combine(rendered, np.concatenate(rows))


def cosine(first: Vectors, second: Vectors) -> float:
    return float(first @ second)


def stream_arrays(
    model: Tiny, text: str = "", images: tuple[ImageRef, ...] = (), instruction: str = ""
) -> Mapping[str, NDArray[Any]]:
    (part,) = model.prepared(model.render(text, images, instruction))
    return part.arrays


def as_text(model: Tiny, ids: NDArray[Any]) -> str:
    """The stream in words, runs of placeholders as one with their number."""
    assert isinstance(model.adapter, Decoder)
    words = [model.adapter.tokenizer.decode([token]) for token in ids.tolist()]
    shown: list[str] = []
    for at, word in enumerate(words):
        if word in ("<|image_pad|>", "<|video_pad|>") and at and words[at - 1] == word:
            continue
        run = next((more for more, other in enumerate(words[at:]) if other != word), len(words) - at)
        shown.append(f"{word}*{run}" if word in ("<|image_pad|>", "<|video_pad|>") else word)
    return "".join(shown)
