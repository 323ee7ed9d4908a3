"""Training rows (``Train_Data``) by the rules of the tasks: pairs of the training part, nothing of any test.

One file a task of the in-distribution part, in the published chat style (spec: reference task JSON section 4). No row
shows a picture, a volume, a text pair, a patient or a study of a test (:mod:`medheb.index.leaks`), except under
protocol ``release`` where the split that the source's own publisher shipped does that; those rows are named.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from pydantic import Field

from medheb.core.digests import sha256_file
from medheb.core.errors import MedhebError
from medheb.core.files import atomic_open, write_json
from medheb.core.status import OK, Status, first_trouble, status_of
from medheb.index.builders.common import Pair, Shown
from medheb.index.builders.registry import context_of, training_pairs
from medheb.index.built import data_root, inventories_of
from medheb.index.draw import Draw
from medheb.index.entries import JOINED, Entry, Source, Sources
from medheb.index.leaks import PUBLISHED_SPLIT, Kind, Leak, Tested, Why, split_by_publisher
from medheb.index.paths import Images
from medheb.index.records import stream_records
from medheb.index.refusal import RuleError
from medheb.index.run import RULE, may_show, sources_of
from medheb.manifest.base import Strict
from medheb.manifest.load import Run
from medheb.manifest.task import Task

log = logging.getLogger("medheb.index")
UNSEEN_TESTS = "tests_not_seen.json"
ORIGIN = "index train"
QUOTING = "index train of"  # begins the origin of a status that may quote a source
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


class Kept(Strict):
    """Training rows that show something of a test and are kept, as the source's published split has them."""

    source: str
    kind: Kind = Field(
        description="what they show: image (a picture or volume), text (a pair), patient (or the case or source "
        "picture that the source splits by), study"
    )
    rows: int
    split: str = Field(description="what of the publisher's puts it on both sides")


class Trained(Strict):
    """What came of the training rows of one task."""

    task: str
    file: str = Field(description="below Train_Data")
    status: Status
    rows: int = Field(default=0, description="written, kept ones included")
    sha256: str = Field(default="", description="of the file: what is made of the rows sees by it that they changed")
    root: str = Field(default="", description="Merkle root over the L2 digests of all files of the task's sources")
    overlaps: dict[Kind, int] = Field(
        default_factory=dict, description="rows that show something of a test, written or not, by what they show"
    )
    kept: tuple[Kept, ...] = Field(default=(), description="of these, what protocol release keeps")
    removed: dict[Why, int] = Field(
        default_factory=dict,
        description="of these, rows that are left out: the test is another source's; nothing of the publisher's says "
        "which rows are training; or it does, and protocol corrected leaves them out too",
    )
    listed: str | None = Field(
        default=None, description="file beside the rows that names each such row; null if there are none"
    )


def tested_by(run: Run) -> tuple[Tested, dict[str, str]]:
    """What all tests of the run show, held-out and graded ones included, and why nothing is known of some.

    Returns:
        What they show, and task to reason.

    Raises:
        MedhebError: an inventory is of another protocol or version.
    """
    tested, unseen = Tested(run), dict[str, str]()
    for task in run.every_task.values():
        found = _built(run, task)
        if isinstance(found, Status):
            unseen[task.task] = found.reason if may_show(run, task) or found.origin == ORIGIN else UNTOLD
            continue
        family, context = context_of(task, found, Draw(run.config.seed, task.task))
        published = split_by_publisher(run, context)
        try:
            for pair in family.pairs(context, "test"):
                tested.add(pair, task.form, published)
            for entry in family.pool(context) if task.pool == "local" else ():
                tested.add_entry(entry, task.form, entry.dataset in published)
        except MedhebError as error:
            plain = isinstance(error, RuleError) or may_show(run, task)
            unseen[task.task] = error.fault if plain else UNTOLD
        if run.config.task_index == "released" and task.task in run.tasks:
            for entry in _released(run, task):
                official = entry.dataset in published and context.part_of(entry) == "test"
                tested.add_entry(entry, task.form, official)
    return tested, unseen


def _built(run: Run, task: Task) -> Sources | Status:
    """Sources of a task, or why they cannot be used."""
    if any(not run.layout.inventory(run.datasets[name].images, name).exists() for name in task.sources):
        return Status(state="blocked", origin=ORIGIN, reason="a source has not been built", remedy="Build it first")
    inventories = inventories_of(run, task)
    status = first_trouble([inventory.status for _, inventory in inventories])
    return sources_of(run, task, inventories) if status.ok else status


def _released(run: Run, task: Task) -> Iterator[Entry]:
    """Items of a task file that was released; they need not be those of our rules."""
    path = run.layout.task_index(task.index)
    if not path.exists() or task.image_root is None:
        return
    images = Images(inventories_of(run, task))
    for record in stream_records(path):
        for item in (record.query, *record.candidates):
            found = [images.get(f"{task.image_root}/{name}") for name in item.images]
            known = [one for one in found if one is not None]
            if known:
                files = [one.file for one in known]
                content = JOINED.join(file.seen for file in files)
                paths = tuple(file.path for file in files)
                yield Entry(known[0].source.id, item.images, content, files[0].facts, paths)


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
        if task.split == "id" and (not names or not {task.task, *task.sources}.isdisjoint(names))
    ]
    for name in names:
        if not any(name in (task.task, *task.sources) for task in wanted):
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
    rows, seen = 0, _Seen(run)
    try:
        found = _pairs_or_status(run, task)
        if not isinstance(found, Status):
            published, pairs = found
            with atomic_open(target) as stream:
                for pair in pairs:
                    leak = tested.leak(pair, task.form, published)
                    if leak is None or seen.keeps(pair, leak):
                        text = json.dumps(training_row(task, pair), ensure_ascii=False, sort_keys=True, allow_nan=False)
                        stream.write(f"{text}\n".encode())
                        rows += 1
    except MedhebError as error:
        found = status_of(error, f"{RULE if isinstance(error, RuleError) else QUOTING} {task.task}")
    if isinstance(found, Status):
        for path in (target, listed):
            path.unlink(missing_ok=True)
        return Trained(task=task.task, file=name, status=found)
    if seen.named:
        names = seen.named if may_show(run, task) else [row | {"row": None} for row in seen.named]
        write_json(listed, {"task": task.task, "rows": names})
    else:
        listed.unlink(missing_ok=True)
    log.info("index train %s: %d rows, %d overlaps with tests", task.task, rows, len(seen.named))
    return Trained(
        task=task.task,
        file=name,
        status=OK,
        rows=rows,
        sha256=sha256_file(target),
        root=data_root(run, task),
        overlaps=dict(sorted(seen.kinds.items())),
        kept=seen.kept(),
        removed=dict(sorted(seen.removed.items())),
        listed=listed.name if seen.named else None,
    )


class _Seen:
    """Rows of one task that show something of a test."""

    def __init__(self, run: Run) -> None:
        self._run, self._kept = run, Counter[tuple[str, Kind]]()
        self.kinds, self.removed = Counter[Kind](), Counter[Why]()
        self.named: list[dict[str, Any]] = []

    def keeps(self, pair: Pair, leak: Leak) -> bool:
        """Count a row; may it be written?"""
        keep = self._run.config.protocol == "release" and leak.why == PUBLISHED_SPLIT
        self.kinds.update(leak.kinds)
        self.named.append(
            {"row": pair.name, "shows": leak.kinds, "tests": leak.tests, "kept": keep, "reason": leak.why}
        )
        if keep:
            self._kept.update((dataset, kind) for kind, dataset in leak.shows)
        else:
            self.removed[leak.why] += 1
        return keep

    def kept(self) -> tuple[Kept, ...]:
        """Kept rows by source and kind."""
        return tuple(
            Kept(source=source, kind=kind, rows=rows, split=self._run.datasets[source].published_split or "")
            for (source, kind), rows in sorted(self._kept.items())
        )


def _pairs_or_status(run: Run, task: Task) -> tuple[frozenset[str], Iterable[Pair]] | Status:
    """Sources whose publisher's split decides, and the training pairs of a task; or why there are none."""
    sources = _built(run, task)
    if isinstance(sources, Status):
        return sources
    pairs = _training(run, task, sources)
    _, context = context_of(task, sources, Draw(run.config.seed, task.task))
    return _no_rows(run, task) if pairs is None else (split_by_publisher(run, context), pairs)


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
