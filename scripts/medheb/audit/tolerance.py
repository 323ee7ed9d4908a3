"""L3: sameness within a tolerance. Declared for radiographs projected from CT only (inventory fact ``projector``).

Their grey values are rounded from exponentials and logarithms, whose last bits depend on the processor: with its vector
instructions switched off, the same CT gave another grey level in one pixel of one radiograph.

A picture is described by the means of a grid of blocks. Two pictures are within tolerance if they have the same mode
and size, no block's mean differs by more than half a grey level, and the PSNR over the grid is high. What stays inside
one block and moves its mean by less is not seen. See docs/determinism.md.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from io import BytesIO
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

TAG = "grid1"
SIDE = 32  # blocks a side
STEPS = 256  # steps of a stored mean per grey level
LARGEST = 0.5  # grey levels, of any block
PSNR = 55.0  # dB over the grid, peak 255
PATTERN = rf"^{TAG}:[A-Z0-9;]+:[0-9]+x[0-9]+:[A-Za-z0-9+/=]+$"
TOLERANT_PROJECTORS = frozenset({"release", "cone", "deepdrr"})


class Grid(NamedTuple):
    """Mode and size of a picture, and the means of its blocks, (32, 32) in grey levels."""

    mode: str
    size: str
    means: NDArray[np.float64]


def grid_digest(content: bytes) -> str | None:
    """L3 description of an encoded 8-bit picture: tag, mode, size, block means as base64 of big-endian 16-bit numbers.

    None for a picture that is not 8-bit grey or is smaller than the grid: it has no tolerance.

    Raises:
        OSError: not a readable picture.
    """
    with Image.open(BytesIO(content)) as image:
        if image.mode != "L" or min(image.size) < SIDE:
            return None
        samples = np.asarray(image, dtype=np.int64)
    height, width = samples.shape
    rows, columns = (np.arange(SIDE) * length // SIDE for length in (height, width))
    sums = np.add.reduceat(np.add.reduceat(samples, rows, axis=0), columns, axis=1)
    counts = np.outer(np.diff([*rows, height]), np.diff([*columns, width]))
    means = (sums * STEPS + counts // 2) // counts  # whole numbers: the same on every processor
    text = base64.b64encode(means.astype(">u2").tobytes()).decode("ascii")
    return f"{TAG}:L:{width}x{height}:{text}"


def read_grid(text: str) -> Grid:
    """Inverse of :func:`grid_digest`.

    Raises:
        ValueError: not such a description.
    """
    if not re.match(PATTERN, text):
        raise ValueError("not an L3 grid")
    _, mode, size, packed = text.split(":")
    try:
        values = np.frombuffer(base64.b64decode(packed, validate=True), dtype=">u2")
        return Grid(mode, size, values.reshape(SIDE, SIDE).astype(np.float64) / STEPS)
    except (binascii.Error, ValueError) as error:
        raise ValueError("not an L3 grid") from error


def compare_grids(recorded: str, found: str) -> tuple[bool, str]:
    """Whether two descriptions are within tolerance, and by how much they differ, in words."""
    try:
        one, other = read_grid(recorded), read_grid(found)
    except ValueError:
        return False, "its L3 record cannot be read"
    if (one.mode, one.size) != (other.mode, other.size):
        return False, f"is {other.mode} {other.size}, not {one.mode} {one.size}"
    apart = np.abs(one.means - other.means)
    largest, square = float(apart.max()), float(np.mean(apart**2))
    psnr = math.inf if square == 0 else 10 * math.log10(255**2 / square)
    words = f"blocks differ by up to {largest:.2f} grey levels, PSNR {psnr:.1f} dB"
    return largest <= LARGEST and psnr >= PSNR, words
