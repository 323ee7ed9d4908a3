"""From a mask to a picture of the structure: box, field of view in mm, square PNG size.

Resampling runs on uint8 in Pillow, whose arithmetic is in whole numbers: the same pixels on every machine.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from PIL import Image

from medheb.core.errors import MedhebError
from medheb.imaging.volume import Array
from medheb.imaging.windows import Picture


@dataclass(frozen=True)
class Box:
    """Smallest box around a mask; ends are exclusive, one entry an axis."""

    start: tuple[int, ...]
    stop: tuple[int, ...]

    @property
    def centre(self) -> tuple[float, ...]:
        """Middle of the box in continuous index coordinates, where voxel i covers [i, i + 1)."""
        return tuple((a + b) / 2 for a, b in zip(self.start, self.stop, strict=True))


def mask_box(mask: Array, what: str) -> Box:
    """Box around the true voxels of a mask of any dimension.

    Args:
        mask: boolean array.
        what: file and label, for the message.

    Raises:
        MedhebError: the mask is empty.
    """
    starts, stops = [], []
    for axis in range(mask.ndim):
        others = tuple(other for other in range(mask.ndim) if other != axis)
        hits = np.flatnonzero(mask.any(axis=others))
        if hits.size == 0:
            raise MedhebError(what, "is an empty label: not one voxel", "Remove it from the manifest or mend the mask")
        starts.append(int(hits[0]))
        stops.append(int(hits[-1]) + 1)
    return Box(tuple(starts), tuple(stops))


def crop_square(
    picture: Picture,
    centre: tuple[float, float],
    field_of_view: float,
    spacing: tuple[float, float],
    side: int,
) -> Picture:
    """A square field of view around a point, black outside the picture.

    Args:
        picture: shape (H, W).
        centre: row and column in continuous coordinates (pixel i covers [i, i + 1)), inside the picture.
        field_of_view: side of the field in mm.
        spacing: row and column size in mm.
        side: side of the result in pixels.

    Returns:
        Shape (side, side).
    """
    half = [field_of_view / 2 / size for size in spacing]
    pad = [math.ceil(extent) + 1 for extent in half]
    padded = np.pad(picture, ((pad[0], pad[0]), (pad[1], pad[1])))
    top, left = centre[0] + pad[0] - half[0], centre[1] + pad[1] - half[1]
    box = (left, top, left + 2 * half[1], top + 2 * half[0])
    resized = Image.fromarray(padded).resize((side, side), Image.Resampling.BILINEAR, box=box)
    return np.asarray(resized)


def square_pixels(picture: Picture, spacing: tuple[float, float], longest: int) -> Picture:
    """Resample a whole picture to square pixels with its longer side ``longest`` pixels long.

    Args:
        picture: shape (H, W).
        spacing: row and column size in mm.
        longest: pixels of the longer side.
    """
    height, width = picture.shape[0] * spacing[0], picture.shape[1] * spacing[1]
    scale = longest / max(height, width)
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    return np.asarray(Image.fromarray(picture).resize(size, Image.Resampling.BILINEAR))
