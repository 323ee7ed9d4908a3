"""Which slices of many are kept. Every rule gives exactly ``count`` numbers in increasing order, repeats included."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np


def _spaced(first: int, last: int, count: int) -> list[float]:
    return [float(place) for place in np.linspace(first, last, count, dtype=np.float64)]


def uniform_indices(first: int, last: int, count: int) -> list[int]:
    """``count`` indices from ``first`` to ``last`` inclusive: float64 linspace, then floor.

    Not the same as whole-number division: for n=154 and 64 slots, slot 21 is 50, not 51. Repeats indices where
    the range is shorter than ``count``.

    Raises:
        ValueError: ``count`` below 1 or ``last`` before ``first``.
    """
    if count < 1 or last < first:
        raise ValueError(f"no {count} indices in [{first}, {last}]")
    return [int(np.floor(place)) for place in _spaced(first, last, count)]


def listed_indices(
    informative: Sequence[int], total: int, count: int, short: Literal["round", "floor"] = "round"
) -> list[int]:
    """``count`` of the informative slices, evenly spaced in their list; of all slices where none is informative.

    Args:
        informative: increasing slice numbers, gaps allowed.
        total: slices of the volume.
        count: how many to give.
        short: what to do with a list shorter than ``count``: round places in the list half to even, or cut them off
            as for longer lists.
    """
    if not informative:
        return uniform_indices(0, total - 1, count)
    places = _spaced(0, len(informative) - 1, count)
    if short == "round" and len(informative) < count:
        return [informative[round(place)] for place in places]
    return [informative[int(np.floor(place))] for place in places]


def range_indices(informative: Sequence[int], total: int, count: int) -> list[int]:
    """``count`` indices from the first to the last informative slice, whatever lies between; of all where none is.

    Args:
        informative: increasing slice numbers.
        total: slices of the volume.
        count: how many to give.
    """
    first, last = (informative[0], informative[-1]) if informative else (0, total - 1)
    return uniform_indices(first, last, count)


def middle_indices(total: int, count: int, lower: float = 0.05, upper: float = 0.95) -> list[int]:
    """``count`` indices from the middle part of ``total`` slices.

    The part starts at ``lower`` and ends before ``upper`` of the length, each rounded half to even, and holds at
    least one slice.
    """
    start = min(max(round(lower * total), 0), total - 1)
    stop = min(max(round(upper * total), start + 1), total)
    return uniform_indices(start, stop - 1, count)


def up_to_indices(total: int, count: int) -> list[int]:
    """All of ``total`` slices if there are at most ``count``, else ``count`` of them, evenly spaced."""
    return list(range(total)) if total <= count else uniform_indices(0, total - 1, count)


def slots_of(indices: Sequence[int]) -> dict[int, list[int]]:
    """For each distinct index the slots that show it, in increasing order of index.

    A reader gives each slice once; a volume with fewer slices than slots shows some of them in several slots.
    """
    slots: dict[int, list[int]] = {index: [] for index in sorted(set(indices))}
    for slot, index in enumerate(indices):
        slots[index].append(slot)
    return slots


def spread(indices: Sequence[int], count: int) -> list[int]:
    """At most ``count`` of ``indices`` without repeats: the middle of each of ``count`` equal parts."""
    total = len(indices)
    if total <= count:
        return list(indices)
    return [indices[(2 * part + 1) * total // (2 * count)] for part in range(count)]
