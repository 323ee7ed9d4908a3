"""Keyed draws: choices that depend on the seed, the task, the row and the names of things, and on nothing else.

All numbers come from SHA-256, so they are the same on every machine and with every version of every library. No draw
moves a common stream on, so that one row more or less changes no other row.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count, islice
from typing import TypeVar

T = TypeVar("T")
WORD = 8


@dataclass(frozen=True)
class Draw:
    """Random choices of one task."""

    seed: int
    task: str

    def _hash(self, *parts: str) -> bytes:
        text = "\0".join((str(self.seed), self.task, *parts))
        return hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()

    def place(self, row: str, name: str) -> bytes:
        """Where a thing stands in the random order of ``row``: things are ordered by it."""
        return self._hash(row, name)

    def numbers(self, row: str) -> Iterator[int]:
        """Endless random numbers of 64 bits for one row."""
        for block in count():
            digest = self._hash(row, f"block {block}")
            for start in range(0, len(digest), WORD):
                yield int.from_bytes(digest[start : start + WORD])

    def pick(self, items: Sequence[T], row: str) -> Iterator[T]:
        """``items`` in drawn order, one by one; the cost grows with what is taken, not with what is there.

        Args:
            items: in an order that is the same everywhere (sorted).
            row: what the draw is for.
        """
        moved: dict[int, int] = {}
        for left, number in zip(range(len(items), 0, -1), self.numbers(row), strict=False):
            place, last = number % left, left - 1
            yield items[moved.get(place, place)]
            moved[place] = moved.pop(last, last)

    def sample(self, items: Sequence[T], most: int, row: str, key: Callable[[T], str]) -> list[T]:
        """At most ``most`` of ``items`` in drawn order.

        Args:
            items: in any order.
            most: how many.
            row: what the draw is for.
            key: tells the items apart.
        """
        return list(islice(self.pick(sorted(items, key=key), row), most))

    def one(self, items: Sequence[T], row: str, key: Callable[[T], str]) -> T:
        """One of ``items``, which must not be empty."""
        return self.sample(items, 1, row, key)[0]

    def subset(self, items: Iterable[T], most: int, row: str, key: Callable[[T], str]) -> list[T]:
        """At most ``most`` of ``items``, sorted by ``key``.

        Which ones is decided thing by thing, so that one more or less changes at most one other.
        """
        named = sorted(items, key=key)
        if len(named) <= most:
            return named
        return sorted(sorted(named, key=lambda item: self.place(row, key(item)))[:most], key=key)
