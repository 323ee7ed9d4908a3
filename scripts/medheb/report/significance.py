"""Which differences between models are more than noise: over all families, and family by family."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import combinations

import numpy as np
import pandas as pd

from medheb.manifest.task import FAMILY_TITLES
from medheb.report.collect import Results
from medheb.report.per_query import QueryValues
from medheb.report.statistics import (
    Estimate,
    family_weights,
    holm,
    over_queries,
    over_tasks,
    paired_moments,
    rank_intervals,
    tie_groups,
)
from medheb.report.tables import families_in_order, mean_of, models_in_order

OVERALL = "all families"
METRIC = "hit@1"


@dataclass(frozen=True)
class Pair:
    """Two models on the tasks that both hold: first less second, on these tasks and on such tasks."""

    scope: str
    first: str
    second: str
    tasks: int
    these: Estimate
    such: Estimate
    these_p: float = math.nan
    such_p: float = math.nan


@dataclass(frozen=True)
class Standing:
    """One model within a scope: its mean, both intervals, its place, the ranks it may have, its tie group."""

    scope: str
    model: str
    tasks: int
    value: float
    low: float
    high: float
    such_low: float
    such_high: float
    rank: int
    rank_low: int
    rank_high: int
    such_rank_low: int
    such_rank_high: int
    group: str


@dataclass(frozen=True)
class Significance:
    """Pairs and standings by scope; ``alpha`` is one less the confidence; ``left_out`` names unusable results."""

    alpha: float
    pairs: dict[str, list[Pair]]
    standings: dict[str, list[Standing]]
    left_out: tuple[str, ...]


def significance(results: Results, values: QueryValues) -> Significance:
    """All tests between the real models that are ranked on the leaderboard's measure (Hit@1, mean of family means)."""
    confidence = results.run.config.evaluate.confidence
    models = [model.id for model in models_in_order(results) if not model.canary]
    moments = {task: _moments(held, models) for task, held in values.tasks.items()}
    pairs: dict[str, list[Pair]] = {}
    standings: dict[str, list[Standing]] = {}
    for scope in (OVERALL, *families_in_order(results)):
        tasks = [key for key, task in results.run.tasks.items() if scope in {OVERALL, task.family}]
        found = [_pair(results, scope, tasks, moments, *names) for names in combinations(models, 2)]
        pairs[scope] = _corrected([pair for pair in found if pair is not None])
        standings[scope] = _standings(results, scope, tasks, models, pairs[scope], confidence)
    return Significance(1 - confidence, pairs, standings, values.faults)


Moments = dict[tuple[str, str], tuple[float, float]]


def _moments(held: dict[str, np.ndarray], models: Sequence[str]) -> Moments:
    """Difference and variance of every ordered pair of models that hold a task."""
    present = [model for model in models if model in held]
    if len(present) < 2:
        return {}
    differences, variances = paired_moments(np.stack([held[model] for model in present]))
    return {
        (first, second): (float(differences[i, j]), float(variances[i, j]))
        for i, first in enumerate(present)
        for j, second in enumerate(present)
        if i != j
    }


def _pair(
    results: Results, scope: str, tasks: Sequence[str], moments: dict[str, Moments], first: str, second: str
) -> Pair | None:
    both = [task for task in tasks if (first, second) in moments[task]]
    if not both:
        return None
    families = [results.run.tasks[task].family for task in both]
    differences = np.array([moments[task][first, second][0] for task in both])
    variances = np.array([moments[task][first, second][1] for task in both])
    weights = family_weights(families)
    these = over_queries(differences, variances, weights)
    return Pair(scope, first, second, len(both), these, over_tasks(differences, families, weights))


def _corrected(pairs: list[Pair]) -> list[Pair]:
    these, such = holm([pair.these.p for pair in pairs]), holm([pair.such.p for pair in pairs])
    return [
        Pair(pair.scope, pair.first, pair.second, pair.tasks, pair.these, pair.such, p, q)
        for pair, p, q in zip(pairs, these, such, strict=True)
    ]


def _standings(
    results: Results, scope: str, tasks: Sequence[str], models: Sequence[str], pairs: list[Pair], confidence: float
) -> list[Standing]:
    """Standings of the models that hold every task of the scope that any real model holds."""
    wanted = set(tasks)
    held = {model: [score for score in results.scores(model) if score.task in wanted] for model in models}
    most = set().union(*({score.task for score in scores} for scores in held.values())) if held else set()
    ranked = [model for model in models if most and {score.task for score in held[model]} == most]
    means = {model: mean_of(held[model], METRIC, "families") for model in ranked}
    ranked.sort(key=lambda model: (-means[model].value, model))
    alpha = 1 - confidence
    these = _better(ranked, pairs, alpha, such=False)
    such = _better(ranked, pairs, alpha, such=True)
    rows: list[Standing] = []
    for place, model in enumerate(ranked):
        scores = held[model]
        families = [score.family for score in scores]
        estimate = over_tasks(
            np.array([score.metrics[METRIC].value for score in scores]), families, family_weights(families)
        )
        such_low, such_high = (float(limit) for limit in np.clip(estimate.interval(confidence), 0, 1))  # NaN stays
        mean = means[model]
        rows.append(
            Standing(
                scope, model, len(scores), mean.value, mean.low, mean.high, such_low, such_high, place + 1,
                *rank_intervals(these)[place], *rank_intervals(such)[place], tie_groups(these)[place],
            )
        )  # fmt: skip
    return rows


def _better(ranked: Sequence[str], pairs: list[Pair], alpha: float, such: bool) -> np.ndarray:
    place = {model: number for number, model in enumerate(ranked)}
    better = np.zeros((len(ranked), len(ranked)), dtype=np.bool_)
    for pair in pairs:
        p, value = (pair.such_p, pair.such.value) if such else (pair.these_p, pair.these.value)
        if p < alpha and pair.first in place and pair.second in place:
            first, second = (pair.first, pair.second) if value > 0 else (pair.second, pair.first)
            better[place[first], place[second]] = True
    return better


PAIR_COLUMNS = (
    *("scope", "model", "other", "tasks", "difference", "low", "high", "p", "p_corrected", "significant"),
    *(f"such_tasks_{name}" for name in ("low", "high", "p", "p_corrected", "significant")),
)


def pair_table(found: Significance) -> pd.DataFrame:
    """One row a pair and scope: difference, both intervals, p-values as they are and corrected, verdicts."""
    confidence = 1 - found.alpha
    rows = []
    for pairs in found.pairs.values():
        for pair in pairs:
            low, high = pair.these.interval(confidence)
            such_low, such_high = pair.such.interval(confidence)
            rows.append(
                {
                    "scope": pair.scope, "model": pair.first, "other": pair.second, "tasks": pair.tasks,
                    "difference": pair.these.value, "low": low, "high": high, "p": pair.these.p,
                    "p_corrected": pair.these_p, "significant": pair.these_p < found.alpha,
                    "such_tasks_low": such_low, "such_tasks_high": such_high, "such_tasks_p": pair.such.p,
                    "such_tasks_p_corrected": pair.such_p, "such_tasks_significant": pair.such_p < found.alpha,
                }
            )  # fmt: skip
    return pd.DataFrame(rows, columns=list(PAIR_COLUMNS))


def standing_table(found: Significance) -> pd.DataFrame:
    """One row a model and scope; see :class:`Standing`."""
    rows = [vars(row) for rows in found.standings.values() for row in rows]
    return pd.DataFrame(rows, columns=[field.name for field in fields(Standing)])


def scope_title(scope: str) -> str:
    """A scope in words."""
    return next((title for family, title in FAMILY_TITLES.items() if family == scope), "All families")
