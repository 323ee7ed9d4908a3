"""Small pictures for the page, as data URIs."""

from __future__ import annotations

import base64
from io import BytesIO
from pathlib import Path

import numpy as np
from PIL import Image

from medheb.index.records import Item

SIDE = 128
OUTER_SIDE = 72
QUALITY = 82


class Thumbnails:
    """Makes the thumbnails of one task; ``folder`` is what its image paths start from."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made: dict[tuple[str, int], str | None] = {}

    def of(self, item: Item) -> tuple[tuple[str, ...], str]:
        """Data URIs of an item and a line about them: an image, or middle, first and last slice of a volume."""
        if not item.images:
            return (), ""
        count = len(item.images)
        if item.modality == "image":
            wanted, note = [(place, SIDE) for place in range(min(3, count))], ""
        else:
            middle, outer = count // 2, [place for place in dict.fromkeys((0, count - 1)) if place != count // 2]
            wanted, note = [(middle, SIDE), *((place, OUTER_SIDE) for place in outer)], _slices(count)
        made = [self._thumbnail(item.images[place], side) for place, side in wanted]
        pictures = tuple(uri for uri in made if uri is not None)
        if len(pictures) < len(made):
            note = "a picture of it could not be read"
        return pictures, note

    def _thumbnail(self, path: str, side: int) -> str | None:
        key = (path, side)
        if key not in self._made:
            self._made[key] = data_uri(self._folder / path, side)
        return self._made[key]


def _slices(count: int) -> str:
    return {1: "one slice", 2: "both slices"}.get(count, f"middle, first and last of {count} slices")


def data_uri(path: Path, side: int) -> str | None:
    """JPEG of at most ``side`` x ``side`` pixels as a data URI; None if the file is not a readable picture."""
    try:
        with Image.open(path) as image:
            image.load()
            small = _eight_bit(image)
    except (OSError, ValueError, Image.DecompressionBombError):
        return None
    small.thumbnail((side, side), Image.Resampling.LANCZOS)
    stream = BytesIO()
    small.save(stream, "JPEG", quality=QUALITY, optimize=True)
    return "data:image/jpeg;base64," + base64.b64encode(stream.getvalue()).decode("ascii")


def _eight_bit(image: Image.Image) -> Image.Image:
    """Greyscale or colour with 8 bits; deeper samples are stretched from their least to their greatest value."""
    if image.mode in {"L", "RGB"}:
        return image
    if image.mode.startswith(("I", "F")):
        samples = np.asarray(image).astype(np.float32)
        low, high = float(samples.min()), float(samples.max())
        scaled = (samples - low) * (255 / (high - low) if high > low else 0)
        return Image.fromarray(scaled.round().astype(np.uint8))
    return image.convert("L" if image.mode in {"1", "LA"} else "RGB")
