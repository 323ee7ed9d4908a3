"""The published results: what the paper's tables say, kept in ``published/`` beside the task table."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from medheb.core.errors import MedhebError
from medheb.manifest.load import Run
from medheb.manifest.model import Model

FOLDER = "published"
RESULT_COLUMNS = ("table", "model", "metric", "column", "value")
MODEL_COLUMNS = ("model", "title", "group", "aliases")
COLUMN_COLUMNS = ("column", "label", "tasks")


@dataclass(frozen=True)
class Published:
    """Published numbers in per cent, CV as a ratio. Empty where a manifest set has none.

    ``values`` are keyed by (table, model, metric, column), ``titles`` and ``baselines`` by published model,
    ``tasks`` say over how many tasks a column of the paper is a mean.
    """

    values: dict[tuple[str, str, str, str], float] = field(default_factory=dict)
    titles: dict[str, str] = field(default_factory=dict)
    baselines: tuple[str, ...] = ()
    names: dict[str, str] = field(default_factory=dict)
    tasks: dict[str, int] = field(default_factory=dict)

    def value(self, table: str, model: str | None, metric: str, column: str) -> float:
        """A published number; NaN where the paper has none."""
        return math.nan if model is None else self.values.get((table, model, metric, column), math.nan)

    def model_of(self, model: Model) -> str | None:
        """The published model that a model of the run is, by its id or title; None if it is another."""
        return self.names.get(_plain(model.id)) or self.names.get(_plain(model.title))


def published_of(run: Run) -> Published:
    """Published results of the run's manifest set; see :func:`load_published`."""
    return load_published(Path(run.config.manifests) / FOLDER)


def load_published(folder: Path) -> Published:
    """Published results in a folder; none if it does not exist.

    Raises:
        MedhebError: a table with wrong columns, a number that is none, or a name that stands nowhere else.
    """
    if not folder.is_dir():
        return Published()
    models = _rows(folder / "models.csv", MODEL_COLUMNS)
    columns = _rows(folder / "columns.csv", COLUMN_COLUMNS)
    titles = {row["model"]: row["title"] for row in models}
    names: dict[str, str] = {}
    for row in models:
        for name in (row["model"], row["title"], *row["aliases"].split()):
            names[_plain(name)] = row["model"]
    path = folder / "results.csv"
    values: dict[tuple[str, str, str, str], float] = {}
    for number, row in enumerate(_rows(path, RESULT_COLUMNS), start=2):
        if row["model"] not in titles:
            raise MedhebError(f"{path} row {number}", f"names model {row['model']!r}", "Add it to models.csv")
        key = (row["table"], row["model"], row["metric"], row["column"])
        if key in values:
            raise MedhebError(f"{path} row {number}", "repeats an earlier row", "Keep one of the two")
        values[key] = _number(row["value"], f"{path} row {number}")
    return Published(
        values=values,
        titles=titles,
        baselines=tuple(row["model"] for row in models if row["group"] == "baseline"),
        names=names,
        tasks={row["column"]: int(_number(row["tasks"], folder / "columns.csv")) for row in columns},
    )


def _rows(path: Path, columns: Iterable[str]) -> list[dict[str, str]]:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise MedhebError(path, "does not exist", f"Restore it, or remove the folder {FOLDER}") from None
    reader = csv.DictReader(text.splitlines())
    if tuple(reader.fieldnames or ()) != tuple(columns):
        raise MedhebError(path, f"has columns {reader.fieldnames}", f"Allowed: {', '.join(columns)}")
    rows = list(reader)
    for number, row in enumerate(rows, start=2):
        if None in row or None in row.values():
            raise MedhebError(f"{path} row {number}", "has more or fewer fields than the head", "Correct the row")
    return rows


def _number(text: str, where: Path | str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise MedhebError(where, f"holds {text!r} where a number belongs", "Write a decimal number")
    return number


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
