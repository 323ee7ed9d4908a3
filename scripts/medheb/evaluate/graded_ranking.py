"""NDCG@k and Hit@k of graded pools, as expectations over all orders of tied candidates.

NDCG is DCG by the best possible DCG of the pool; DCG is the sum of gain / log2(1 + rank), linear in the gain, as the
published harness has it. Over the orders of a group of ties each of its ranks holds the group's mean gain on average,
and so a constant model scores exactly chance. Source: paper 5.4 and 5.5.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import comb

import numpy as np
from numpy.typing import NDArray

from medheb.evaluate.metrics import interval

GRADED_METRICS = ("ndcg@5", "ndcg@10", "hit@1", "hit@5")
CUTOFFS = {"ndcg@5": 5, "ndcg@10": 10, "hit@1": 1, "hit@5": 5}
Gains = NDArray[np.float64]


@dataclass(frozen=True)
class GradedRank:
    """One query's values by metric: expected over ties, if every tie went against the model, for a random order."""

    pool: int
    tied: bool
    value: Mapping[str, float]
    worst: Mapping[str, float]
    chance: Mapping[str, float]


def rank_graded(scores: NDArray[np.float32], gains: Gains, full: float, tolerance: float) -> GradedRank:
    """Rank one pool.

    Args:
        scores: float32 [pool], cosine of each candidate with the query.
        gains: float64 [pool], from 0 to 1.
        full: least gain that counts for Hit@k.
        tolerance: scores closer than this to their neighbour in rank are equal.

    Raises:
        ValueError: a score that is not finite, or no candidate with a gain.
    """
    if not np.isfinite(scores).all():
        raise ValueError("a score is not finite")
    if not (gains > 0).any():
        raise ValueError("no candidate of the pool has a gain")
    most = max(CUTOFFS.values())
    groups = tie_groups(scores, tolerance, most)
    # Within a group of ties the worst order has the least gains first.
    against = [gains[group][np.argsort(gains[group], kind="stable")] for group in groups]
    alone = [one for group in against for one in np.split(group, len(group))]
    return GradedRank(
        pool=len(scores),
        tied=any(len(group) > 1 and np.ptp(gains[group]) > 0 for group in groups),
        value=_values([gains[group] for group in groups], gains, full),
        worst=_values(alone[:most], gains, full),
        chance=_values([gains], gains, full),
    )


def tie_groups(scores: NDArray[np.float32], tolerance: float, most: int) -> list[NDArray[np.int64]]:
    """Positions of the candidates that can be among the first ``most``, best first, those of equal score together."""
    order = np.argsort(-scores, kind="stable")
    starts = np.flatnonzero(-np.diff(scores[order].astype(np.float64)) > tolerance) + 1
    beyond = starts[starts >= most]
    end = int(beyond[0]) if len(beyond) else len(order)
    return [np.asarray(group) for group in np.split(order[:end], starts[starts < end])]


def _values(groups: list[Gains], gains: Gains, full: float) -> dict[str, float]:
    best = [np.array([gain]) for gain in np.sort(gains)[::-1][: max(CUTOFFS.values())]]
    found: dict[str, float] = {}
    for metric, cutoff in CUTOFFS.items():
        if metric.startswith("hit"):
            found[metric] = _hit(groups, cutoff, full)
        else:
            found[metric] = _dcg(groups, cutoff) / _dcg(best, cutoff)
    return found


def _placed(groups: list[Gains], cutoff: int) -> Iterator[tuple[Gains, int, int]]:
    """Groups that reach into the first ranks: gains, the group's first rank from 0, and how many ranks are inside."""
    start = 0
    for group in groups:
        if start >= cutoff:
            return
        yield group, start, min(len(group), cutoff - start)
        start += len(group)


def _dcg(groups: list[Gains], cutoff: int) -> float:
    discounts = 1 / np.log2(np.arange(2, cutoff + 2))
    return float(
        sum(group.mean() * discounts[start : start + inside].sum() for group, start, inside in _placed(groups, cutoff))
    )


def _hit(groups: list[Gains], cutoff: int, full: float) -> float:
    """Probability that a candidate with gain ``full`` or more is among the first."""
    for group, _, inside in _placed(groups, cutoff):
        right = int((group >= full).sum())
        if right:
            return 1 - comb(len(group) - right, inside) / comb(len(group), inside)
    return 0.0


def interval_by_query(
    values: NDArray[np.float64], queries: NDArray[np.int64], confidence: float, resamples: int, seed: int
) -> tuple[float, float]:
    """Percentile bootstrap interval of the mean, values [n]; rows of one query (the same text) are drawn together.

    Rows that ask the same are not independent: drawn one by one, they would make the interval too narrow.

    Args:
        values: of every row.
        queries: number of each row's query, from 0.
        confidence: level.
        resamples: how many.
        seed: of the draws.
    """
    counts = np.bincount(queries)
    if len(counts) in {1, len(values)} or (np.isin(values, (0.0, 1.0)).all() and np.ptp(values) == 0):
        # One value a query, or none that differs: what is true of independent queries.
        sums = np.bincount(queries, weights=values)
        return interval(sums / counts, confidence, resamples, seed)
    drawn = np.random.default_rng(seed).integers(0, len(counts), (resamples, len(counts)))
    sums = np.bincount(queries, weights=values)
    means = sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1)
    low, high = np.quantile(means, ((1 - confidence) / 2, (1 + confidence) / 2))
    mean = float(values.mean())
    return min(float(low), mean), max(float(high), mean)
