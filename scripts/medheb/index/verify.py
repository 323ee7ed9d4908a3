"""``medheb index check``: does every picture that the task files name exist on disk, under the task's image root?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from medheb.core.errors import MedhebError
from medheb.core.status import Status, read_status
from medheb.index.built import inventories_of
from medheb.index.completeness import Disk, Missing, Pattern
from medheb.index.paths import Images
from medheb.index.records import image_paths, stream_records
from medheb.index.released import ReleasedFacts, released_records
from medheb.index.run import may_show, released_file, resolver_of, shown_reason
from medheb.manifest.load import Run
from medheb.manifest.released import RELEASED_ID
from medheb.manifest.task import Task

State = Literal["complete", "missing", "blocked", "failed", "not made"]


@dataclass(frozen=True)
class TaskCheck:
    """What the check of one task found.

    Args:
        state: ``not made``: there is no task file yet; ``blocked`` and ``failed``: ``reason`` says why it is empty.
        pictures: distinct pictures that the task names.
        missing: these that are not there, by pattern.
        by_case: pictures of a released file that were found by case and slice name only.
        show: may paths be printed.
    """

    task: str
    state: State
    pictures: int = 0
    missing: list[Pattern] = field(default_factory=list)
    by_case: int = 0
    reason: str = ""
    show: bool = True

    @property
    def lost(self) -> int:
        """Pictures that are not there."""
        return sum(entry.count for entry in self.missing)

    def lines(self) -> Iterator[str]:
        """What is printed of it."""
        if self.state == "complete":
            yield f"{self.task}: complete, {self.pictures} pictures"
        elif self.state == "missing":
            yield f"{self.task}: {self.lost} of {self.pictures} pictures are missing"
            for entry in self.missing:
                yield f"  {entry.line(self.show)}"
        else:
            yield f"{self.task}: {self.state}{f': {self.reason}' if self.reason else ''}"
        if self.by_case:
            yield f"  {self.by_case} pictures were found by case and slice name, not by the path that the file gives"

    def as_json(self) -> dict[str, Any]:
        """The same as data."""
        patterns = [
            {"pattern": entry.pattern, "count": entry.count, "source": entry.source, "row": entry.row}
            | ({"example": entry.example} if self.show else {})
            for entry in self.missing
        ]
        return {
            "task": self.task,
            "state": self.state,
            "pictures": self.pictures,
            "missing": patterns,
            "found_by_case": self.by_case,
            "reason": self.reason,
        }


def check_task(run: Run, task: Task, disk: Disk) -> TaskCheck:
    """Check the task file of one task; of the released index, the fetched file itself is read.

    Args:
        run: gives the folders and which index is used.
        task: its row.
        disk: of the benchmark folder.
    """
    show = may_show(run, task)
    released = run.config.task_index == "released"
    try:
        status_file = run.layout.source_status(RELEASED_ID) if released else run.layout.task_status(task.index)
        if not status_file.exists():
            return TaskCheck(task.task, "not made")
        status = read_status(status_file)
        if not status.ok:
            return _troubled(run, task, status)
        sources = inventories_of(run, task)
        for _, inventory in sources:
            if not inventory.status.ok:
                return _troubled(run, task, inventory.status)
        images = Images(sources)
        missing = Missing([dataset for dataset, _ in sources], task.image_root)
        return (_check_released if released else _check_rebuilt)(run, task, images, missing, disk)
    except MedhebError as error:
        return TaskCheck(task.task, "failed", reason=str(error) if show else f"{error.fault}. {error.remedy}")


def _troubled(run: Run, task: Task, status: Status) -> TaskCheck:
    state: State = "blocked" if status.state == "blocked" else "failed"
    return TaskCheck(task.task, state, reason=shown_reason(run, task, status))


def _result(task: Task, pictures: int, missing: Missing, by_case: int, show: bool) -> TaskCheck:
    state: State = "missing" if len(missing) else "complete"
    return TaskCheck(task.task, state, pictures, missing.patterns(), by_case, show=show)


def _check_rebuilt(run: Run, task: Task, images: Images, missing: Missing, disk: Disk) -> TaskCheck:
    seen: set[str] = set()
    for row, record in enumerate(stream_records(run.layout.task_index(task.index))):
        for _, path in image_paths([record]):
            if path in seen:
                continue
            seen.add(path)
            full = f"{task.image_root}/{path}"
            if full not in images or not disk.has(full):
                missing.add(path, row)
    return _result(task, len(seen), missing, 0, may_show(run, task))


def _check_released(run: Run, task: Task, images: Images, missing: Missing, disk: Disk) -> TaskCheck:
    resolver, show, seen = resolver_of(run, task, images), may_show(run, task), set()

    def place(path: str, row: int) -> str:
        if path not in seen:
            seen.add(path)
            below = resolver.path(path)
            if below is None or not disk.has(f"{task.image_root}/{below}"):
                missing.add(path, row)
        return path

    for _ in released_records(released_file(run, task), task, place, ReleasedFacts(), show):
        pass  # reading checks every row
    return _result(task, len(seen), missing, resolver.ways["case"], show)
