"""Training rows (``Train_Data``) by the rules of the tasks: pairs of the training part, nothing of any test.

One file a task of the in-distribution part, in the published chat style (spec: reference task JSON section 4). No row
shows a picture, a volume, a text pair or a group (patient, case) of a test. Where a source's own split does that, the
protocol ``corrected`` leaves the rows out, ``release`` keeps them; both list them beside the rows.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from pathlib import Path, PurePosixPath
from typing import Any

from pydantic import Field

from medheb.core.errors import MedhebError
from medheb.core.files import atomic_open, write_json
from medheb.core.status import OK, Status, first_trouble, status_of
from medheb.index.builders.common import Pair, Shown
from medheb.index.builders.registry import context_of, training_pairs
from medheb.index.built import inventories_of
from medheb.index.draw import Draw
from medheb.index.entries import JOINED, Entry, Source, Sources
from medheb.index.records import stream_records
from medheb.index.refusal import RuleError
from medheb.index.run import may_show, sources_of
from medheb.index.text_rules import comparable
from medheb.manifest.base import Strict
from medheb.manifest.load import Run
from medheb.manifest.task import Task

log = logging.getLogger("medheb.index")
UNSEEN_TESTS = "tests_not_seen.json"
ORIGIN = "index train"
UNTOLD = "its sources cannot be used; what earlier steps left beside them says why"


def _no_rows(run: Run, task: Task) -> Status:
    """Why there are none: the source has no training part of its own, or the run does not ask for it."""
    parts = {name: run.datasets[name].training for name in task.sources if not run.config.trains(name)}
    large = {name: part.note for name, part in parts.items() if part is not None}
    reason = "no training rows: the sources were built without a training part"
    remedy = "Build them from a folder or copy that holds it; docs/index.md says which sources have one"
    if large:
        reason = f"{reason}, which is large and not fetched by default. {' '.join(large.values())}".rstrip(". ")
        remedy = f"Set 'training: [{', '.join(large)}]' in the configuration and run the workflow"
    return Status(state="blocked" if large else "failed", origin=ORIGIN, reason=reason, remedy=remedy)


class Trained(Strict):
    """What came of the training rows of one task."""

    task: str
    file: str = Field(description="below Train_Data")
    status: Status
    rows: int = 0
    overlaps: dict[str, int] = Field(
        default_factory=dict, description="rows that show something of a test, by what they show"
    )
    kept: bool = Field(default=False, description="such rows are kept, as the source's own split has them")
    listed: str | None = Field(default=None, description="file beside the rows that names them; null if there are none")


@dataclass
class Tested:
    """What the tests of a run show: digests of pictures and volumes, groups, and pairs of texts."""

    contents: set[bytes] = field(default_factory=set)
    groups: set[tuple[str, str]] = field(default_factory=set)
    texts: set[tuple[str, str]] = field(default_factory=set)

    def add(self, run: Run, pair: Pair, form: str) -> None:
        """Note both sides of a test pair."""
        for shown in (pair.query, pair.target):
            self.contents.update(_keys(shown.entry, form))
        self.groups.update(_group(run, group) for group in pair.groups)
        if pair.query.entry is None and pair.target.entry is None:
            self.texts.add((comparable(pair.query.text), comparable(pair.target.text)))

    def overlaps(self, run: Run, pair: Pair, form: str) -> list[str]:
        """What a training pair shows of the tests."""
        found = []
        if any(key in self.contents for shown in (pair.query, pair.target) for key in _keys(shown.entry, form)):
            found.append("pictures")
        if any(_group(run, group) in self.groups for group in pair.groups):
            found.append("groups")
        texts = (comparable(pair.query.text), comparable(pair.target.text))
        if pair.query.entry is None and pair.target.entry is None and texts in self.texts:
            found.append("text pairs")
        return found


def _keys(entry: Entry | None, form: str) -> list[bytes]:
    """Digests of pictures; of a volume as a whole, as single slices, say black ones, are no leak."""
    if entry is None:
        return []
    return [_key(entry.content)] if form == "3d" else [_key(content) for content in entry.contents]


def _key(content: str) -> bytes:
    return blake2b(content.encode(), digest_size=16).digest()


def _group(run: Run, group: tuple[str, str]) -> tuple[str, str]:
    """A group under the source that its patients come from, so that all sources of one hospital's patients agree."""
    dataset = run.datasets.get(group[0])
    return (dataset.people if dataset else group[0]), group[1]


def tested_by(run: Run) -> tuple[Tested, dict[str, str]]:
    """What all tests of the run show, held-out ones included, and why nothing is known of some (task to reason).

    Raises:
        MedhebError: an inventory is of another protocol or version.
    """
    tested, unseen = Tested(), dict[str, str]()
    for task in run.tasks.values():
        found = _built(run, task)
        if isinstance(found, Status):
            unseen[task.task] = found.reason if may_show(run, task) or found.origin == ORIGIN else UNTOLD
            continue
        family, context = context_of(task, found, Draw(run.config.seed, task.task))
        try:
            for pair in family.pairs(context, "test"):
                tested.add(run, pair, task.form)
        except MedhebError as error:
            plain = isinstance(error, RuleError) or may_show(run, task)
            unseen[task.task] = error.fault if plain else UNTOLD
        if run.config.task_index == "released":
            tested.contents.update(_released(run, task, found))
    return tested, unseen


def _built(run: Run, task: Task) -> Sources | Status:
    """Sources of a task, or why they cannot be used."""
    if any(not run.layout.inventory(run.datasets[name].images, name).exists() for name in task.sources):
        return Status(state="blocked", origin=ORIGIN, reason="a source has not been built", remedy="Build it first")
    inventories = inventories_of(run, task)
    status = first_trouble([inventory.status for _, inventory in inventories])
    return sources_of(run, task, inventories) if status.ok else status


def _released(run: Run, task: Task, sources: Sources) -> Iterator[bytes]:
    """Digests of the items of a task file that was released; they need not be those of our rules."""
    path = run.layout.task_index(task.index)
    if not path.exists() or task.image_root is None:
        return
    contents = sources.contents()
    for record in stream_records(path):
        for item in (record.query, *record.candidates):
            found = [contents.get(image, image) for image in item.images]
            yield from map(_key, [JOINED.join(found)] if item.modality == "volume" else found)


def training_file(task: Task) -> str:
    """Name of a task's file of training rows."""
    stem = PurePosixPath(task.index).stem
    return f"{stem.replace('test', 'train')}.jsonl" if "test" in stem else f"{stem}_train.jsonl"


def train_command(run: Run, names: Sequence[str] = ()) -> list[Trained]:
    """Write the training rows of all in-distribution tasks, or of those of some sources, and a summary of them.

    Args:
        run: its tasks decide what is tested.
        names: tasks or sources.

    Raises:
        MedhebError: a name that stands for no in-distribution task.
    """
    wanted = [
        task
        for task in run.tasks.values()
        if task.split == "id" and (not names or task.task in names or task.sources[0] in names)
    ]
    for name in names:
        if not any(name in (task.task, task.sources[0]) for task in wanted):
            raise MedhebError(
                name, "has no task of the in-distribution part", "Held-out sources are never trained on; name another"
            )
    folder = run.layout.train_data
    tested, unseen = tested_by(run)
    found = [_write_task(run, task, tested, folder) for task in wanted]
    if not names:
        write_json(run.layout.train_summary, [trained.model_dump(mode="json") for trained in found])
    write_json(folder / UNSEEN_TESTS, unseen)
    if unseen:
        log.warning("index train: %d tests could not be looked at; %s names them", len(unseen), folder / UNSEEN_TESTS)
    return found


def _write_task(run: Run, task: Task, tested: Tested, folder: Path) -> Trained:
    name = training_file(task)
    target, listed = folder / name, folder / f"{PurePosixPath(name).stem}.overlaps.json"
    pairs = _pairs_or_status(run, task)
    if isinstance(pairs, Status):
        for path in (target, listed):
            path.unlink(missing_ok=True)
        return Trained(task=task.task, file=name, status=pairs)
    kept, rows = run.config.protocol == "release", 0
    overlaps: Counter[str] = Counter()
    names: list[dict[str, Any]] = []
    with atomic_open(target) as stream:
        for pair in pairs:
            shown = tested.overlaps(run, pair, task.form)
            if shown:
                overlaps.update(shown)
                names.append({"row": pair.name, "shows": shown})
            if not shown or kept:
                text = json.dumps(training_row(task, pair), ensure_ascii=False, sort_keys=True, allow_nan=False)
                stream.write(f"{text}\n".encode())
                rows += 1
    if names:
        content = names if may_show(run, task) else [{"shows": row["shows"]} for row in names]
        write_json(listed, {"task": task.task, "kept": kept, "rows": content})
    else:
        listed.unlink(missing_ok=True)
    log.info("index train %s: %d rows, %d overlaps with tests", task.task, rows, len(names))
    return Trained(
        task=task.task,
        file=name,
        status=OK,
        rows=rows,
        overlaps=dict(sorted(overlaps.items())),
        kept=kept and bool(names),
        listed=listed.name if names else None,
    )


def _pairs_or_status(run: Run, task: Task) -> Iterable[Pair] | Status:
    """Training pairs of a task, or why there are none."""
    sources = _built(run, task)
    if isinstance(sources, Status):
        return sources
    try:
        return _training(run, task, sources) or _no_rows(run, task)
    except MedhebError as error:
        return status_of(error, f"index train {task.task}")


def _training(run: Run, task: Task, sources: Sources) -> Iterable[Pair] | None:
    """Training pairs from the nearest folder above the task's image root that holds some; None if there are none.

    A test often has its own folder beside that of the training part.
    """
    draw = Draw(run.config.seed, task.task)
    if task.image_root is None:
        return _if_any(partial(training_pairs, task, sources, draw))
    root = PurePosixPath(task.image_root)
    for folder in (root, *root.parents[:-2]):
        placed = [Source(one.inventory, one.layout, "", one.places, f"{folder}") for one in sources.all]
        own = Sources(placed, sources.rules, sources.protocol)
        found = _if_any(partial(training_pairs, task, own, draw))
        if found is not None:
            return found
    return None


def _if_any(make: Callable[[], Iterable[Pair]]) -> Iterable[Pair] | None:
    """What ``make`` gives, unless it gives nothing."""
    return make() if next(iter(make()), None) is not None else None


def training_row(task: Task, pair: Pair) -> dict[str, Any]:
    """One row in the published chat style; pictures are paths from the benchmark's folder."""
    row: dict[str, Any] = {
        "messages": [{"role": "system", "content": task.qry_inst}, _user(pair.query)],
        "positive_messages": [[_user(pair.target)]],
    }
    if pair.query.entry is not None:
        row["images"] = _images(pair.query)
    if pair.target.entry is not None:
        row["positive_images"] = [_images(pair.target)]
    return row


def _user(shown: Shown) -> dict[str, str]:
    marks = "<image>" * len(shown.entry.paths) if shown.entry is not None else ""
    return {"role": "user", "content": marks + shown.text}


def _images(shown: Shown) -> list[str]:
    return [f"./{path}" for path in (shown.entry.paths if shown.entry is not None else ())]
