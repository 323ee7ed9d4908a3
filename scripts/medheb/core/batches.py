"""``itertools.batched`` for the Python versions that lack it (before 3.12)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

T = TypeVar("T")


def batched(items: Iterable[T], size: int) -> Iterator[tuple[T, ...]]:
    """Consecutive tuples of ``size`` items; the last may be shorter."""
    iterator = iter(items)
    while batch := tuple(islice(iterator, size)):
        yield batch
