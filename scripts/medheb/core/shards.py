"""A part of some work, for a job of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from medheb.core.errors import MedhebError

ItemT = TypeVar("ItemT")


@dataclass(frozen=True)
class Shard:
    """Every ``count``-th item, from ``number`` (0-based)."""

    number: int
    count: int

    def of(self, items: Sequence[ItemT]) -> Sequence[ItemT]:
        """The items of this shard."""
        return items[self.number :: self.count]


def parse_shard(text: str) -> Shard:
    """``3/16`` as the third of sixteen parts.

    Raises:
        MedhebError: anything else.
    """
    number, _, count = text.partition("/")
    if not (number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
        raise MedhebError(f"--shard {text}", "is not NUMBER/COUNT", "Write for example --shard 3/16")
    return Shard(int(number) - 1, int(count))
