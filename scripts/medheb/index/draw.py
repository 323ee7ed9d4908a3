"""Seeded draws that depend on the seed, the task and the row, and on nothing else."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

T = TypeVar("T")


@dataclass(frozen=True)
class Draw:
    """Random choices of one task. The order in which rows or items arrive does not matter."""

    seed: int
    task: str

    def generator(self, row: str) -> np.random.Generator:
        """Generator of one row."""
        digest = hashlib.sha256(f"{self.seed}|{self.task}|{row}".encode()).digest()
        return np.random.default_rng(int.from_bytes(digest, "big"))

    def sample(self, items: Sequence[T], count: int, row: str, key: Callable[[T], str]) -> list[T]:
        """At most ``count`` of ``items`` in drawn order.

        Args:
            items: in any order.
            count: how many.
            row: what the draw is for.
            key: tells the items apart.
        """
        ordered = sorted(items, key=key)
        chosen = self.generator(row).permutation(len(ordered))[:count]
        return [ordered[int(position)] for position in chosen]

    def one(self, items: Sequence[T], row: str, key: Callable[[T], str]) -> T:
        """One of ``items``, which must not be empty."""
        return self.sample(items, 1, row, key)[0]
