"""Load everything that a run left behind. A cell that cannot be had is kept, with its reason and remedy."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from medheb.build.inventory import read_inventory
from medheb.core.errors import MedhebError
from medheb.core.status import OK, Status, first_trouble, read_status
from medheb.evaluate.score import METRICS, Metric, Score, read_score
from medheb.fetch.terms import acceptance_text
from medheb.manifest.dataset import Dataset
from medheb.manifest.load import Run
from medheb.manifest.model import Model
from medheb.manifest.task import Task
from medheb.report.privacy import public_text

# Without the file's name, so that cells of a run that was stopped early are told together.
NOT_EVALUATED = {"reason": "there is no score file: it was not evaluated", "remedy": "Run the workflow again"}


@dataclass(frozen=True)
class Cell:
    """One model on one task: a checked score, or the status that says why there is none."""

    model: Model
    task: Task
    score: Score | None
    status: Status


@dataclass(frozen=True)
class MissingCell:
    """A cell without a score, in words that may be shown."""

    model: str
    task: str
    state: str
    origin: str
    reason: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.model} on {self.task}: {self.state}, {self.reason}. {self.remedy}"


@dataclass(frozen=True)
class SourceFacts:
    """One source: its manifest, how fetching went, what building noted, who accepted its terms. May be shown."""

    dataset: Dataset
    status: Status
    files: int | None
    notes: tuple[str, ...]
    accepted: str


@dataclass(frozen=True)
class Results:
    """All cells of a run (models x tasks, in manifest order) and its sources."""

    run: Run
    cells: dict[tuple[str, str], Cell]
    sources: dict[str, SourceFacts]

    def score(self, model: str, task: str) -> Score | None:
        """The score of a cell, None if it is missing."""
        return self.cells[model, task].score

    def scores(self, model: str) -> list[Score]:
        """All scores of a model, in task order."""
        return [score for task in self.run.tasks if (score := self.score(model, task)) is not None]

    @property
    def missing(self) -> list[MissingCell]:
        """Cells without a score, tasks first."""
        cells = (self.cells[model, task] for task in self.run.tasks for model in self.run.models)
        return [
            MissingCell(
                cell.model.id,
                cell.task.task,
                cell.status.state,
                cell.status.origin,
                cell.status.reason,
                cell.status.remedy,
            )
            for cell in cells
            if cell.score is None
        ]

    def content_shown(self, task: str) -> bool:
        """True if every source of the task allows its pictures, texts and paths to be shown."""
        return all(self.run.datasets[source].show_content for source in self.run.tasks[task].sources)


def collect(run: Run) -> Results:
    """Load all scores, statuses and inventories of ``run``.

    Raises:
        MedhebError: scores of different protocols, data or weights that must not stand in one table.
    """
    cells = {
        (model.id, task.task): _cell(run, model, task) for model in run.models.values() for task in run.tasks.values()
    }
    _refuse_mixtures(run, [cell.score for cell in cells.values() if cell.score is not None])
    return Results(run, cells, {key: _source(run, dataset) for key, dataset in run.datasets.items()})


def _cell(run: Run, model: Model, task: Task) -> Cell:
    path = run.layout.score(model.id, task.task)
    try:
        score = read_score(path)
        _check_score(path, score, model, task)
    except MedhebError as error:
        status = earlier_trouble(run, model, task)
        if status.ok and not path.exists():
            status = Status(state="failed", origin=f"evaluate {model.id} {task.task}", **NOT_EVALUATED)
        elif status.ok:
            status = failed(f"evaluate {model.id} {task.task}", error)
        return Cell(model, task, None, public_status(run, task.sources, status))
    except OSError as error:
        unreadable = MedhebError(path, f"cannot be read ({error.strerror})", "Check the file and its rights, then run")
        return Cell(
            model, task, None, public_status(run, task.sources, failed(f"evaluate {model.id} {task.task}", unreadable))
        )
    if not score.status.ok:
        return Cell(model, task, None, public_status(run, task.sources, score.status))
    warnings = tuple(public(run, task.sources, text) for text in score.warnings)
    return Cell(model, task, score.model_copy(update={"warnings": warnings}), OK)


def _check_score(path: Path, score: Score, model: Model, task: Task) -> None:
    """Refuse a score that is not this cell's, or whose numbers are not shares between 0 and 1."""
    again = "Delete it and run the evaluation again"
    for key, stands, wanted in (
        ("model", score.model, model.id),
        ("task", score.task, task.task),
        ("family", score.family, task.family),
        ("form", score.form, task.form),
        ("split", score.split, task.split),
        ("pool", score.pool, task.pool),
    ):
        if stands != wanted:
            raise MedhebError(path, f"is for {key} {stands!r}, but the manifests say {wanted!r}", again)
    if not score.status.ok:
        return
    check_metrics(path, score.metrics, METRICS, score.queries)
    check_share(path, "tied_fraction", score.tied_fraction)
    for name in ("seconds", "mean_cosine", "effective_rank"):
        number = getattr(score, name)
        if number is not None and not math.isfinite(number):
            raise MedhebError(path, f"holds {name} {number}", again)


def check_metrics(path: Path, metrics: Mapping[str, Metric], wanted: Sequence[str], queries: int) -> None:
    """Refuse numbers that are no means over queries.

    Raises:
        MedhebError: no query, a metric that is missing, or one whose numbers are not shares from 0 to 1.
    """
    again = "Delete it and run the evaluation again"
    if queries < 1:
        raise MedhebError(path, f"holds {queries} queries", again)
    for name in wanted:
        if name not in metrics:
            raise MedhebError(path, f"lacks metric {name}", again)
        for key, number in metrics[name].model_dump().items():
            check_share(path, f"{name} {key}", number)
        if metrics[name].low > metrics[name].high:
            raise MedhebError(path, f"has an interval of {name} that ends before it begins", again)


def check_share(path: Path, name: str, number: float) -> None:
    """Refuse a number that is no share.

    Raises:
        MedhebError: not a number, or not from 0 to 1.
    """
    # A little slack: a mean of ones may come out as 1.0000000000000002.
    if not math.isfinite(number) or not -1e-9 <= number <= 1 + 1e-9:
        raise MedhebError(
            path, f"holds {name} {number}, not a number from 0 to 1", "Delete it and run the evaluation again"
        )


def earlier_trouble(run: Run, model: Model, task: Task) -> Status:
    """Why a score may be missing: the first earlier step that left a status which is not ok."""
    paths = [*(run.layout.source_status(source) for source in task.sources)]
    paths += [run.layout.task_status(task.index), run.layout.model_status(model.id)]
    return first_trouble([_status_or_ok(path) for path in paths])


def _status_or_ok(path: Path) -> Status:
    try:
        return read_status(path)
    except (MedhebError, OSError):
        return OK  # nothing is known from this step; the missing score itself is then the reason


def _source(run: Run, dataset: Dataset) -> SourceFacts:
    path = run.layout.source_status(dataset.id)
    try:
        status = read_status(path)
    except (MedhebError, OSError):
        status = Status(
            state="failed",
            origin=f"fetch {dataset.id}",
            reason="no readable status of the fetch step",
            remedy=f"Run the workflow again: snakemake dataset_{dataset.id}",
        )
    files: int | None = None
    notes: tuple[str, ...] = ()
    if status.ok:
        try:
            inventory = read_inventory(run.layout.inventory(dataset.images, dataset.id))
            status, files, notes = inventory.status, len(inventory.files), inventory.notes
        except MedhebError as error:
            notes = (f"Its inventory is not shown: {error}",)
        except OSError as error:
            notes = (f"Its inventory cannot be read: {error.strerror}",)
    shown = tuple(public(run, (dataset.id,), note) for note in notes)
    return SourceFacts(dataset, public_status(run, (dataset.id,), status), files, shown, acceptance_text(run, dataset))


def failed(origin: str, error: MedhebError) -> Status:
    """The status of a result that cannot be used."""
    return Status(
        state="failed",
        origin=origin,
        reason=f"{error.where}: {error.fault}",
        remedy=error.remedy,
    )


def public(run: Run, sources: Iterable[str], text: str) -> str:
    """A text of a run as it may be shown; see :func:`public_text`."""
    return public_text(text, run.layout, [run.datasets[source] for source in sources])


def public_status(run: Run, sources: Iterable[str], status: Status) -> Status:
    """A status in words that may be shown."""
    known = tuple(sources)
    return status.model_copy(
        update={"reason": public(run, known, status.reason), "remedy": public(run, known, status.remedy)}
    )


def _refuse_mixtures(run: Run, scores: list[Score]) -> None:
    """Numbers in one table must come from one protocol, one state of each task's data, one set of weights a model."""
    chosen = run.protocol.name
    for score in scores:
        if score.protocol != chosen:
            raise MedhebError(
                run.layout.score(score.model, score.task),
                f"was computed under protocol '{score.protocol}', but this report is for '{chosen}'",
                f"Run the evaluation again, or set 'protocol: {score.protocol}'; each needs its own results folder",
            )
    for what, field, unit in (
        ("task JSON", "task_digest", "task"),
        ("data root", "data_root", "task"),
        ("fingerprint", "fingerprint", "model"),
    ):
        first: dict[str, Score] = {}
        for score in scores:
            other = first.setdefault(getattr(score, unit), score)
            if getattr(score, field) != getattr(other, field):
                raise MedhebError(
                    run.layout.score(score.model, score.task),
                    f"has {what} {getattr(score, field)[:12] or '(none)'}, but {other.model} on {other.task} has "
                    f"{getattr(other, field)[:12] or '(none)'}; one table cannot mix them",
                    f"Delete the scores of {unit} {getattr(score, unit)} and run the evaluation again",
                )
