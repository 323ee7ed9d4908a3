"""The paper's result tables from a run's scores, each number beside the published one.

Numbers are in per cent as the paper has them, CV is a ratio. A column is the mean over its tasks (tables 4
and 8) or made of the eight family means (table 7, population standard deviation, paper A.3). Every number
says how many tasks it holds; a difference is given only where it holds all tasks of the paper's column.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from medheb.evaluate.score import Score
from medheb.manifest.task import FAMILIES
from medheb.report.collect import Results
from medheb.report.graded import GRADED_COLUMNS, GRADED_LABELS, Graded
from medheb.report.published import Published
from medheb.report.tables import models_in_order

COLUMN_LABELS = {
    "image-image": "I-I",
    "modality-bridging": "MB-VR",
    "image-label": "I-Lab",
    "image-report": "I-Rep",
    "text-image": "T-I",
    "vqa": "VQA",
    "region": "VG",
    "text-text": "T-T",
    "id": "ID",
    "heldout": "Held-out",
    "all": "All",
    "mean": "Mean",
    "std": "SD",
    "cv": "CV",
    **GRADED_LABELS,
}
SUMMARY = ("id", "heldout", "all")
METRIC_LABELS = {"hit@1": "Hit@1", "hit@5": "Hit@5", "mrr@5": "MRR@5", "ndcg@5": "NDCG@5", "ndcg@10": "NDCG@10"}
CV_GUARD = 1e-12  # the formula's epsilon: a model that is never right has no CV worth a number


@dataclass(frozen=True)
class TableSpec:
    """One table of the paper: its number, what it shows, and its (metric, column) pairs."""

    number: str
    title: str
    pairs: tuple[tuple[str, str], ...]


def _pairs(metrics: Sequence[str], columns: Sequence[str]) -> tuple[tuple[str, str], ...]:
    return tuple((metric, column) for metric in metrics for column in columns)


TABLES = (
    TableSpec("4", "Hit@1 and MRR@5, mean over tasks", _pairs(("hit@1", "mrr@5"), (*FAMILIES, *SUMMARY))),
    TableSpec("8", "Hit@5, mean over tasks", _pairs(("hit@5",), (*FAMILIES, *SUMMARY))),
    TableSpec("7", "Balance over the families, Hit@1", _pairs(("hit@1",), ("mean", "std", "cv", *FAMILIES))),
    TableSpec("5", "Graded relevance, NDCG@5", _pairs(("ndcg@5",), GRADED_COLUMNS)),
    TableSpec("6", "Cross-source graded retrieval", _pairs(("ndcg@5", "ndcg@10", "hit@1", "hit@5"), ("cross-source",))),
)


@dataclass(frozen=True)
class PaperCell:
    """A number of ours (NaN if there is none), over how many tasks, and the published number (NaN likewise)."""

    value: float
    tasks: int
    expected: int
    published: float
    comparable: bool

    @property
    def difference(self) -> float:
        """Ours less the published number; NaN unless both are over the same number of tasks."""
        return self.value - self.published if self.comparable else math.nan


@dataclass(frozen=True)
class PaperRow:
    """One model: of the run, or known from the paper only."""

    model: str
    title: str
    in_run: bool
    canary: bool
    cells: tuple[PaperCell, ...]


@dataclass(frozen=True)
class PaperTable:
    """A filled table; ``cells`` of a row stand in the order of ``spec.pairs``."""

    spec: TableSpec
    rows: tuple[PaperRow, ...]

    @property
    def has_values(self) -> bool:
        """True if the run has any number for it."""
        return any(not math.isnan(cell.value) for row in self.rows for cell in row.cells)


Numbers = dict[tuple[str, str], tuple[float, int, int]]


def paper_tables(results: Results, published: Published, graded: Graded) -> list[PaperTable]:
    """All tables of the paper, ours beside the published numbers; models of the run first, as ranked."""
    models = models_in_order(results)
    known = {published.model_of(model) for model in models}
    tables: list[PaperTable] = []
    for spec in TABLES:
        rows: list[PaperRow] = []
        for model in models:
            if spec.number in {"5", "6"}:
                numbers = _graded_numbers(graded, model.id, spec)
            else:
                numbers = _numbers(results, results.scores(model.id), spec)
            cells = _cells(spec, numbers, published, published.model_of(model), len(results.run.tasks))
            rows.append(PaperRow(model.id, model.title, True, model.canary, cells))
        for key, title in published.titles.items():
            if key not in known:
                cells = _cells(spec, {}, published, key, len(results.run.tasks))
                if any(not math.isnan(cell.published) for cell in cells):
                    rows.append(PaperRow(key, title, False, False, cells))
        tables.append(PaperTable(spec, tuple(rows)))
    return tables


def _cells(
    spec: TableSpec, numbers: Numbers, published: Published, name: str | None, total: int
) -> tuple[PaperCell, ...]:
    cells: list[PaperCell] = []
    for metric, column in spec.pairs:
        value, tasks, expected = numbers.get((metric, column), (math.nan, 0, 0))
        said = published.value(spec.number, name, metric, column)
        wanted = published.tasks.get(column, published.tasks.get("all") if spec.number == "7" else tasks)
        cells.append(PaperCell(value, tasks, expected, said, tasks > 0 and tasks == expected == wanted))
    return tuple(cells)


def _graded_numbers(graded: Graded, model: str, spec: TableSpec) -> Numbers:
    numbers: Numbers = {}
    for metric, column in spec.pairs:
        mean, held, expected = graded.mean(model, column, metric)
        numbers[metric, column] = (100 * mean.value, held, expected)
    return numbers


def _numbers(results: Results, scores: Sequence[Score], spec: TableSpec) -> Numbers:
    numbers: Numbers = {}
    for metric, column in spec.pairs:
        if column in {"mean", "std", "cv"}:
            continue
        held = [score.metrics[metric].value for score in scores if in_column(column)(score.family, score.split)]
        expected = sum(in_column(column)(task.family, task.split) for task in results.run.tasks.values())
        numbers[metric, column] = (100 * math.fsum(held) / len(held) if held else math.nan, len(held), expected)
    if spec.number == "7":
        families = [numbers["hit@1", family] for family in FAMILIES if numbers["hit@1", family][1]]
        for column, value in balance([value for value, _, _ in families]).items():
            numbers["hit@1", column] = (value, len(scores), len(results.run.tasks))
    return numbers


def in_column(column: str) -> Callable[[str, str], bool]:
    """Whether a task of a family and split belongs to a column of tables 4, 7 and 8."""
    if column == "all":
        return lambda family, split: True
    if column in SUMMARY:
        return lambda family, split: split == column
    return lambda family, split: family == column


def balance(family_values: Sequence[float]) -> dict[str, float]:
    """Mean, population standard deviation (ddof 0) and CV of family means (paper A.3); NaN without families."""
    if not family_values:
        return {"mean": math.nan, "std": math.nan, "cv": math.nan}
    values = np.asarray(family_values, dtype=np.float64)
    mean, spread = float(values.mean()), float(values.std())
    return {"mean": mean, "std": spread, "cv": spread / mean if mean > CV_GUARD else math.nan}


def long_table(table: PaperTable) -> pd.DataFrame:
    """One row a number: model, metric, column, value, tasks held and expected, published value, difference."""
    return pd.DataFrame(
        [
            {
                "table": table.spec.number,
                "model": row.model,
                "title": row.title,
                "in_run": row.in_run,
                "canary": row.canary,
                "metric": metric,
                "column": column,
                "value": cell.value,
                "tasks": cell.tasks,
                "tasks_expected": cell.expected,
                "published": cell.published,
                "difference": cell.difference,
            }
            for row in table.rows
            for (metric, column), cell in zip(table.spec.pairs, row.cells, strict=True)
        ]
    )


def wide_table(table: PaperTable) -> pd.DataFrame:
    """The table as one reads it: for each model a line of ours, one published, one of differences; as text."""
    several = len({metric for metric, _ in table.spec.pairs}) > 1
    heads = [
        f"{COLUMN_LABELS[column]} {METRIC_LABELS[metric]}" if several else COLUMN_LABELS[column]
        for metric, column in table.spec.pairs
    ]
    lines: list[list[str]] = []
    for row in table.rows:
        of_ours = [_with_count(cell, column) for (_, column), cell in zip(table.spec.pairs, row.cells, strict=True)]
        if row.in_run:
            lines.append([row.title, "this run", *of_ours])
        pairs = list(zip(table.spec.pairs, row.cells, strict=True))
        if any(not math.isnan(cell.published) for cell in row.cells):
            lines.append([row.title, "published", *(written(cell.published, column) for (_, column), cell in pairs)])
        if any(not math.isnan(cell.difference) for cell in row.cells):
            lines.append(
                [row.title, "difference", *(written(cell.difference, column, sign=True) for (_, column), cell in pairs)]
            )
    return pd.DataFrame(lines, columns=["Model", "Numbers", *heads])


def _with_count(cell: PaperCell, column: str) -> str:
    text = written(cell.value, column)
    return f"{text} [{cell.tasks} of {cell.expected}]" if 0 < cell.tasks < cell.expected else text


def written(value: float, column: str, sign: bool = False) -> str:
    """A number with the paper's decimals: two in per cent, three for CV; empty if there is none."""
    if math.isnan(value):
        return ""
    decimals = 3 if column == "cv" else 2
    return f"{value:+.{decimals}f}" if sign else f"{value:.{decimals}f}"
