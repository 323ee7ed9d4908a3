"""The tables of the report, as data frames of plain numbers (shares from 0 to 1)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from medheb.evaluate.score import METRICS, Metric, Score
from medheb.manifest.model import Model
from medheb.manifest.task import FAMILIES, FAMILY_TITLES, Family
from medheb.report.collect import Results

PARTS = ("value", "low", "high", "worst", "chance")
AVERAGES = ("families", "tasks")
ROUNDING = 1e-9  # two ways of summing the same share may differ in the last digits


@dataclass(frozen=True)
class Mean:
    """A weighted mean of task values with its interval over queries; all shares from 0 to 1, NaN if empty."""

    value: float
    low: float
    high: float
    worst: float
    chance: float


EMPTY = Mean(*(math.nan,) * 5)


def mean_of(scores: Sequence[Score], metric: str, by: str) -> Mean:
    """Mean over tasks (``by='tasks'``) or over families of family means (``by='families'``).

    The interval of the mean is put together from the tasks' own intervals by the method of variance
    estimates recovery (Zou and Donner 2008, doi:10.1002/sim.3095): distances to the limits, weighted,
    add in quadrature. It is over the queries of these very tasks, taken as independent.
    """
    if not scores:
        return EMPTY
    return mean_over([score.metrics[metric] for score in scores], _weights(scores, by))


def mean_over(metrics: Sequence[Metric], weights: Sequence[float]) -> Mean:
    """A weighted mean of at least one value with its interval; weights add up to 1."""

    def total(part: str) -> float:
        return math.fsum(weight * getattr(item, part) for weight, item in zip(weights, metrics, strict=True))

    def distance(part: str) -> float:
        return math.sqrt(
            math.fsum(
                (weight * (getattr(item, part) - item.value)) ** 2
                for weight, item in zip(weights, metrics, strict=True)
            )
        )

    value = total("value")
    return Mean(value, value - distance("low"), value + distance("high"), total("worst"), total("chance"))


def _weights(scores: Sequence[Score], by: str) -> list[float]:
    if by == "tasks":
        return [1 / len(scores)] * len(scores)
    counts: dict[Family, int] = {}
    for score in scores:
        counts[score.family] = counts.get(score.family, 0) + 1
    return [1 / (len(counts) * counts[score.family]) for score in scores]


def leaderboard(results: Results) -> pd.DataFrame:
    """One row a model: means of every metric over families and over tasks, and how many tasks they hold.

    Only models that hold every task that any real model holds get a rank; the others follow, then the canaries.
    """
    run = results.run
    held = {model: {score.task for score in results.scores(model)} for model in run.models}
    reference = set().union(*(held[model.id] for model in run.models.values() if not model.canary))
    expected_families = {task.family for task in run.tasks.values()}
    rows: list[dict[str, Any]] = []
    for model in run.models.values():
        scores = results.scores(model.id)
        row: dict[str, Any] = {
            "rank": pd.NA,
            "model": model.id,
            "title": model.title,
            "canary": model.canary,
            "comparable": bool(scores) and held[model.id] == reference,
            "tasks": len(scores),
            "tasks_expected": len(run.tasks),
            "families": len({score.family for score in scores}),
            "families_expected": len(expected_families),
        }
        for by in AVERAGES:
            for metric in METRICS:
                row |= _spread(f"{metric}_{by}", mean_of(scores, metric, by))
        rows.append(row)
    rows.sort(key=_order)
    ranked = [row for row in rows if row["comparable"] and not row["canary"]]
    for number, row in enumerate(ranked, start=1):
        row["rank"] = number
    table = pd.DataFrame(rows)
    table["rank"] = table["rank"].astype("Int64")
    return table


def _order(row: dict[str, Any]) -> tuple[Any, ...]:
    hit, mrr = row["hit@1_families_value"], row["mrr@5_families_value"]
    return (row["canary"], not row["comparable"], math.isnan(hit), -hit, -mrr, row["model"])


def _spread(name: str, mean: Any) -> dict[str, float]:
    return {f"{name}_{part}": getattr(mean, part) for part in PARTS}


def task_table(results: Results) -> pd.DataFrame:
    """One row a cell, missing ones included: all metrics, intervals, worst case, chance, n, pool, ties, reason.

    Within a task the models come as the leaderboard has them.
    """
    rows: list[dict[str, Any]] = []
    models = models_in_order(results)
    for task in tasks_in_order(results):
        for model in models:
            cell = results.cells[model.id, task]
            score = cell.score
            row: dict[str, Any] = {
                "task": task,
                "family": cell.task.family,
                "form": cell.task.form,
                "split": cell.task.split,
                "pool": cell.task.pool,
                "model": model.id,
                "canary": model.canary,
                "state": cell.status.state,
                "queries": score.queries if score else pd.NA,
                "candidates": score.candidates if score else pd.NA,
                "tied_fraction": score.tied_fraction if score else math.nan,
                "mean_cosine": _number_or_nan(score.mean_cosine if score else None),
                "effective_rank": _number_or_nan(score.effective_rank if score else None),
            }
            for metric in METRICS:
                row |= _spread(metric, score.metrics[metric] if score else EMPTY)
            row |= {"reason": cell.status.reason, "remedy": cell.status.remedy}
            rows.append(row)
    table = pd.DataFrame(rows)
    return table.astype({"queries": "Int64", "candidates": "Int64"}) if rows else table


def _number_or_nan(number: float | None) -> float:
    return math.nan if number is None else number


def family_table(results: Results) -> pd.DataFrame:
    """One row a model and family: means over the family's tasks, and how many tasks they hold."""
    rows: list[dict[str, Any]] = []
    for model in results.run.models.values():
        for family in families_in_order(results):
            scores = [score for score in results.scores(model.id) if score.family == family]
            expected = sum(task.family == family for task in results.run.tasks.values())
            row: dict[str, Any] = {
                "model": model.id,
                "canary": model.canary,
                "family": family,
                "family_title": FAMILY_TITLES[family],
                "tasks": len(scores),
                "tasks_expected": expected,
            }
            for metric in METRICS:
                row |= _spread(metric, mean_of(scores, metric, "tasks"))
            rows.append(row)
    return pd.DataFrame(rows)


def missing_table(results: Results) -> pd.DataFrame:
    """Missing cells put together by reason: which tasks and models, why, what to do."""
    groups: dict[tuple[str, str, str], list[tuple[str, str]]] = {}
    for cell in results.missing:
        groups.setdefault((cell.state, cell.reason, cell.remedy), []).append((cell.task, cell.model))
    return pd.DataFrame(
        [
            {
                "tasks": sorted({task for task, _ in pairs}),
                "models": sorted({model for _, model in pairs}),
                "cells": len(pairs),
                "state": state,
                "reason": reason,
                "remedy": remedy,
            }
            for (state, reason, remedy), pairs in groups.items()
        ],
        columns=["tasks", "models", "cells", "state", "reason", "remedy"],
    )


def models_in_order(results: Results) -> list[Model]:
    """Models as the leaderboard has them: the best first, canaries last."""
    return [results.run.models[key] for key in leaderboard(results)["model"]]


def includes_chance(low: float, high: float, chance: float) -> bool:
    """True if chance lies in the interval, its limits included; False if there is no interval (NaN)."""
    return low - ROUNDING <= chance <= high + ROUNDING


def families_in_order(results: Results) -> list[Family]:
    """Families that the run has tasks of, in the paper's order."""
    present = {task.family for task in results.run.tasks.values()}
    return [family for family in FAMILIES if family in present]


def tasks_in_order(results: Results) -> list[str]:
    """Task keys by family in the paper's order, then as the manifest lists them."""
    tasks = results.run.tasks.values()
    return [task.task for family in families_in_order(results) for task in tasks if task.family == family]


def as_csv(table: pd.DataFrame) -> str:
    """CSV text with full precision, LF line ends and empty fields for what is missing."""
    text: str = table.to_csv(index=False, lineterminator="\n")
    return text
