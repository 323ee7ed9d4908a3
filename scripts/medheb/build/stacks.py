"""Slices of plain NumPy stacks (no header, no orientation) as 8-bit pictures: what MRNet and MedMNIST 3D share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from medheb.core.errors import MedhebError
from medheb.imaging.volume import Array
from medheb.imaging.windows import Picture, stretched, to_uint8

NO_TURN = "array order, no turn"


@dataclass(frozen=True)
class Grey:
    """One stack as pictures.

    Args:
        planes: pictures by slice number.
        window: which values became black and white, for the inventory.
    """

    planes: Mapping[int, Picture]
    window: str


def grey_stack(stack: Array, indices: list[int], published: bool, where: str) -> Grey:
    """Slices of one stack as pictures. uint8 values are taken as they are; both published sources have nothing else.

    Args:
        stack: shape (slices, rows, columns).
        indices: wanted slices.
        published: stretch other types slice by slice in their own type, as the published scripts do: ranges may wrap,
            a NaN blackens its slice, and an empty slice becomes as dark as a full one. Otherwise the whole stack gets
            one range (finite values only, NaN becomes black), and a stack of one value is refused.
        where: file and case, for messages.

    Raises:
        MedhebError: the stack holds one value everywhere, and not ``published``.
    """
    wanted = sorted(set(indices))
    if published:
        window = "stored 8-bit values" if stack.dtype == np.uint8 else "minimum to maximum of each slice"
        return Grey({index: stretched(stack[index]) for index in wanted}, window)
    finite = stack[np.isfinite(stack)] if stack.dtype.kind == "f" else stack
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
    if not high > low:
        raise MedhebError(where, f"holds the one value {low:g} everywhere", "Get an undamaged copy")
    if stack.dtype == np.uint8:
        return Grey({index: stack[index] for index in wanted}, "stored 8-bit values")
    planes = {index: to_uint8(np.clip(stack[index], low, high), low, high) for index in wanted}
    return Grey(planes, "minimum to maximum of the stack")


def in_slots(grey: Grey, indices: list[int]) -> Iterator[tuple[int, int, Picture]]:
    """Slot, slice number and picture, in slot order."""
    for slot, index in enumerate(indices):
        yield slot, index, grey.planes[index]
