"""Two runs side by side: which numbers changed, what else differs that may explain it, and is it more than noise."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from scipy.stats import binomtest, false_discovery_control

from medheb.core.errors import MedhebError
from medheb.core.files import write_text
from medheb.evaluate.score import Score, read_score
from medheb.report import words
from medheb.report.per_query import Values, read_values
from medheb.report.statistics import Estimate, family_weights, over_queries, paired_moments

METRIC = "hit@1"
ALPHA = 0.05
SHOWN = 30
# What may differ between two scores of one cell and explain a change.
EXPLAINS = {
    "protocol": "protocol",
    "task_digest": "task file",
    "data_root": "pictures",
    "fingerprint": "model, weights or settings",
    "queries": "number of queries",
}
HERE = Path(__file__).parent


@dataclass(frozen=True)
class CellChange:
    """One model on one task in both runs; ``p`` of no change (corrected for all cells), NaN if it cannot be tested."""

    model: str
    task: str
    family: str
    first: float
    second: float
    p: float
    paired: bool
    differs: tuple[str, ...]

    @property
    def change(self) -> float:
        """Later less earlier."""
        return self.second - self.first


@dataclass(frozen=True)
class ModelChange:
    """One model over the tasks that both runs hold: mean of family means, change with 95 % interval, p."""

    model: str
    tasks: int
    first: float
    second: float
    low: float
    high: float
    p: float
    sure_cells: int


@dataclass(frozen=True)
class Comparison:
    """All that two runs share, what only one has, and what could not be tested."""

    first: str
    second: str
    models: list[ModelChange]
    cells: list[CellChange]
    only_first: list[str]
    only_second: list[str]
    notes: list[str]

    @property
    def changed(self) -> list[CellChange]:
        """Cells whose number changed, the surest first."""
        held = [cell for cell in self.cells if cell.change != 0 or cell.differs]
        return sorted(held, key=lambda cell: (math.isnan(cell.p), cell.p, -abs(cell.change), cell.model, cell.task))


def compare_runs(first: Path, second: Path) -> Comparison:
    """Compare the results folders of two runs.

    Two results of the same task file are compared query by query (exact sign test); of different task files as two
    samples (Welch). p-values of cells are corrected for their number (Benjamini and Hochberg).

    Raises:
        MedhebError: a folder without scores, or nothing that both hold.
    """
    ours, notes = _scores(first)
    theirs, more = _scores(second)
    both = sorted(ours.keys() & theirs.keys())
    if not both:
        raise MedhebError(
            second, f"holds no score that {first} also holds", "Compare runs that share a model and a task"
        )
    notes += more
    cells: list[CellChange] = []
    moments: dict[tuple[str, str], tuple[float, float]] = {}
    for key in both:
        a, b = ours[key], theirs[key]
        values = (_values(first, a, notes), _values(second, b, notes))
        p, moment, paired = _test(a, b, *values)
        if moment is not None:
            moments[key] = moment
        differs = tuple(title for field, title in EXPLAINS.items() if getattr(a, field) != getattr(b, field))
        numbers = (a.metrics[METRIC].value, b.metrics[METRIC].value)
        cells.append(CellChange(*key, a.family, *numbers, p, paired, differs))
    cells = _corrected(cells)
    return Comparison(
        first=str(first),
        second=str(second),
        models=[_model(model, cells, moments) for model in dict.fromkeys(model for model, _ in both)],
        cells=cells,
        only_first=_named(ours.keys() - theirs.keys()),
        only_second=_named(theirs.keys() - ours.keys()),
        notes=notes,
    )


def _scores(folder: Path) -> tuple[dict[tuple[str, str], Score], list[str]]:
    paths = sorted((folder / "scores").glob("*/*.json"))
    found: dict[tuple[str, str], Score] = {}
    notes: list[str] = []
    for path in paths:
        try:
            score = read_score(path)
        except (MedhebError, OSError) as error:
            notes.append(f"Not compared: {error}")
            continue
        metric = score.metrics.get(METRIC)
        if score.status.ok and (metric is None or not 0 <= metric.value <= 1 + 1e-9):
            notes.append(f"Not compared: {path}: holds no {METRIC} from 0 to 1. Run the evaluation again")
        elif score.status.ok:
            found[score.model, score.task] = score
    if not paths:
        raise MedhebError(folder, "holds no scores", "Name the results folder of a run, the one that holds scores/")
    return found, notes


def _values(folder: Path, score: Score, notes: list[str]) -> Values | None:
    try:
        return read_values(folder / "scores" / score.model / f"{score.task}.parquet", score, METRIC)
    except MedhebError as error:
        notes.append(f"Not tested: {folder}, {score.model} on {score.task}: {error.fault}. {error.remedy}")
        return None


def _test(a: Score, b: Score, first: Values | None, second: Values | None) -> tuple[float, Any, bool]:
    """The p of no change, moments of the later less the earlier, and whether queries were paired."""
    if first is None or second is None:
        return math.nan, None, False
    if a.task_digest == b.task_digest and len(first) == len(second):
        changes = second - first
        up, down = int((changes > 0).sum()), int((changes < 0).sum())
        p = float(binomtest(up, up + down).pvalue) if up + down else 1.0
        differences, variances = paired_moments(np.stack([second, first]))
        return p, (float(differences[0, 1]), float(variances[0, 1])), True
    if len(first) < 2 or len(second) < 2:
        return math.nan, None, False
    difference = float(second.mean() - first.mean())
    parts = [(float(values.var(ddof=1)) / len(values), len(values) - 1) for values in (first, second)]
    variance = sum(part for part, _ in parts)
    if variance == 0:
        return (1.0 if difference == 0 else math.nan), (difference, 0.0), False
    freedom = variance**2 / sum(part**2 / free for part, free in parts)
    return Estimate(difference, math.sqrt(variance), freedom).p, (difference, variance), False


def _corrected(cells: list[CellChange]) -> list[CellChange]:
    tested = [place for place, cell in enumerate(cells) if not math.isnan(cell.p)]
    if tested:
        corrected = false_discovery_control([cells[place].p for place in tested])
        for place, p in zip(tested, corrected, strict=True):
            cells[place] = replace(cells[place], p=float(p))
    return cells


def _model(model: str, cells: list[CellChange], moments: dict[tuple[str, str], tuple[float, float]]) -> ModelChange:
    own = [cell for cell in cells if cell.model == model]
    weights = family_weights([cell.family for cell in own])
    tested = [cell for cell in own if (model, cell.task) in moments]
    estimate = Estimate(math.nan, math.nan)
    if len(tested) == len(own):
        known = np.array([moments[model, cell.task] for cell in own])
        estimate = over_queries(known[:, 0], known[:, 1], weights)
    low, high = estimate.interval(1 - ALPHA)
    first, second = (float(weights @ np.array([getattr(cell, name) for cell in own])) for name in ("first", "second"))
    return ModelChange(model, len(own), first, second, low, high, estimate.p, sum(cell.p < ALPHA for cell in own))


def _named(keys: Iterable[tuple[str, str]]) -> list[str]:
    return [f"{model} on {task}" for model, task in sorted(keys)]


def as_data(found: Comparison) -> dict[str, Any]:
    """The comparison as JSON data; numbers that are not known are null."""
    data: dict[str, Any] = json.loads(json.dumps(asdict(found)), parse_constant=lambda _: None)
    return data


def verdict(p: float) -> str:
    """What a p-value says of a change."""
    if math.isnan(p):
        return "not tested"
    return "more than noise" if p < ALPHA else "may be noise"


def compare_command(first: Path, second: Path, console: Console, page: Path | None, as_json: bool) -> None:
    """Print the comparison as tables or JSON, and write it as a page if one is asked for."""
    found = compare_runs(first, second)
    if page is not None:
        write_text(page, render_comparison(found))
    if as_json:
        console.print_json(data=as_data(found))
        return
    console.print(f"A: {found.first}\nB: {found.second}", markup=False, highlight=False)
    overall = _table("Model", "Tasks", "A", "B", "B - A", "95 % interval", "p", "Cells changed", "")
    for row in found.models:
        span = words.NONE if math.isnan(row.low) else f"{words.signed(row.low)} to {words.signed(row.high)}"
        overall.add_row(
            escape(row.model), str(row.tasks), words.percent(row.first), words.percent(row.second),
            words.signed(row.second - row.first), span, words.p_value(row.p), str(row.sure_cells), verdict(row.p),
        )  # fmt: skip
    console.print("Hit@1 in %, mean of family means over the tasks of both", highlight=False)
    console.print(overall)
    if found.changed:
        cells = _table("Model", "Task", "A", "B", "B - A", "p", "", "Differs in")
        for cell in found.changed[:SHOWN]:
            cells.add_row(
                escape(cell.model), escape(cell.task), words.percent(cell.first), words.percent(cell.second),
                words.signed(cell.change), words.p_value(cell.p), verdict(cell.p), ", ".join(cell.differs),
            )  # fmt: skip
        more = len(found.changed) - SHOWN
        console.print("Cells that changed, p corrected for all cells", highlight=False)
        console.print(cells)
        if more > 0:
            console.print(f"and {more} more; see --page or --json", highlight=False)
    else:
        console.print("No cell changed.", highlight=False)
    for title, names in (("Only in A", found.only_first), ("Only in B", found.only_second), ("", found.notes)):
        for name in names[:SHOWN]:
            console.print(f"{title}: {name}" if title else name, markup=False, highlight=False)
        if len(names) > SHOWN:
            console.print(f"... and {len(names) - SHOWN} more", highlight=False)


def _table(*headings: str) -> Table:
    table = Table(box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    for heading in headings:
        text = heading in {"Model", "Task", "", "Differs in"}
        table.add_column(heading, justify="left" if text else "right", overflow="fold")
    return table


def render_comparison(found: Comparison) -> str:
    """The comparison as one self-contained page; everything that comes from data is escaped."""
    environment = Environment(
        loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.globals.update(
        percent=words.percent, signed=words.signed, p_value=words.p_value, verdict=verdict, plural=words.plural
    )
    style = Markup((HERE / "style.css").read_text(encoding="utf-8"))  # noqa: S704 - the package's own file
    return environment.get_template("compare.html.j2").render(found=found, style=style, alpha=ALPHA) + "\n"
