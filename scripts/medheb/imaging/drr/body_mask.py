"""Body mask of an axial plane: closing, then opening, on 64 pixels at once.

A plane is kept as bits, 64 pixels of a row in one number, so that a window of pixels is a few shifts. That is four
times as fast as on bytes, and the mask is most of what the closed form costs.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from medheb.imaging.volume import Array

BODY_HU = -700
SIDE = 5
# Closing is the largest, then the smallest over 5 x 5; opening the smallest, then the largest. Two smallest over 5
# are one over 9.
WINDOWS = ((SIDE, np.bitwise_or, False), (2 * SIDE - 1, np.bitwise_and, True), (SIDE, np.bitwise_or, False))
# Room in front for half of every window together: each pass leaves a pixel half a window further to the front.
ROOM = 8
WORD = 64
ALL = np.uint64(0xFFFFFFFFFFFFFFFF)

Mask = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint64]


def _bits_ahead(words: Words, count: int) -> Words:
    """Each bit takes the place of the one ``count`` before it in its row."""
    moved: Words = words >> np.uint64(count)
    moved[:, :-1] |= words[:, 1:] << np.uint64(WORD - count)
    return moved


def _rows_ahead(words: Words, count: int) -> Words:
    """Each row takes the place of the one ``count`` before it; the last one is repeated."""
    return np.concatenate([words[count:], np.repeat(words[-1:], count, axis=0)])


def _over(words: Words, size: int, join: np.ufunc, ahead: Callable[[Words, int], Words]) -> Words:
    """Join every place with the ``size - 1`` behind it; windows of 2, 4, 8 come from two of half their size."""
    joined, width = words, 1
    while width * 2 <= size:
        joined = join(joined, ahead(joined, width))
        width *= 2
    result: Words = join(joined, ahead(joined, size - width))
    return result


def _set_outside(words: Words, start: int, rows: int, columns: int, value: bool) -> None:
    """Set what lies outside the plane, which begins at row and bit ``start``."""
    inside = np.zeros(words.shape[1] * WORD, dtype=bool)
    inside[start : start + columns] = True
    line = np.packbits(inside, bitorder="little").view("<u8")
    words &= line
    if value:
        words |= ~line
    words[:start] = words[start + rows :] = ALL if value else 0


def body_mask(plane: Array) -> Mask:
    """Body of one axial plane: above -700 HU, closed, then opened with a 5 x 5 square.

    What lies beyond the border counts neither for nor against.

    Args:
        plane: HU, shape (rows, columns).

    Returns:
        0 or 1, of the same shape.
    """
    rows, columns = plane.shape
    words: Words = np.zeros((rows + 2 * ROOM, (columns + 2 * ROOM) // WORD + 1), dtype="<u8")
    bits = np.packbits(plane > BODY_HU, axis=1, bitorder="little")
    words.view(np.uint8)[ROOM : ROOM + rows, 1 : 1 + bits.shape[1]] = bits
    start = ROOM
    for size, join, beyond in WINDOWS:
        _set_outside(words, start, rows, columns, beyond)
        words = _over(_over(words, size, join, _bits_ahead), size, join, _rows_ahead)
        start -= size // 2
    mask: Mask = np.unpackbits(words[start : start + rows].view(np.uint8), axis=1, count=columns, bitorder="little")
    return mask
