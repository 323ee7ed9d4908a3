"""Ranks that cannot be gifted: candidates told apart by content, ties counted and shared out.

For each query: ``above`` candidates score higher than the best positive, ``tied`` score the same
(positives included), ``positives`` are right. That is all that any metric needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from medheb.evaluate.score import TOP
from medheb.models.base import Vectors

CHUNK_QUERIES = 256


@dataclass(frozen=True)
class Ranked:
    """How one query's pool was ranked. ``top`` are pool positions of the best candidates, best first."""

    pool: int
    above: int
    tied: int
    positives: int
    score: float
    top: NDArray[np.int64]
    top_score: NDArray[np.float32]


def rank_one(scores: NDArray[np.float32], positive: NDArray[np.bool_], tolerance: float) -> Ranked:
    """Rank one pool.

    Args:
        scores: float32 [pool], cosine of each candidate with the query.
        positive: bool [pool], which candidates are right; at least one.
        tolerance: scores closer than this are equal.

    Raises:
        ValueError: no positive, or a score that is not finite (NaN would compare as the best rank).
    """
    if not positive.any():
        raise ValueError("no candidate of the pool is right")
    if not np.isfinite(scores).all():
        raise ValueError("a score is not finite")
    best = scores[positive].max()
    above = scores > best + tolerance
    tied = ~above & (scores >= best - tolerance)
    order = top_positions(scores)
    return Ranked(
        pool=len(scores),
        above=int(above.sum()),
        tied=int(tied.sum()),
        positives=int((tied & positive).sum()),
        score=float(best),
        top=order,
        top_score=scores[order],
    )


def top_positions(scores: NDArray[np.float32]) -> NDArray[np.int64]:
    """Positions of the ``TOP`` best scores, best first; of equal ones the first, so that no platform differs.

    Only shown, never scored. Sorts the few that can be among the best, not the whole pool.
    """
    few = np.arange(len(scores))
    if len(scores) > TOP:
        least = np.partition(scores, len(scores) - TOP)[len(scores) - TOP]
        few = np.flatnonzero(scores >= least)
    return few[np.argsort(-scores[few], kind="stable")][:TOP]


def rank_local(
    queries: Vectors, pool: Vectors, members: Sequence[Sequence[int]], positives: Sequence[int], tolerance: float
) -> list[Ranked]:
    """Rank each query against its own candidates.

    Args:
        queries: float32 [n, d], unit rows.
        pool: float32 [m, d], vectors of all distinct candidates.
        members: for each query the rows of ``pool`` that are its candidates.
        positives: for each query the row of ``pool`` that is right.
        tolerance: scores closer than this are equal.
    """
    results: list[Ranked] = []
    for query, rows, positive in zip(queries, members, positives, strict=True):
        results.append(rank_one(pool[list(rows)] @ query, np.array(rows) == positive, tolerance))
    return results


def rank_global(queries: Vectors, pool: Vectors, positives: Sequence[int], tolerance: float) -> list[Ranked]:
    """Rank each query against every candidate of the task; ``positives`` are rows of ``pool``."""
    results: list[Ranked] = []
    for start in range(0, len(queries), CHUNK_QUERIES):
        block = queries[start : start + CHUNK_QUERIES] @ pool.T
        for scores, positive_row in zip(block, positives[start : start + CHUNK_QUERIES], strict=True):
            positive = np.zeros(len(pool), dtype=np.bool_)
            positive[positive_row] = True
            results.append(rank_one(scores, positive, tolerance))
    return results
