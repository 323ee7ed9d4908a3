"""The side-by-side list for human preference (paper 5.6): blinded top-3 lists of two models, drawn over all tasks.

The page holds no model name and no mark of what is right; which list is whose stands in a key file beside the run,
which the scorer reads. Draws and sides depend on the seed and on the task alone.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from medheb.core.digests import json_digest
from medheb.core.errors import MedhebError
from medheb.core.files import write_json, write_text
from medheb.index.records import as_json, read_records
from medheb.manifest.base import Strict
from medheb.manifest.load import Run
from medheb.manifest.task import FAMILY_TITLES, Task
from medheb.report.collect import Results, collect
from medheb.report.gallery import Shown, read_per_query, shown_item
from medheb.report.tables import tasks_in_order
from medheb.report.thumbnails import Thumbnails

SHOWN = 3
SCHEMA_VERSION = 1
HERE = Path(__file__).parent


class Question(Strict):
    """One comparison in the key: which model stands left, and whether each had a right answer first."""

    id: str
    task: str
    row: int
    left: str
    right: str
    first_right: bool
    second_right: bool


class Key(Strict):
    """The key of a preference page; never shown to the person who compares."""

    schema_version: int = SCHEMA_VERSION
    first: str
    second: str
    seed: int
    protocol: str
    questions: tuple[Question, ...]

    @property
    def digest(self) -> str:
        """Ties a file of choices to its key."""
        return json_digest(self.model_dump())


@dataclass(frozen=True)
class Asked:
    """One comparison as the page shows it."""

    id: str
    family: str
    instruction: str
    query: Shown
    left: tuple[Shown, ...]
    right: tuple[Shown, ...]


def write_preference(run: Run, first: str, second: str, queries: int, local_only: bool = False) -> Path:
    """Write the page and its key into ``preference/<first>_<second>`` of the report folder; the page's path.

    Sources whose terms forbid showing their content are left out, unless ``local_only``: then the page says that
    it must not leave this machine, and has another folder and another name, so that it never takes the place of one
    that may be published.

    Raises:
        MedhebError: an unknown model, the same twice, or no task that both hold and that may be shown.
    """
    for name in (first, second):
        if name not in run.models:
            raise MedhebError(name, "is no model of this run", f"Models: {', '.join(run.models)}")
    if first == second:
        raise MedhebError(first, "is given twice", "Name two models")
    results = collect(run)
    tasks = [key for key in tasks_in_order(results) if results.score(first, key) and results.score(second, key)]
    shown = [key for key in tasks if local_only or results.content_shown(key)]
    if not shown:
        raise MedhebError(
            f"{first} and {second}",
            "share no task whose content may be shown",
            "Evaluate both on one task of a source that may be shown, or use --local-only and keep the page here",
        )
    questions: list[Question] = []
    asked: list[Asked] = []
    for key, count in zip(shown, spread(queries, [_rows(results, first, key) for key in shown]), strict=True):
        made, seen = _of_task(results, run.tasks[key], first, second, count)
        questions += made
        asked += seen
    order = sorted(range(len(asked)), key=lambda place: _draw(run, "order", asked[place].id))
    key_file = Key(
        first=first, second=second, seed=run.config.seed, protocol=run.protocol.name,
        questions=tuple(questions[place] for place in order),
    )  # fmt: skip
    restricted = sorted({s for task in shown for s in run.tasks[task].sources if not run.datasets[s].show_content})
    page = _render([asked[place] for place in order], key_file.digest, [run.datasets[key].title for key in restricted])
    top = run.layout.local_only if local_only else run.layout.report
    path = top / "preference" / f"{first}_{second}" / ("local_only.html" if local_only else "index.html")
    write_json(path.with_name("key.json"), key_file.model_dump())
    write_text(path, page)
    return path


def key_files(run: Run) -> list[Path]:
    """The keys of all pages of this run."""
    return [
        path
        for top in (run.layout.report, run.layout.local_only)
        for path in sorted((top / "preference").glob("*/key.json"))
    ]


def spread(total: int, sizes: Sequence[int]) -> list[int]:
    """``total`` spread evenly over tasks of these sizes, none asked for more than it has; the first get the rest."""
    counts = [0] * len(sizes)
    left = min(total, sum(sizes))
    while left:
        open_ = [place for place, size in enumerate(sizes) if counts[place] < size]
        each = max(1, left // len(open_))
        for place in open_:
            step = min(each, sizes[place] - counts[place], left)
            counts[place] += step
            left -= step
    return counts


def _rows(results: Results, model: str, task: str) -> int:
    score = results.score(model, task)
    return score.queries if score else 0


def _draw(run: Run, *parts: object) -> str:
    return hashlib.sha256("|".join(map(str, (run.config.seed, *parts))).encode()).hexdigest()


def _of_task(results: Results, task: Task, first: str, second: str, count: int) -> tuple[list[Question], list[Asked]]:
    run = results.run
    tables = [read_per_query(run.layout.per_query(model, task.task)) for model in (first, second)]
    records = read_records(run.layout.task_index(task.index))
    digest = json_digest(as_json(records))
    for model, table in zip((first, second), tables, strict=True):
        score = results.score(model, task.task)
        if score is None or len(table) != len(records) or score.task_digest != digest:
            raise MedhebError(
                f"{model} on {task.task}", "was scored on another task file", "Run the evaluation again, then this"
            )
    thumbnails = Thumbnails(run.layout.benchmark / (task.image_root or ""))
    rows = sorted(range(len(records)), key=lambda row: _draw(run, task.task, row))[:count]
    questions: list[Question] = []
    asked: list[Asked] = []
    for row in rows:
        lists = []
        for table in tables:
            entry = table.iloc[row]
            places = list(zip(entry["top_row"], entry["top_position"], strict=True))[:SHOWN]
            lists.append(tuple(shown_item(records[r].candidates[p], thumbnails) for r, p in places))
        swapped = int(_draw(run, "side", task.task, row), 16) % 2 == 1
        sides = (second, first) if swapped else (first, second)
        name = _draw(run, "id", task.task, row)[:12]
        right = [bool(table["top_positive"].iloc[row][0]) for table in tables]
        questions.append(
            Question(
                id=name,
                task=task.task,
                row=row,
                left=sides[0],
                right=sides[1],
                first_right=right[0],
                second_right=right[1],
            )
        )
        left, other = (lists[1], lists[0]) if swapped else (lists[0], lists[1])
        query = shown_item(records[row].query, thumbnails)
        asked.append(Asked(name, FAMILY_TITLES[task.family], records[row].qry_inst, query, left, other))
    return questions, asked


def _render(asked: list[Asked], digest: str, restricted: list[str]) -> str:
    environment: Any = Environment(
        loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    script = (HERE / "preference.js").read_text(encoding="utf-8")
    return str(
        environment.get_template("preference.html.j2").render(
            asked=asked,
            digest=digest,
            restricted=restricted,
            # The package's own files.
            style=Markup((HERE / "style.css").read_text(encoding="utf-8")),  # noqa: S704
            script=Markup(script),  # noqa: S704
            script_digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        )
    )
