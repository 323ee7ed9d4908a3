"""Which slices of many are kept."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def uniform_indices(first: int, last: int, count: int) -> list[int]:
    """``count`` indices from ``first`` to ``last`` inclusive: float64 linspace, then floor.

    Not the same as whole-number division: for n=154 and 64 slots, slot 21 is 50, not 51. Repeats indices where
    the range is shorter than ``count``.

    Raises:
        ValueError: ``count`` below 1 or ``last`` before ``first``.
    """
    if count < 1 or last < first:
        raise ValueError(f"no {count} indices in [{first}, {last}]")
    return [int(index) for index in np.floor(np.linspace(first, last, count, dtype=np.float64))]


def spread(indices: Sequence[int], count: int) -> list[int]:
    """At most ``count`` of ``indices`` without repeats: the middle of each of ``count`` equal parts."""
    total = len(indices)
    if total <= count:
        return list(indices)
    return [indices[(2 * part + 1) * total // (2 * count)] for part in range(count)]
