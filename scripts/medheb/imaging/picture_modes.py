"""What becomes of pixel formats that a picture viewer or a model does not expect."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

import numpy as np
from PIL import Image

from medheb.core.errors import MedhebError
from medheb.imaging.volume import Array
from medheb.imaging.windows import Picture

KEPT_BY_PANNUKE = frozenset({"1", "L", "LA", "P", "RGB", "RGBA", "I", "I;16"})
DEEP = ("I", "F")
BEHIND_ALPHA = 255


class Modes(StrEnum):
    """Rules for pixel formats. The first two are for ``corrected`` builds, the others are what published programs do.

    * ``EIGHT_BIT``: grey stays grey (``L``), all else becomes ``RGB``. Alpha that hides something is laid over white,
      as a page shows it. More than 8 bits are stretched from the picture's darkest to its brightest value, the rule
      that radiographs without a window follow.
    * ``COLOUR``: the same, and grey becomes ``RGB`` too.
    * ``AS_STORED``: nothing is converted.
    * ``PLAIN_RGB``: Pillow's ``convert("RGB")``: alpha is dropped, more than 8 bits are cut off at 255.
    * ``PANNUKE``: 1, L, LA, P, RGB, RGBA, I and I;16 stay, all else as ``PLAIN_RGB``.
    """

    EIGHT_BIT = "L or RGB"
    COLOUR = "RGB"
    AS_STORED = "as stored"
    PLAIN_RGB = "plain RGB"
    PANNUKE = "PanNuke modes"


def _stretched(image: Image.Image, where: str | Path) -> Image.Image:
    """Grey of more than 8 bits to ``L``: darkest to 0, brightest to 255, rounded half up; one value alone is black."""
    values = np.asarray(image).astype(np.float64)
    if not np.isfinite(values).all():
        raise MedhebError(where, "holds pixels that are no finite numbers", "Mend the picture or take it out")
    low, high = values.min(), values.max()
    if low == high:
        return Image.new("L", image.size)
    return Image.fromarray(np.floor((values - low) * (255 / (high - low)) + 0.5).astype(np.uint8))


def _over_white(image: Image.Image) -> tuple[Image.Image, bool]:
    """Without alpha, and whether something was hidden."""
    full = image.convert("RGBA")
    alpha = full.getchannel("A")
    grey = image.mode in {"1", "L", "LA", "La"}
    if alpha.getextrema() == (255, 255):
        return full.convert("L" if grey else "RGB"), False
    page = Image.new("RGBA", image.size, (BEHIND_ALPHA,) * 3 + (255,))
    page.alpha_composite(full)
    return page.convert("L" if grey else "RGB"), True


def _eight_bit(image: Image.Image, where: str | Path) -> tuple[Image.Image, list[str]]:
    if image.mode.startswith(DEEP):
        return _stretched(image, where), ["more than 8 bits, stretched to 8"]
    if image.mode in {"La", "RGBa"}:
        image = image.convert({"La": "LA", "RGBa": "RGBA"}[image.mode])
    if image.has_transparency_data:
        flat, hidden = _over_white(image)
        return flat, ["alpha, laid over white" if hidden else "alpha that hides nothing, dropped"]
    if image.mode in {"L", "RGB"}:
        return image, []
    if image.mode == "1":
        return image.convert("L"), ["1 bit to 8"]
    return image.convert("RGB"), [f"{image.mode} to RGB"]


def convert(image: Image.Image, modes: Modes, where: str | Path) -> tuple[Image.Image, list[str]]:
    """A picture under a rule, and fixed phrases about what was changed.

    Raises:
        MedhebError: pixels that are not finite, or a mode that Pillow cannot convert.
    """
    try:
        if modes is Modes.AS_STORED or (modes is Modes.PANNUKE and image.mode in KEPT_BY_PANNUKE):
            return image, []
        if modes in {Modes.PLAIN_RGB, Modes.PANNUKE}:
            changed = [] if image.mode == "RGB" else [f"{image.mode} to RGB"]
            return image.convert("RGB"), changed
        flat, changes = _eight_bit(image, where)
        if modes is Modes.COLOUR and flat.mode == "L":
            return flat.convert("RGB"), [*changes, "grey to RGB"]
        return flat, changes
    except (ValueError, OSError) as error:
        fault = f"has pixels of mode {image.mode}, which cannot be converted"
        raise MedhebError(where, fault, "Convert the picture to 8 bit grey or RGB") from error


def to_array(image: Image.Image) -> Picture:
    """Pixels of an ``L`` or ``RGB`` picture, shape (H, W) or (H, W, 3), uint8.

    Raises:
        ValueError: another mode; decode with ``EIGHT_BIT``, ``COLOUR`` or ``PLAIN_RGB``.
    """
    if image.mode not in {"L", "RGB"}:
        raise ValueError(f"a picture of mode {image.mode} has no 8 bit grey or RGB pixels")
    return np.asarray(image)


def to_mask(image: Image.Image, threshold: int = 0) -> Array:
    """True where a mask picture is brighter than ``threshold``, shape (H, W).

    Grey of more than 8 bits is compared as it is, any other mode after Pillow's conversion to ``L``.
    """
    values: Array = np.asarray(image if image.mode.startswith(DEEP) else image.convert("L"))
    above: Array = values > threshold
    return above
