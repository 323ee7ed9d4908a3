"""Ranks that cannot be gifted: candidates told apart by content, ties counted and shared out.

For each query: ``above`` candidates score higher than the best positive, ``tied`` score the same
(positives included), ``positives`` are right. That is all that any metric needs. Scores are float32 throughout:
bfloat16 would be faster and give another order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from medheb.evaluate.score import TOP
from medheb.models.base import Vectors

BLOCK_BYTES = 160_000_000  # of scores that are held at once
WORTH_TORCH = 10**11  # multiplications; below, importing torch takes longer than it saves
Scores = NDArray[np.float32]


@dataclass(frozen=True)
class Ranked:
    """How one query's pool was ranked. ``top`` are pool positions of the best candidates, best first."""

    pool: int
    above: int
    tied: int
    positives: int
    score: float
    top: NDArray[np.int64]
    top_score: Scores


def rank_one(scores: Scores, positive: int, tolerance: float, least: float | None = None) -> Ranked:
    """Rank one pool.

    Args:
        scores: float32 [pool], cosine of each candidate with the query.
        positive: position of the right candidate.
        tolerance: scores closer than this are equal.
        least: the ``TOP``-th best score, if it is known.
    """
    best = scores[positive]
    above = int(np.count_nonzero(scores > best + tolerance))
    order = top_positions(scores, least)
    return Ranked(
        pool=len(scores),
        above=above,
        tied=int(np.count_nonzero(scores >= best - tolerance)) - above,
        positives=1,
        score=float(best),
        top=order,
        top_score=scores[order],
    )


def top_positions(scores: Scores, least: float | None = None) -> NDArray[np.int64]:
    """Positions of the ``TOP`` best scores, best first; of equal ones the first, so that no platform differs.

    Only shown, never scored. Sorts the few that can be among the best, not the whole pool.
    """
    if len(scores) <= TOP:
        return np.argsort(-scores, kind="stable")
    if least is None:
        least = np.partition(scores, len(scores) - TOP)[len(scores) - TOP]
    few = np.flatnonzero(scores >= least)
    if len(few) > TOP:  # of those that equal the last one, only the first can stay
        equal = scores[few] == least
        few = np.sort(np.concatenate([few[~equal], few[equal][:TOP]]))
    return few[np.argsort(-scores[few], kind="stable")][:TOP]


def refuse_unusable(vectors: Vectors) -> None:
    """Stop before a comparison that means nothing: NaN would compare as the best rank.

    Raises:
        ValueError: a vector that is not finite or of length zero.
    """
    lengths = np.einsum("nd,nd->n", vectors, vectors)
    if not np.isfinite(lengths).all():
        raise ValueError("a vector is not finite")
    if (lengths < 1e-12).any():
        raise ValueError("a vector is of length zero")


def rank_local(
    queries: Vectors, pool: Vectors, members: Sequence[Sequence[int]], positives: Sequence[int], tolerance: float
) -> list[Ranked]:
    """Rank each query against its own candidates; queries with the same list are scored together.

    Args:
        queries: float32 [n, d], unit rows.
        pool: float32 [m, d], vectors of all distinct candidates.
        members: for each query the rows of ``pool`` that are its candidates.
        positives: for each query the row of ``pool`` that is right.
        tolerance: scores closer than this are equal.

    Raises:
        ValueError: no candidate of a query is right, or a vector that cannot be compared.
    """
    refuse_unusable(queries)
    refuse_unusable(pool)
    sharing: dict[tuple[int, ...], list[int]] = {}
    for number, rows in enumerate(members):
        sharing.setdefault(tuple(rows), []).append(number)
    results: dict[int, Ranked] = {}
    for rows, numbers in sharing.items():
        place_of = {row: place for place, row in enumerate(rows)}
        if any(positives[number] not in place_of for number in numbers):
            raise ValueError("no candidate of the pool is right")
        candidates = pool[list(rows)]
        for start in range(0, len(numbers), _rows_at_once(len(rows))):
            some = numbers[start : start + _rows_at_once(len(rows))]
            for number, scores in zip(some, queries[some] @ candidates.T, strict=True):
                results[number] = rank_one(scores, place_of[positives[number]], tolerance)
    return [results[number] for number in range(len(members))]


def rank_global(queries: Vectors, pool: Vectors, positives: Sequence[int], tolerance: float) -> list[Ranked]:
    """Rank each query against every candidate of the task; ``positives`` are rows of ``pool``.

    Exact; scores are computed block by block and never held all at once. Large tasks use torch, on a GPU if there is
    one.

    Raises:
        ValueError: a vector that cannot be compared.
    """
    refuse_unusable(queries)
    refuse_unusable(pool)
    blocks = _numpy_blocks(queries, pool)
    if len(queries) * pool.size >= WORTH_TORCH:
        import torch

        if torch.cuda.is_available():
            from medheb.evaluate.ranking_gpu import rank_on

            return rank_on("cuda", queries, pool, positives, tolerance)
        blocks = _torch_blocks(queries, pool)
    rows = (row for scores, least in blocks for row in zip(scores, least, strict=True))
    return [
        rank_one(scores, positive, tolerance, least) for (scores, least), positive in zip(rows, positives, strict=True)
    ]


def _rows_at_once(pool: int) -> int:
    return max(16, min(1024, BLOCK_BYTES // (4 * pool)))


def _numpy_blocks(queries: Vectors, pool: Vectors) -> Iterator[tuple[Scores, Sequence[float | None]]]:
    """Scores [b, pool] of some queries at a time."""
    step = _rows_at_once(len(pool))
    for start in range(0, len(queries), step):
        scores = queries[start : start + step] @ pool.T
        yield scores, [None] * len(scores)


def _torch_blocks(queries: Vectors, pool: Vectors) -> Iterator[tuple[Scores, Sequence[float | None]]]:
    """The same in one reused buffer, with the ``TOP``-th best score of each query."""
    import torch

    candidates, asked = torch.from_numpy(pool), torch.from_numpy(queries)
    step = _rows_at_once(len(pool))
    buffer = torch.empty(step, len(pool))
    for start in range(0, len(queries), step):
        block = asked[start : start + step]
        scores = torch.mm(block, candidates.T, out=buffer[: len(block)])
        yield scores.numpy(), scores.topk(min(TOP, len(pool)), dim=1).values[:, -1].tolist()
