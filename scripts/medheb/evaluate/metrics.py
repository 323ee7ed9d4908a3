"""Hit@k, MRR@k and NDCG@k as expectations over all orders of tied candidates, with worst case and chance.

With ``above`` = g, ``tied`` = t, ``positives`` = r, the first positive of the tied group stands at
offset j with probability C(t-j, r-1) / C(t, r), j = 1 .. t-r+1, so at rank g+j. The value depends on
neither the order nor the names of candidates, and a constant model scores exactly chance. NDCG gives
each rank of the tied group the group's mean gain, r/t; right candidates outside the group do not count.
Source: models and evaluation, section 7; paper section 5.1 for the metrics.
"""

from __future__ import annotations

from functools import cache
from math import comb, log2

import numpy as np
from numpy.typing import NDArray

CUTOFFS = {"hit@1": 1, "hit@5": 5, "mrr@5": 5, "ndcg@5": 5, "ndcg@10": 10}


@cache
def expected(metric: str, above: int, tied: int, positives: int) -> float:
    """Expected value of a metric for one query.

    Raises:
        ValueError: counts that no ranking can have.
    """
    if above < 0 or not 1 <= positives <= tied:
        raise ValueError(f"impossible counts: above={above}, tied={tied}, positives={positives}")
    if metric.startswith("ndcg"):
        return _ndcg(CUTOFFS[metric], above, tied, positives)
    orders = comb(tied, positives)
    total = 0.0
    for offset in range(1, tied - positives + 2):
        rank = above + offset
        if rank > CUTOFFS[metric]:
            break
        gain = 1.0 if metric.startswith("hit") else 1.0 / rank
        total += gain * comb(tied - offset, positives - 1) / orders
    return total


def _ndcg(cutoff: int, above: int, tied: int, positives: int) -> float:
    gained = sum(1 / log2(1 + rank) for rank in range(above + 1, min(above + tied, cutoff) + 1))
    ideal = sum(1 / log2(1 + rank) for rank in range(1, min(positives, cutoff) + 1))
    return gained * positives / tied / ideal


def worst(metric: str, above: int, tied: int, positives: int) -> float:
    """Value of a metric if every tie went against the model."""
    return expected(metric, above + tied - positives, positives, positives)


def optimistic(metric: str, above: int) -> float:
    """Value of a metric if every tie went in favour of the model, as a positive-first stable sort has it."""
    return expected(metric, above, 1, 1)


def chance(metric: str, pool: int, positives: int) -> float:
    """Expected value of a metric for a random order of the pool."""
    return expected(metric, 0, pool, positives)


def interval(values: NDArray[np.float64], confidence: float, resamples: int, seed: int) -> tuple[float, float]:
    """Percentile bootstrap interval of the mean over queries, values [n].

    One query has no spread to resample: its interval is the whole range 0..1. Nor has a model that
    always misses (or hits): there the exact binomial interval (Clopper-Pearson) says what n queries
    can tell. Queries are resampled as if they were independent.
    """
    # Here, since it takes 70 MB, and most who read scores compute no interval.
    from scipy.stats import binomtest, bootstrap

    if len(values) < 2:
        return 0.0, 1.0
    if np.isin(values, (0.0, 1.0)).all() and np.ptp(values) == 0:
        exact = binomtest(int(values.sum()), len(values)).proportion_ci(confidence, method="exact")
        return float(exact.low), float(exact.high)
    result = bootstrap(
        (values,),
        np.mean,
        n_resamples=resamples,
        confidence_level=confidence,
        method="percentile",
        rng=np.random.default_rng(seed),
    ).confidence_interval
    mean = float(values.mean())
    # Rounding of the resampled means must not push an interval off its own mean.
    return min(float(result.low), mean), max(float(result.high), mean)
