"""Results of graded retrieval (paper tables 5 and 6), which belong to no family and enter no mean of the leaderboard.

A column of table 5 is the mean over the graded tasks of its relation, ``All`` the mean over all of them. A graded task
that a model lacks is a missing cell with its reason, as everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from medheb.core.errors import MedhebError
from medheb.core.status import OK, Status
from medheb.evaluate.graded_gains import relation_digest
from medheb.evaluate.graded_ranking import GRADED_METRICS
from medheb.evaluate.graded_score import AGAIN, GradedScore, read_graded_score
from medheb.manifest.graded import Aspect, GradedEntry
from medheb.manifest.load import Run
from medheb.manifest.model import Model
from medheb.manifest.task import Task
from medheb.report.collect import check_metrics, check_share, earlier_trouble, failed, public, public_status
from medheb.report.tables import EMPTY, Mean, mean_over

ALL, CROSS = "graded", "cross-source"
GRADED_COLUMNS = ("severity", "laterality", "diagnosis", "cell-tissue", ALL)
GRADED_LABELS = {
    "severity": "Severity",
    "laterality": "Laterality",
    "diagnosis": "Diagnosis",
    "cell-tissue": "Cell/tissue",
    ALL: "All",
    CROSS: "Cross-source",
}
NOT_EVALUATED = {"reason": "there is no graded score file: it was not evaluated", "remedy": "Run the workflow again"}


@dataclass(frozen=True)
class GradedCell:
    """One model on one graded task: a checked score, or the status that says why there is none."""

    model: Model
    entry: GradedEntry
    task: Task
    score: GradedScore | None
    status: Status


@dataclass(frozen=True)
class Graded:
    """All graded cells of a run (graded tasks x models, in manifest order)."""

    run: Run
    cells: tuple[GradedCell, ...] = ()

    @property
    def entries(self) -> list[GradedEntry]:
        """Graded tasks of the run."""
        return list(self.run.graded_entries.values())

    @property
    def missing(self) -> list[GradedCell]:
        """Cells without a score."""
        return [cell for cell in self.cells if cell.score is None]

    def scores(self, model: str, column: str) -> list[GradedScore]:
        """Scores of a model in a column of table 5 or 6."""
        return [
            cell.score
            for cell in self.cells
            if cell.model.id == model and cell.score is not None and in_graded_column(column, cell.entry.aspect)
        ]

    def mean(self, model: str, column: str, metric: str) -> tuple[Mean, int, int]:
        """Mean of a column with its interval over queries, over how many graded tasks, and how many there should be."""
        scores = self.scores(model, column)
        expected = sum(in_graded_column(column, entry.aspect) for entry in self.entries)
        values = [score.metrics[metric] for score in scores]
        return (mean_over(values, [1 / len(values)] * len(values)) if values else EMPTY), len(scores), expected


def in_graded_column(column: str, aspect: Aspect) -> bool:
    """Whether a graded task of an aspect belongs to a column of table 5 or 6."""
    return column == aspect or (column == ALL and aspect != CROSS)


def collect_graded(run: Run) -> Graded:
    """Load all graded scores of a run.

    Raises:
        MedhebError: scores of different protocols, rules, data or weights that must not stand in one table.
    """
    cells = tuple(_cell(run, model, entry) for entry in run.graded_entries.values() for model in run.models.values())
    _refuse_mixtures(run, [cell.score for cell in cells if cell.score is not None])
    return Graded(run, cells)


def _cell(run: Run, model: Model, entry: GradedEntry) -> GradedCell:
    task = run.every_task[entry.task or entry.key]
    path = run.layout.graded(model.id, entry.key)
    origin = f"evaluate {model.id} {entry.key}"
    try:
        score = read_graded_score(path)
        for key, stands, wanted in (
            ("model", score.model, model.id),
            ("graded task", score.key, entry.key),
            ("relation", score.aspect, entry.aspect),
            ("task", score.task, task.task),
        ):
            if stands != wanted:
                raise MedhebError(path, f"is for {key} {stands!r}, but the manifests say {wanted!r}", AGAIN)
        if score.status.ok:
            check_metrics(path, score.metrics, GRADED_METRICS, score.queries)
            check_share(path, "tied_fraction", score.tied_fraction)
    except MedhebError as error:
        status = earlier_trouble(run, model, task)
        if status.ok and not path.exists():
            status = Status(state="failed", origin=origin, **NOT_EVALUATED)
        elif status.ok:
            status = failed(origin, error)
        return GradedCell(model, entry, task, None, public_status(run, task.sources, status))
    except OSError as error:
        unreadable = MedhebError(path, f"cannot be read ({error.strerror})", "Check the file and its rights, then run")
        return GradedCell(model, entry, task, None, public_status(run, task.sources, failed(origin, unreadable)))
    if not score.status.ok:
        return GradedCell(model, entry, task, None, public_status(run, task.sources, score.status))
    warnings = tuple(public(run, task.sources, text) for text in score.warnings)
    return GradedCell(model, entry, task, score.model_copy(update={"warnings": warnings}), OK)


def _refuse_mixtures(run: Run, scores: Sequence[GradedScore]) -> None:
    first: dict[str, GradedScore] = {}
    for score in scores:
        path = run.layout.graded(score.model, score.key)
        relation = run.graded.relations[run.graded_entries[score.key].relation] if run.graded else None
        for what, stands, wanted in (
            ("protocol", score.protocol, run.protocol.name),
            ("rule of gains", score.rule[:12], relation_digest(relation)[:12] if relation else ""),
        ):
            if stands != wanted:
                raise MedhebError(path, f"is for {what} {stands!r}, not {wanted!r}", AGAIN)
        other = first.setdefault(score.key, score)
        if (score.task_digest, score.data_root) != (other.task_digest, other.data_root):
            raise MedhebError(path, f"is of other data than that of model {other.model}", AGAIN)


def graded_table(graded: Graded) -> pd.DataFrame:
    """One row a cell, missing ones included: all metrics with interval, worst case and chance, n, ties, reason."""
    rows: list[dict[str, Any]] = []
    for cell in graded.cells:
        score = cell.score
        row: dict[str, Any] = {
            "graded": cell.entry.key,
            "relation": cell.entry.aspect,
            "task": cell.task.task,
            "model": cell.model.id,
            "canary": cell.model.canary,
            "state": cell.status.state,
            "queries": score.queries if score else pd.NA,
            "left_out": score.left_out if score else pd.NA,
            "tied_fraction": score.tied_fraction if score else float("nan"),
        }
        for metric in GRADED_METRICS:
            number = score.metrics[metric].model_dump() if score else {}
            row |= {f"{metric}_{part}": number.get(part, float("nan")) for part in Mean.__annotations__}
        rows.append(row | {"reason": cell.status.reason, "remedy": cell.status.remedy})
    table = pd.DataFrame(rows)
    return table.astype({"queries": "Int64", "left_out": "Int64"}) if rows else table


def graded_section(graded: Graded, models: Sequence[Model]) -> dict[str, Any]:
    """What the page says of graded retrieval; columns that no graded task of the run belongs to are left out."""
    present = {entry.aspect for entry in graded.entries}
    columns = [column for column in (*GRADED_COLUMNS, CROSS) if any(in_graded_column(column, one) for one in present)]
    places = {model.id: place for place, model in enumerate(models)}
    rows = [
        {
            "title": model.title,
            "canary": model.canary,
            "cells": [
                dict(zip(("mean", "held", "expected"), graded.mean(model.id, column, "ndcg@5"), strict=True))
                for column in columns
            ],
        }
        for model in models
    ]
    order = {entry.key: place for place, entry in enumerate(graded.entries)}
    return {
        "note": graded.run.graded.note if graded.run.graded else "",
        "columns": [{"label": GRADED_LABELS[column]} for column in columns],
        "rows": rows if columns else [],
        "tasks": graded.entries,
        "cells": sorted(graded.cells, key=lambda cell: (order[cell.entry.key], places[cell.model.id])),
        "missing": graded_missing(graded),
    }


def graded_summary(graded: Graded) -> dict[str, Any]:
    """All numbers as data, and what is missing."""
    return {
        "relations": {entry.key: entry.aspect for entry in graded.entries},
        "models": {
            model.id: {
                cell.entry.key: {
                    "queries": cell.score.queries,
                    "tied_fraction": cell.score.tied_fraction,
                    "metrics": {name: metric.model_dump() for name, metric in cell.score.metrics.items()},
                }
                for cell in graded.cells
                if cell.model.id == model.id and cell.score is not None
            }
            for model in graded.run.models.values()
        },
        "missing": [
            {"model": cell.model.id, "graded": cell.entry.key, **cell.status.model_dump()} for cell in graded.missing
        ],
    }


def graded_missing(graded: Graded) -> list[dict[str, Any]]:
    """Missing cells put together by reason: which graded tasks and models, why, what to do."""
    groups: dict[tuple[str, str, str], list[GradedCell]] = {}
    for cell in graded.missing:
        groups.setdefault((cell.status.state, cell.status.reason, cell.status.remedy), []).append(cell)
    return [
        {
            "state": state,
            "reason": reason,
            "remedy": remedy,
            "graded": list(dict.fromkeys(cell.entry.key for cell in cells)),
            "models": list(dict.fromkeys(cell.model.title for cell in cells)),
            "cells": len(cells),
        }
        for (state, reason, remedy), cells in groups.items()
    ]
