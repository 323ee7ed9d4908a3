"""Example retrievals: a few queries of each task with their top five candidates, as pictures and short texts."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from medheb.core.digests import json_digest
from medheb.core.errors import MedhebError
from medheb.index.records import Item, Record, as_json, read_records
from medheb.manifest.task import Task
from medheb.report.collect import Results
from medheb.report.privacy import public_text
from medheb.report.tables import leaderboard, tasks_in_order
from medheb.report.thumbnails import Thumbnails

SHOWN = 5
SHORT_TEXT = 150
LONG_TEXT = 1500
COLUMNS = ["row", "pool", "above", "tied", "positives", "hit@1", "hit@1_chance", "hit@5_chance"]
TOP_COLUMNS = ["top_row", "top_position", "top_score", "top_positive"]
# Base64 characters of all pictures together; the page as a whole is to stay under 15 MB.
PICTURE_BUDGET = 12_000_000


@dataclass(frozen=True)
class Shown:
    """A query or candidate as the page shows it: data URIs, a short text and the whole of it."""

    pictures: tuple[str, ...]
    picture_note: str
    text: str
    full_text: str


@dataclass(frozen=True)
class Candidate:
    """One retrieved candidate: place from 1, cosine, right or wrong; ``item`` is None if it must not be shown."""

    place: int
    score: float
    positive: bool
    item: Shown | None


@dataclass(frozen=True)
class Example:
    """One query with its best candidates. ``rank`` is the best place of a right answer, ``chance`` of Hit@1, Hit@5."""

    outcome: str
    rank: int
    tied: int
    pool: int
    positives: int
    chance: tuple[float, float]
    query: Shown | None
    candidates: tuple[Candidate, ...]
    answer: Shown | None


@dataclass(frozen=True)
class TaskGallery:
    """Examples of one task for one model. ``reason`` says why there are none, or why only ranks are shown.

    ``more`` counts all examples where this holds only some of them, 0 elsewhere.
    """

    task: Task
    model: str | None
    reason: str
    examples: tuple[Example, ...]
    more: int = 0


def gallery(results: Results) -> list[TaskGallery]:
    """Examples of every task, from the best real model that holds it."""
    order = [row.model for row in leaderboard(results).itertuples() if not row.canary]
    return [_task_gallery(results, results.run.tasks[task], order) for task in tasks_in_order(results)]


def within(galleries: list[TaskGallery], budget: int = PICTURE_BUDGET) -> list[TaskGallery]:
    """The same with pictures of at most ``budget`` characters: fewer examples, the same number for all tasks."""
    count = max((len(part.examples) for part in galleries), default=0)
    kept = galleries
    while count > 0 and sum(map(_size, kept)) > budget:
        count -= 1
        kept = [
            replace(part, examples=part.examples[:count], more=len(part.examples) if len(part.examples) > count else 0)
            for part in galleries
        ]
    return kept


def _size(part: TaskGallery) -> int:
    items = [
        item
        for example in part.examples
        for item in (example.query, example.answer, *(candidate.item for candidate in example.candidates))
        if item
    ]
    return sum(len(picture) for item in items for picture in item.pictures)


def _task_gallery(results: Results, task: Task, order: Sequence[str]) -> TaskGallery:
    model = next((model for model in order if results.score(model, task.task)), None)
    if model is None:
        return TaskGallery(task, None, "No real model has a score on this task.", ())
    hidden = [source for source in task.sources if not results.run.datasets[source].show_content]
    reason = ""
    if hidden:
        titles = ", ".join(results.run.datasets[source].title for source in hidden)
        reason = f"The terms of {titles} do not allow pictures, texts or paths to be shown: only ranks."
    try:
        table = read_per_query(results.run.layout.per_query(model, task.task))
        records = [] if hidden else read_records(results.run.layout.task_index(task.index))
        score = results.score(model, task.task)
        if score is None or len(table) != score.queries or not (hidden or _fits(table, records, score.task_digest)):
            raise MedhebError(
                "per-query results", "do not belong to this score or task JSON", "Run the evaluation again"
            )
        folder = results.run.layout.benchmark / (task.image_root or "")
        chosen = _choose(table, results.run.config.report.examples, f"{results.run.config.seed}|{task.task}")
        thumbnails = Thumbnails(folder)
        examples = tuple(_example(row, records, thumbnails, bool(hidden)) for row in chosen)
    except MedhebError as error:
        words = f"{error.fault}. {error.remedy}" if hidden else str(error)
        sources = [results.run.datasets[source] for source in task.sources]
        return TaskGallery(task, model, f"No examples: {public_text(words, results.run.layout, sources)}.", ())
    return TaskGallery(task, model, reason, examples)


def read_per_query(path: Path) -> pd.DataFrame:
    """Ranks and best candidates of every query, in task order.

    Raises:
        MedhebError: missing, damaged, or with empty fields.
    """
    again = "Delete it with the score beside it and run the evaluation again"
    try:
        table = pd.read_parquet(path, columns=[*COLUMNS, *TOP_COLUMNS])
    except FileNotFoundError:
        raise MedhebError(path.name, "is missing", again) from None
    except (OSError, ValueError, KeyError) as error:  # pyarrow's own errors are ValueErrors or KeyErrors
        raise MedhebError(path.name, f"cannot be read ({type(error).__name__})", again) from error
    if table[COLUMNS].isna().any(axis=None):
        raise MedhebError(path.name, "holds empty fields", again)
    return table


def _fits(table: pd.DataFrame, records: Sequence[Record], digest: str) -> bool:
    """True if the task JSON is the one that was scored, and holds every row and top candidate of the parquet."""
    if json_digest(as_json(records)) != digest:
        return False
    for row in table.itertuples(index=False):
        if not 0 <= row.row < len(records) or len(row.top_row) != len(row.top_position):
            return False
        for record, position in zip(row.top_row, row.top_position, strict=True):
            if not 0 <= record < len(records) or not 0 <= position < len(records[record].tgt_text):
                return False
    return True


def _choose(table: pd.DataFrame, count: int, seed: str) -> list[Any]:
    """Rows to show: by turns one answered at once, one answered within five, one missed; drawn by ``seed``."""
    groups: dict[str, list[Any]] = {"first": [], "five": [], "missed": []}
    names = {name: name.replace("@", "_at_") for name in table.columns}
    for row in table.rename(columns=names).itertuples(index=False):
        groups[_outcome(row)].append(row)
    for rows in groups.values():
        rows.sort(key=lambda row: hashlib.sha256(f"{seed}|{row.row}".encode()).hexdigest())
    chosen: list[Any] = []
    while len(chosen) < count and any(groups.values()):
        for rows in groups.values():
            if rows and len(chosen) < count:
                chosen.append(rows.pop(0))
    return chosen


def _outcome(row: Any) -> str:
    if row.above == 0:
        return "first"
    return "five" if row.above < SHOWN else "missed"


def _example(row: Any, records: Sequence[Record], thumbnails: Thumbnails, hidden: bool) -> Example:
    candidates = tuple(
        Candidate(
            place=place,
            score=float(row.top_score[place - 1]),
            positive=bool(row.top_positive[place - 1]),
            item=None
            if hidden
            else shown_item(records[row.top_row[place - 1]].candidates[row.top_position[place - 1]], thumbnails),
        )
        for place in range(1, min(SHOWN, len(row.top_row)) + 1)
    )
    record = None if hidden else records[row.row]
    found = any(candidate.positive for candidate in candidates)
    return Example(
        outcome=_outcome(row),
        rank=int(row.above) + 1,
        tied=int(row.tied),
        pool=int(row.pool),
        positives=int(row.positives),
        chance=(float(row.hit_at_1_chance), float(row.hit_at_5_chance)),
        query=shown_item(record.query, thumbnails) if record else None,
        candidates=candidates,
        answer=shown_item(record.candidates[0], thumbnails) if record and not found else None,
    )


def shown_item(item: Item, thumbnails: Thumbnails) -> Shown:
    """A query or candidate as a page shows it."""
    pictures, note = thumbnails.of(item)
    text = " ".join(item.text.split())
    short = text if len(text) <= SHORT_TEXT else text[: SHORT_TEXT - 1].rstrip() + "\u2026"
    return Shown(pictures, note, short, text[:LONG_TEXT])
