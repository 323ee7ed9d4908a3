"""The quality of the tasks as a table and as JSON.

What the index step measured, pictures that sources share, and training rows that show something of a test.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass

import pandas as pd

from medheb.core.errors import MedhebError
from medheb.index.across import Shared, shared_pictures
from medheb.index.quality import Quality, Spread, read_quality
from medheb.index.train import Trained
from medheb.manifest.base import read_json, validate
from medheb.report.collect import Results
from medheb.report.tables import tasks_in_order

NAMED = 5
SCHEMA_VERSION = 1


@dataclass(frozen=True)
class TaskQuality:
    """Quality of one task, None if its index step left none or an empty task."""

    task: str
    quality: Quality | None


@dataclass(frozen=True)
class Overlap:
    """Training rows of one task that show something of a test.

    Args:
        trained: what came of the training rows of the task.
        names: of the rows, kept ones first, at most ``NAMED``; none where the terms of a source forbid to show them.
    """

    trained: Trained
    names: tuple[str, ...]


@dataclass(frozen=True)
class IndexQuality:
    """What the page says of all tasks."""

    tasks: tuple[TaskQuality, ...]
    shared: tuple[Shared, ...]
    overlaps: tuple[Overlap, ...] = ()

    @property
    def measured(self) -> list[Quality]:
        """Of the tasks that have rows."""
        return [entry.quality for entry in self.tasks if entry.quality]


def index_quality(results: Results) -> IndexQuality:
    """Quality of every task of the run, in the report's order, and the pictures that sources share."""
    return IndexQuality(task_qualities(results), tuple(shared_pictures(results.run)), _overlaps(results))


def _trained(results: Results) -> dict[str, Trained]:
    """What came of the training rows of each task, if they were made (``snakemake train_data``)."""
    layout = results.run.layout
    try:
        listed = read_json(layout.train_summary, "Run `snakemake train_data`")
        trained = [validate(Trained, row, layout.train_summary) for row in listed]
    except (MedhebError, OSError, TypeError):
        return {}
    return {entry.task: entry for entry in trained if entry.task in results.run.tasks}


def _overlaps(results: Results) -> tuple[Overlap, ...]:
    return tuple(Overlap(entry, _names(results, entry)) for entry in _trained(results).values() if entry.overlaps)


def _names(results: Results, entry: Trained) -> tuple[str, ...]:
    if entry.listed is None or not results.content_shown(entry.task):
        return ()
    try:
        content = read_json(results.run.layout.train_data / entry.listed, "Run `snakemake train_data`")
        named = sorted(content["rows"], key=lambda row: not row["kept"])[:NAMED]
        return tuple(str(row["row"]) for row in named)
    except (MedhebError, OSError, KeyError, TypeError):
        return ()


def task_qualities(results: Results) -> tuple[TaskQuality, ...]:
    """Quality of every task of the run, in the report's order."""
    return tuple(TaskQuality(key, _read(results, key)) for key in tasks_in_order(results))


def _read(results: Results, key: str) -> Quality | None:
    try:
        quality = read_quality(results.run.layout.task_quality(results.run.tasks[key].index))
    except (MedhebError, OSError):
        return None
    return quality if quality.rows else None


def quality_table(results: Results) -> pd.DataFrame:
    """One row a task with every figure, nested ones joined by a dot; missing ones are empty."""
    trained = _trained(results)
    rows = [
        (_flat(entry.quality.model_dump(mode="json")) if entry.quality else {"task": entry.task})
        | _flat(_training(trained.get(entry.task)), "training.")
        for entry in task_qualities(results)
    ]
    return pd.DataFrame(rows).drop(columns="schema_version", errors="ignore").convert_dtypes()


def _training(trained: Trained | None) -> dict[str, object]:
    """Figures of a task's training rows for the table: kept rows by what they show, whatever their source."""
    if trained is None or not trained.status.ok:
        return {}
    kept: Counter[str] = Counter()
    for entry in trained.kept:
        kept[entry.kind] += entry.rows
    return {
        "rows": trained.rows,
        "overlaps": dict(trained.overlaps),
        "kept": dict(kept),
        "removed": dict(trained.removed),
    }


def _shown(trained: Trained) -> dict[str, object]:
    """Counts and names of sources; why there are no rows stays beside them, as it may quote a source."""
    return {"state": trained.status.state, **trained.model_dump(mode="json", exclude={"status", "task"})}


def quality_json(results: Results) -> dict[str, object]:
    """Everything as JSON: each task with its training rows (null if none were made), and what sources share."""
    trained = _trained(results)
    return {
        "schema_version": SCHEMA_VERSION,
        "tasks": [
            {
                "task": entry.task,
                "quality": entry.quality.model_dump(mode="json") if entry.quality else None,
                "training": _shown(trained[entry.task]) if entry.task in trained else None,
            }
            for entry in task_qualities(results)
        ],
        "shared": [asdict(pair) for pair in shared_pictures(results.run)],
    }


def _flat(fields: dict[str, object], start: str = "") -> dict[str, object]:
    flat: dict[str, object] = {}
    for name, value in fields.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{start}{name}.")
        elif value is not None:
            flat[f"{start}{name}"] = value
    return flat


def shown_spread(spread: Spread | None) -> str:
    """``30``, or ``5 to 30``; a dash if there is none."""
    if spread is None:
        return "\u2013"
    return f"{spread.minimum}" if spread.minimum == spread.maximum else f"{spread.minimum} to {spread.maximum}"
