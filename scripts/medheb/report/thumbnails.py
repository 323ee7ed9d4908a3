"""Small pictures for the page, as data URIs."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

import numpy as np
from PIL import Image

from medheb.index.records import Item

SIDE = 128
TILES = 3  # a montage has so many slices a side
QUALITY = 82


class Thumbnails:
    """Makes the thumbnails of one task; ``folder`` is what its image paths start from."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made: dict[str, str | None] = {}
        self._montages: dict[tuple[str, ...], str | None] = {}

    def of(self, item: Item) -> tuple[tuple[str, ...], str]:
        """Data URIs of an item and a line about them: an image, or middle slice and montage of a volume."""
        if not item.images:
            return (), ""
        count = len(item.images)
        if item.modality == "image":
            made = [self._thumbnail(path) for path in item.images[:3]]
            note = ""
        else:
            made, note = [self._thumbnail(item.images[count // 2])], _slices(count)
            if count > 1:
                made.append(self._montage(item.images))
        pictures = tuple(uri for uri in made if uri is not None)
        if len(pictures) < len(made):
            note = "a picture of it could not be read"
        return pictures, note

    def _montage(self, paths: Sequence[str]) -> str | None:
        """Up to nine slices, evenly spaced from the first to the last, in rows; None if one cannot be read."""
        count = min(len(paths), TILES**2)
        chosen = tuple(paths[round(step * (len(paths) - 1) / (count - 1))] for step in range(count))
        if chosen not in self._montages:
            tile = SIDE // TILES
            slices = [read_small(self._folder / path, tile) for path in chosen]
            sheet = Image.new("L", (tile * TILES, tile * -(-count // TILES)))
            for place, small in enumerate(slices):
                if small is not None:
                    if small.mode == "RGB" and sheet.mode == "L":
                        sheet = sheet.convert("RGB")
                    sheet.paste(small, (tile * (place % TILES), tile * (place // TILES)))
            self._montages[chosen] = None if None in slices else _jpeg(sheet)
        return self._montages[chosen]

    def _thumbnail(self, path: str) -> str | None:
        if path not in self._made:
            self._made[path] = data_uri(self._folder / path, SIDE)
        return self._made[path]


def _slices(count: int) -> str:
    return "one slice" if count == 1 else f"middle slice, and {min(count, TILES**2)} of {count} slices in order"


def data_uri(path: Path, side: int) -> str | None:
    """JPEG of at most ``side`` x ``side`` pixels as a data URI; None if the file is not a readable picture."""
    small = read_small(path, side)
    return None if small is None else _jpeg(small)


def read_small(path: Path, side: int) -> Image.Image | None:
    """A picture of at most ``side`` x ``side`` pixels with 8 bits; None if the file is not a readable picture."""
    try:
        with Image.open(path) as image:
            image.load()
            small = _eight_bit(image)
    except (OSError, ValueError, Image.DecompressionBombError):
        return None
    small = small.copy()
    small.thumbnail((side, side), Image.Resampling.LANCZOS)
    return small


def _jpeg(picture: Image.Image) -> str:
    stream = BytesIO()
    picture.save(stream, "JPEG", quality=QUALITY, optimize=True)
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
