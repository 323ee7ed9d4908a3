"""Batches under a budget of tokens, filled online by greedy best fit (paper, section 4 and appendix A.1).

A pair is as long as its longer side, and both sides of a batch are padded to the longest: a batch of ``n`` pairs costs
``2 * n * longest`` tokens. Pairs come in an order that only the seed decides. Each goes to the open batch where it
wastes the least; when too many batches are open, the fullest goes out. So every pair is in exactly one batch, the
plan needs little memory, and it does not depend on the number of GPUs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random

# A pair that would waste more than this part of its own length gets a batch of its own, as long as one may be opened.
WASTE = 0.05


@dataclass(frozen=True)
class Budget:
    """Bounds of a batch.

    Args:
        tokens: T, padded tokens of both sides.
        pairs: S_max, pairs.
        open_batches: batches that are filled at once.
    """

    tokens: int
    pairs: int
    open_batches: int

    def fits(self, pairs: int, longest: int) -> bool:
        """True if a batch of so many pairs, padded to ``longest``, is within bounds."""
        return pairs <= self.pairs and 2 * pairs * longest <= self.tokens


@dataclass
class _Open:
    """A batch that is being filled. ``opened`` tells equal ones apart."""

    opened: int
    longest: int = 0
    pairs: list[int] = field(default_factory=list)

    def waste(self, length: int) -> int:
        """Padding that a pair of this length would add."""
        if length <= self.longest:
            return self.longest - length
        return len(self.pairs) * (length - self.longest)

    def cost(self) -> int:
        """Padded tokens of one side."""
        return len(self.pairs) * self.longest


def shuffled(count: int, seed: int) -> list[int]:
    """Numbers of all pairs in the order in which they come; only the seed decides."""
    order = list(range(count))
    Random(seed).shuffle(order)  # noqa: S311 - no secret
    return order


def best_fit(order: Iterable[int], lengths: Sequence[int], budget: Budget) -> Iterator[list[int]]:
    """Batches of pair numbers, each pair in exactly one.

    Args:
        order: pair numbers as they come.
        lengths: tokens of the longer side of each pair, by number.
        budget: bounds of a batch.

    Raises:
        ValueError: a pair that does not fit into a batch of its own.
    """
    batches: list[_Open] = []
    opened = 0
    for pair in order:
        length = int(lengths[pair])
        if not budget.fits(1, length):
            raise ValueError(f"pair {pair} of {length} tokens is over the budget of {budget.tokens}")
        fitting = [batch for batch in batches if budget.fits(len(batch.pairs) + 1, max(batch.longest, length))]
        best = min(fitting, key=lambda batch: (batch.waste(length), batch.opened), default=None)
        if best is None or best.waste(length) > WASTE * length:
            if len(batches) >= budget.open_batches and best is None:
                out = max(batches, key=lambda batch: (batch.cost(), -batch.opened))
                batches.remove(out)
                yield out.pairs
            if len(batches) < budget.open_batches:
                best = _Open(opened)
                opened += 1
                batches.append(best)
        if best is None:
            raise AssertionError("no batch for a pair that fits into one")
        best.pairs.append(pair)
        best.longest = max(best.longest, length)
        if not budget.fits(len(best.pairs) + 1, best.longest):
            batches.remove(best)
            yield best.pairs
    for batch in batches:
        yield batch.pairs


def with_partners(batches: Iterable[list[int]], lengths: Sequence[int], budget: Budget) -> Iterator[list[int]]:
    """The same batches, single pairs joined where a partner fits: a pair alone has no negative and teaches nothing.

    A pair that fills the budget by itself stays alone; other ranks' targets are then its negatives.
    """
    alone: list[int] = []
    for batch in batches:
        if len(batch) > 1:
            yield batch
            continue
        partner = next((pair for pair in alone if budget.fits(2, max(lengths[pair], lengths[batch[0]]))), None)
        if partner is None:
            alone.append(batch[0])
        else:
            alone.remove(partner)
            yield [partner, batch[0]]
    for pair in alone:
        yield [pair]


def padding(batches: Iterable[Sequence[int]], lengths: Sequence[int]) -> float:
    """Padded tokens over real ones, both sides of a pair taken to be as long as the longer."""
    padded = real = 0
    for batch in batches:
        padded += len(batch) * max(lengths[pair] for pair in batch)
        real += sum(lengths[pair] for pair in batch)
    return padded / real if real else 1.0


def steps(batches: Sequence[list[int]], ranks: int, start: int = 0) -> Iterator[list[list[int]]]:
    """What the ranks do at each step, one batch each, from batch ``start`` on.

    The last step may have fewer batches than ranks: the largest are then halved, so that no rank stands idle; a rank
    gets an empty batch only where there are fewer pairs than ranks.
    """
    whole = start + (len(batches) - start) // ranks * ranks
    for first in range(start, whole, ranks):
        yield list(batches[first : first + ranks])
    last = [list(batch) for batch in batches[whole:]]
    if not last:
        return
    while len(last) < ranks:
        largest = max(range(len(last)), key=lambda number: (len(last[number]), -number))
        batch = last[largest]
        if len(batch) < 2:
            last += [[] for _ in range(ranks - len(last))]
            break
        half = (len(batch) + 1) // 2
        last[largest : largest + 1] = [batch[:half], batch[half:]]
    yield last
