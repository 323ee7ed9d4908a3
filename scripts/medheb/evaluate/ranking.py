"""Ranks that cannot be gifted: candidates told apart by content, ties counted and shared out.

For each query: ``above`` candidates score higher than the best positive, ``tied`` score the same
(positives included), ``positives`` are right. That is all that any metric needs. Scores are float32 throughout:
bfloat16 would be faster and give another order.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import repeat

import numpy as np
from numpy.typing import NDArray

from medheb.evaluate.score import TOP
from medheb.models.base import Vectors

BLOCK_BYTES = 160_000_000  # of scores that are held at once
WORTH_A_GPU = 10**11  # multiplications; below, importing torch takes longer than it saves
# Of the drivers of NVIDIA, AMD and Windows. Without any there is no GPU, and torch need not be imported to say so.
GPU_FILES = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")
GROUP = 64
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


def rank_one(scores: Scores, positive: int, tolerance: float) -> Ranked:
    """Rank one pool.

    Args:
        scores: float32 [pool], cosine of each candidate with the query.
        positive: position of the right candidate.
        tolerance: scores closer than this are equal.
    """
    best = scores[positive]
    above = int(np.count_nonzero(scores > best + tolerance))
    order = top_positions(scores)
    return Ranked(
        pool=len(scores),
        above=above,
        tied=int(np.count_nonzero(scores >= best - tolerance)) - above,
        positives=1,
        score=float(best),
        top=order,
        top_score=scores[order],
    )


def top_positions(scores: Scores) -> NDArray[np.int64]:
    """Positions of the ``TOP`` best scores, best first; of equal ones the first, so that no platform differs.

    Only shown, never scored. Sorts the few that can be among the best, not the whole pool: at least ``TOP`` scores
    are as good as the ``TOP``-th best of the maxima of groups. A group is every n-th score, which NumPy compares in
    long rows, many times as fast as neighbours.
    """
    few = np.arange(len(scores))
    groups = len(scores) // GROUP
    if groups > TOP:
        maxima = scores[: groups * GROUP].reshape(GROUP, groups).max(axis=0)
        few = np.flatnonzero(scores >= np.partition(maxima, groups - TOP)[groups - TOP])
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

    Exact; scores are computed block by block and never held all at once. Large tasks use a GPU if there is one. On a
    CPU NumPy multiplies faster than torch does (``benchmarks/run.py exact_top``), and starts at once.

    Raises:
        ValueError: a vector that cannot be compared.
    """
    refuse_unusable(queries)
    refuse_unusable(pool)
    if len(queries) * pool.size >= WORTH_A_GPU and any(map(os.path.exists, GPU_FILES)):
        import torch

        if torch.cuda.is_available():
            from medheb.evaluate.ranking_gpu import rank_on

            return rank_on("cuda", queries, pool, positives, tolerance)
    results: list[Ranked] = []
    step = _rows_at_once(len(pool))
    buffer = np.empty((min(step, len(queries)), len(pool)), dtype=np.float32)
    cores = _cores()
    with ThreadPoolExecutor(cores) as threads:  # NumPy compares and counts without the interpreter's lock
        for start in range(0, len(queries), step):
            asked, right = queries[start : start + step], positives[start : start + step]
            scores = np.matmul(asked, pool.T, out=buffer[: len(asked)])
            share = -(-len(asked) // cores)
            for ranked in threads.map(
                _rank_rows,
                [scores[at : at + share] for at in range(0, len(asked), share)],
                [right[at : at + share] for at in range(0, len(asked), share)],
                repeat(tolerance),
            ):
                results += ranked
    return results


def _cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _rank_rows(scores: Scores, positives: Sequence[int], tolerance: float) -> list[Ranked]:
    return [rank_one(row, positive, tolerance) for row, positive in zip(scores, positives, strict=True)]


def _rows_at_once(pool: int) -> int:
    return max(16, min(1024, BLOCK_BYTES // (4 * pool)))
