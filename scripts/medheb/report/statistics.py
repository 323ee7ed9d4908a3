"""Intervals of means, paired tests, and what follows for ranks. Pure functions of arrays; nothing is drawn at random.

Two questions, two answers. *These tasks*: would the result stand with other queries of the same tasks? The tasks
are fixed, only queries vary. *Such tasks*: would it stand with other tasks of the same families? Tasks vary within
their family, and what varies between tasks includes what varies between their queries. The second is the wider.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm, t

Array = NDArray[np.float64]
ALL = slice(None)


@dataclass(frozen=True)
class Estimate:
    """A weighted mean or difference with its standard error; ``freedom`` is infinite for a normal reference.

    ``error`` is NaN where it cannot be known (a family of one task).
    """

    value: float
    error: float
    freedom: float = math.inf

    def interval(self, confidence: float) -> tuple[float, float]:
        """Two-sided interval; NaN if the error is unknown."""
        if math.isnan(self.error):
            return math.nan, math.nan
        reach = float(t.ppf((1 + confidence) / 2, self.freedom)) * self.error
        return self.value - reach, self.value + reach

    @property
    def p(self) -> float:
        """Two-sided p of no difference: 1 if there is none, NaN if the error is unknown or nothing varies."""
        if self.value == 0:
            return 1.0
        if math.isnan(self.error) or self.error == 0:
            return math.nan
        ratio = abs(self.value) / self.error
        return float(2 * (norm.sf(ratio) if math.isinf(self.freedom) else t.sf(ratio, self.freedom)))


def family_weights(families: Sequence[str]) -> Array:
    """Weights [tasks] of the mean of family means: every family alike, within it every task alike."""
    counts = {family: families.count(family) for family in families}
    return np.array([1 / (len(counts) * counts[family]) for family in families])


def over_tasks(means: Array, families: Sequence[str], weights: Array) -> Estimate:
    """Mean of task means whose tasks vary within their families (stratified; Welch-Satterthwaite freedom).

    Args:
        means: float64 [tasks], one mean (or difference) a task.
        families: the family of each task.
        weights: float64 [tasks], the same for all tasks of a family; they add to 1.
    """
    value = float(weights @ means)
    variance, shrink = 0.0, 0.0
    for family in dict.fromkeys(families):
        own = np.array([name == family for name in families])
        count = int(own.sum())
        if count < 2:
            return Estimate(value, math.nan)
        share = float(weights[own].sum())
        part = share**2 * float(means[own].var(ddof=1)) / count
        variance += part
        shrink += part**2 / (count - 1)
    if variance == 0:
        return Estimate(value, 0.0)
    return Estimate(value, math.sqrt(variance), variance**2 / shrink)


def paired_moments(values: Array) -> tuple[Array, Array]:
    """Mean differences between all models on one task, and the variances of these means.

    The variance is that of Agresti and Min (2005, doi:10.1002/sim.1781): half a query is added to each cell of the
    two-by-two table of right and wrong, so that two models that differ nowhere on few queries are not thought equal
    for certain, and one query alone has a variance.

    Args:
        values: float64 [models, queries], from 0 to 1.

    Returns:
        float64 [models, models] each: row less column.
    """
    count = values.shape[1]
    means = values.mean(axis=1)
    squares = values @ values.T
    own = np.diag(squares)
    sums = count * (means[:, None] - means[None, :])
    square_sums = np.maximum(own[:, None] + own[None, :] - 2 * squares, 0)
    spread = (square_sums + 1) / (count + 2) - (sums / (count + 2)) ** 2
    return means[:, None] - means[None, :], spread / count


def over_queries(differences: Array, variances: Array, weights: Array) -> Estimate:
    """Weighted mean of task differences whose queries vary, tasks fixed; all float64 [tasks]."""
    return Estimate(float(weights @ differences), math.sqrt(float(weights**2 @ variances)))


def holm(p: Sequence[float]) -> list[float]:
    """p-values corrected for their number (Holm 1979): the chance of even one false finding stays at the level.

    NaN (no test could be made) stays NaN and does not count.
    """
    corrected = [math.nan] * len(p)
    order = sorted((place for place, value in enumerate(p) if not math.isnan(value)), key=lambda place: p[place])
    running = 0.0
    for number, place in enumerate(order):
        running = max(running, min(1.0, (len(order) - number) * p[place]))
        corrected[place] = running
    return corrected


def rank_intervals(better: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Ranks that each model may have: behind those significantly better, before those significantly worse.

    With tests corrected for their number all true ranks lie in these intervals at once at the level of the tests.

    Args:
        better: bool [models, models], row significantly better than column.
    """
    count = len(better)
    return [(1 + int(better[:, model].sum()), count - int(better[model].sum())) for model in range(count)]


def tie_groups(better: NDArray[np.bool_]) -> list[str]:
    """Letters for models in the order of their means: two that share a letter were not told apart.

    A group is a run of neighbours in the order of which no two differ significantly, as long as can be.
    """
    count = len(better)
    differs = better | better.T
    letters = [""] * count
    last, number = -1, 0
    for first in range(count):
        end = first
        while end + 1 < count and not differs[first : end + 1, end + 1].any():
            end += 1
        if end > last:
            for model in range(first, end + 1):
                letters[model] += _letter(number)
            last, number = end, number + 1
    return letters


def _letter(number: int) -> str:
    return chr(ord("a") + number) if number < 26 else f"({number + 1})"
