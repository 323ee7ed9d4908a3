"""Gathers vectors of whole batches and writes them as shards, after so many inputs or minutes."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from types import TracebackType
from typing import Self

import numpy as np

from medheb.embed.store import Store
from medheb.models.base import Vectors


class ShardWriter:
    """Writes to a store; what is complete when the block ends is written, however it ends.

    Args:
        store: to append to.
        most_inputs: of a shard.
        minutes: after which a shard is written although it is small.
        clock: seconds.
    """

    def __init__(
        self, store: Store, most_inputs: int, minutes: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.store, self.most_inputs, self.seconds, self.clock = store, most_inputs, 60 * minutes, clock
        self.written = 0
        self._keys: list[str] = []
        self._vectors: list[Vectors] = []
        self._cut: set[str] = set()
        self._notes: set[str] = set()
        self._since = clock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.flush()

    def add(self, keys: Sequence[str], vectors: Vectors, cut: Collection[str], notes: Iterable[str]) -> None:
        """Take the vectors of a batch, float32 [len(keys), d], and what is to be known of them (see the store)."""
        if self._keys and len(self._keys) + len(keys) > self.most_inputs:
            self.flush()
        self._keys += keys
        self._vectors.append(vectors)
        self._cut |= set(cut)
        self._notes |= set(notes)
        if len(self._keys) >= self.most_inputs or self.clock() - self._since >= self.seconds:
            self.flush()

    def flush(self) -> None:
        """Write what is waiting."""
        if self._keys:
            self.store.append(self._keys, np.concatenate(self._vectors), self._cut, self._notes)
            self.written += len(self._keys)
        self._keys, self._vectors, self._since = [], [], self.clock()
        self._cut, self._notes = set(), set()
