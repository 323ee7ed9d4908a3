"""The rule book of regions: from a mask or published corners to the crop that is written.

A box is half-open in whole pixels: it holds the columns ``left <= x < right`` and the rows ``top <= y < bottom``.
Each published program has its own way at the borders. Those ways are kept, under names that begin with ``published``
or behind a switch, so that published pictures can be made again; all else is what a careful reader would do.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
from PIL import Image

from medheb.core.errors import MedhebError
from medheb.imaging.volume import Array

LEAST_SIDE = 28
MERGE_OVERLAP = 0.5
MERGE_COVERED = 0.7
MEND_ROW = "Mend the row or take it out; the other rows are built"

Raster = TypeVar("Raster", Array, Image.Image)


class PixelBox(NamedTuple):
    """Columns ``left`` to ``right`` and rows ``top`` to ``bottom``, ends excluded. Corners may be out of order."""

    left: int
    top: int
    right: int
    bottom: int

    @property
    def width(self) -> int:
        """Columns; negative if the corners are swapped."""
        return self.right - self.left

    @property
    def height(self) -> int:
        """Rows; negative if the corners are swapped."""
        return self.bottom - self.top

    @property
    def area(self) -> int:
        """Pixels; 0 for an empty box and for swapped corners."""
        return max(0, self.width) * max(0, self.height)

    @property
    def empty(self) -> bool:
        """True if not one pixel lies inside."""
        return self.width <= 0 or self.height <= 0


def whole_number(value: object, what: str, where: str | Path) -> int:
    """A coordinate as people write it (number or text of one), its fraction cut off.

    Args:
        value: from a table or JSON file.
        what: name of the column or key, for the message.
        where: file and row, for the message.

    Raises:
        MedhebError: empty, no number, not finite, or too large to be a pixel.
    """
    if value is None or (isinstance(value, str) and not value.strip()):
        raise MedhebError(where, f"has no {what}", MEND_ROW)
    try:
        number = float(value) if isinstance(value, (str, int, float, np.number)) else math.inf
    except (ValueError, OverflowError):
        raise MedhebError(where, f"has a corner that is no number: {what} {str(value)[:40]!r}", MEND_ROW) from None
    if isinstance(value, (bool, np.bool_)) or not abs(number) < 1 << 31:
        raise MedhebError(where, f"has a corner that is no pixel position: {what} {str(value)[:40]!r}", MEND_ROW)
    return int(number)


def read_corners(corners: Sequence[object], where: str | Path) -> PixelBox:
    """Published corners ``(x1, y1, x2, y2)`` as a box: fractions cut off, numbers as text allowed.

    The result may be negative, swapped or outside of the picture: :func:`sound_box` or one of the published ways
    decides about that.

    Raises:
        MedhebError: a corner that is missing, no number, or not finite.
    """
    x1, y1, x2, y2 = (
        whole_number(value, name, where) for name, value in zip(("x1", "y1", "x2", "y2"), corners, strict=True)
    )
    return PixelBox(x1, y1, x2, y2)


def not_negative(box: PixelBox) -> PixelBox:
    """Negative corners moved to 0; nothing else. The published way before :func:`grow`."""
    return PixelBox(*(max(0, corner) for corner in box))


def box_of_mask(mask: Array, published_edge: bool = False) -> PixelBox | None:
    """The smallest box around all true pixels of a mask.

    Args:
        mask: shape (H, W); true, or above 0, is the structure.
        published_edge: leave out the last row and the last column, as the published program for polyps does.

    Returns:
        None if the box has no pixel: an empty mask and, with ``published_edge``, one that is one pixel wide or high.
    """
    hits = mask > 0
    rows, columns = np.flatnonzero(hits.any(axis=1)), np.flatnonzero(hits.any(axis=0))
    if rows.size == 0:
        return None
    end = 0 if published_edge else 1
    box = PixelBox(int(columns[0]), int(rows[0]), int(columns[-1]) + end, int(rows[-1]) + end)
    return None if box.empty else box


def box_of_mask_picture(mask: Image.Image) -> PixelBox | None:
    """As :func:`box_of_mask` for a mask picture of any mode: what is above 0 after Pillow's conversion to ``L``.

    Pillow finds the box several times as fast as arrays do.
    """
    grey = mask if mask.mode in {"1", "L"} else mask.convert("L")
    found = grey.getbbox()
    return None if found is None else PixelBox(*found)


def clamp(box: PixelBox, size: tuple[int, int]) -> PixelBox | None:
    """The part of a box inside a picture of ``size`` (width, height); None if there is none."""
    width, height = size
    inside = PixelBox(max(0, box.left), max(0, box.top), min(width, box.right), min(height, box.bottom))
    return None if inside.empty else inside


def published_clamp(box: PixelBox, size: tuple[int, int]) -> PixelBox | None:
    """As :func:`clamp`, but the first corner is moved to the last pixel at most and the second to 0 at least.

    So a box right of or below the picture becomes its last column or row; the published programs for polyps, skin
    and ultrasound do that.
    """
    width, height = size
    inside = PixelBox(
        min(max(0, box.left), width - 1),
        min(max(0, box.top), height - 1),
        min(max(0, box.right), width),
        min(max(0, box.bottom), height),
    )
    return None if inside.empty else inside


def sound_box(box: PixelBox, size: tuple[int, int], where: str | Path) -> PixelBox:
    """A box with its corners in order, cut to a picture of ``size`` (width, height).

    Raises:
        MedhebError: it has no pixel inside the picture.
    """
    ordered = PixelBox(
        min(box.left, box.right), min(box.top, box.bottom), max(box.left, box.right), max(box.top, box.bottom)
    )
    if ordered.empty:
        raise MedhebError(where, f"has a box without area: {tuple(box)}", MEND_ROW)
    inside = clamp(ordered, size)
    if inside is None:
        fault = f"has a box outside of its picture: {tuple(box)} in {size[0]} x {size[1]}"
        raise MedhebError(where, fault, MEND_ROW)
    return inside


def _grow_side(start: int, stop: int, length: int, least: int) -> tuple[int, int]:
    side = max(stop - start, least)
    start = max(0, (start + stop) // 2 - side // 2)
    stop = min(length, start + side)
    return max(0, stop - side), stop


def grow(box: PixelBox, size: tuple[int, int], least: int = LEAST_SIDE) -> PixelBox:
    """The box grown about its centre to at least ``least`` pixels a side and shifted into the picture.

    This is the published rule for X-ray regions, and the rule of both protocols for sound boxes: a larger box keeps
    its place and size unless it crosses a border, then it is moved inside; only a picture that is smaller than the
    box (or than ``least``) cuts it. Swapped corners count as a side of ``least`` at their centre; a box outside ends
    at the border that is nearest.

    Args:
        box: any whole corners.
        size: (width, height) of the picture, at least 1 x 1.
        least: shortest side in pixels.
    """
    left, right = _grow_side(box.left, box.right, size[0], least)
    top, bottom = _grow_side(box.top, box.bottom, size[1], least)
    return PixelBox(left, top, right, bottom)


def _grow_cell_side(start: int, stop: int, length: int, least: int) -> tuple[int, int]:
    side = min(max(stop - start, least), length)
    start = round((start + stop) / 2 - side / 2)  # half to even, as published; exact: halves are binary fractions
    start = min(max(0, start), length - side)
    return start, start + side


def grow_cell(box: PixelBox, size: tuple[int, int], least: int = LEAST_SIDE) -> tuple[PixelBox, bool]:
    """The published rule for nuclei: as :func:`grow`, but halves are rounded to even.

    Args:
        box: box of a mask, inside the picture.
        size: (width, height) of the picture.
        least: shortest side in pixels.

    Returns:
        The box, and whether it was enlarged. A box that fills a short side of the picture counts as not enlarged.
    """
    left, right = _grow_cell_side(box.left, box.right, size[0], least)
    top, bottom = _grow_cell_side(box.top, box.bottom, size[1], least)
    grown = PixelBox(left, top, right, bottom)
    return grown, grown.width > box.width or grown.height > box.height


def largest(boxes: Sequence[PixelBox]) -> PixelBox | None:
    """The box with the largest area, the first of equals; None if there is no box with area."""
    best = max(boxes, key=lambda box: box.area, default=None)
    return best if best is not None and best.area > 0 else None


def _belong_together(one: PixelBox, other: PixelBox) -> bool:
    width = min(one.right, other.right) - max(one.left, other.left)
    height = min(one.bottom, other.bottom) - max(one.top, other.top)
    smaller = min(one.area, other.area)
    if width <= 0 or height <= 0 or smaller == 0:
        return False
    shared = width * height
    return shared / (one.area + other.area - shared) >= MERGE_OVERLAP or shared / smaller >= MERGE_COVERED


def merge(boxes: Sequence[PixelBox], published_order: bool = False) -> list[PixelBox]:
    """Boxes of several readers for one finding, those that mean the same place united.

    The first pair that shares at least half of its union, or 0.7 of the smaller box, is replaced by the box around
    both, which goes to the end of the list; again until no pair is left. The result depends on the order, so the
    boxes are sorted first. Boxes without area are never united.

    Args:
        boxes: of one picture and one finding.
        published_order: keep the order of the file, as the published programs do.
    """
    left = list(boxes) if published_order else sorted(boxes)
    while (pair := _first_pair(left)) is not None:
        one, other = left[pair[0]], left[pair[1]]
        united = PixelBox(
            min(one.left, other.left),
            min(one.top, other.top),
            max(one.right, other.right),
            max(one.bottom, other.bottom),
        )
        left = [box for index, box in enumerate(left) if index not in pair] + [united]
    return left


def _first_pair(boxes: Sequence[PixelBox]) -> tuple[int, int] | None:
    for first in range(len(boxes)):
        for second in range(first + 1, len(boxes)):
            if _belong_together(boxes[first], boxes[second]):
                return first, second
    return None


def cut(picture: Raster, box: PixelBox) -> Raster:
    """The pixels of a box.

    Args:
        picture: Pillow image, or array of shape (H, W) or (H, W, channels); the mode is kept.
        box: inside the picture.

    Raises:
        ValueError: the box is empty or not inside; call :func:`grow` or :func:`clamp` first.
    """
    width, height = picture.size if isinstance(picture, Image.Image) else (picture.shape[1], picture.shape[0])
    if box.empty or clamp(box, (width, height)) != box:
        raise ValueError(f"box {tuple(box)} is not inside a picture of {width} x {height}")
    if isinstance(picture, Image.Image):
        return picture.crop(box)
    return picture[box.top : box.bottom, box.left : box.right]


def target_of(crops: Sequence[str]) -> list[str] | list[list[str]]:
    """Crops of one text as the published records hold them: ``[one]``, but several as a list in a list.

    Raises:
        ValueError: no crop.
    """
    if not crops:
        raise ValueError("a target has at least one crop")
    return list(crops) if len(crops) == 1 else [list(crops)]
