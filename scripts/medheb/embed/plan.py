"""Batches by token budget, longest first, from lengths that are known before anything is decoded.

A batch is cut by its first, longest part alone: it holds as many parts as fit the budget at that length. Whole
batches that are done therefore change nothing in how the rest is cut, and a killed run goes on with the very batches
of an undisturbed one: same shapes, same neighbours, same bits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from medheb.core.digests import json_digest
from medheb.models.base import Rendered


@dataclass(frozen=True)
class Batch:
    """Parts of one modality that go through the network together, the longest first."""

    keys: tuple[str, ...]
    parts: tuple[Rendered, ...]
    tokens: tuple[int, ...]

    def smaller(self, budget: int) -> tuple[Batch, ...]:
        """Batches of at most half its parts and ``budget`` tokens; one part always runs."""
        size = max(1, min(-(-len(self.keys) // 2), budget // self.tokens[0]))
        cuts = [slice(start, start + size) for start in range(0, len(self.keys), size)]
        return tuple(Batch(self.keys[cut], self.parts[cut], self.tokens[cut]) for cut in cuts)


def plan_batches(parts: Mapping[str, Rendered], tokens: Mapping[str, int], budget: int, most_parts: int) -> list[Batch]:
    """Cut parts into batches, in the order in which they run.

    Parts of equal length stand in the order of their keys, which is as good as shuffled: what noise a batch has does
    not follow the order of candidates in a task.

    Args:
        parts: by key.
        tokens: length of each.
        budget: most tokens of a batch, padding counted; a longer part runs alone.
        most_parts: most parts of a batch.
    """
    order = sorted(parts, key=lambda key: (parts[key].modality, -tokens[key], key))
    batches: list[Batch] = []
    for _, group in groupby(order, key=lambda key: parts[key].modality):
        keys, start = list(group), 0
        while start < len(keys):
            size = max(1, min(most_parts, budget // tokens[keys[start]]))
            taken = tuple(keys[start : start + size])
            batches.append(Batch(taken, tuple(parts[key] for key in taken), tuple(tokens[key] for key in taken)))
            start += size
    return sorted(batches, key=lambda batch: (-batch.tokens[0], batch.keys[0]))


def plan_digest(batches: Sequence[Batch]) -> str:
    """Digest of a plan: ranks compare it before they share the work."""
    return json_digest([batch.keys for batch in batches])
