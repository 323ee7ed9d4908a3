"""``medheb index check``: does every picture that the task files name exist on disk, under the task's image root?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from medheb.build.inventory import Inventory
from medheb.core.errors import MedhebError
from medheb.core.status import Status, first_trouble, read_status
from medheb.index.built import inventories_of
from medheb.index.completeness import Disk, Missing, Pattern
from medheb.index.paths import Images
from medheb.index.records import image_paths, stream_records
from medheb.index.refusal import RuleError
from medheb.index.released import ReleasedFacts, released_records
from medheb.index.run import may_show, released_file, resolver_of, shown_reason
from medheb.manifest.dataset import Dataset
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


@dataclass(frozen=True)
class SourceCheck:
    """Built files of one source, named by a task or not, that are no longer on disk."""

    dataset: Dataset
    files: int
    missing: list[Pattern]

    @property
    def lost(self) -> int:
        """Files that are not there."""
        return sum(entry.count for entry in self.missing)

    def lines(self) -> Iterator[str]:
        """What is printed of it; nothing if all files are there."""
        if self.missing:
            folder = self.dataset.images
            yield f"source {self.dataset.id}: {self.lost} of {self.files} built files are no longer in {folder}"
            for entry in self.missing:
                example = f" ({entry.example})" if self.dataset.show_content else ""
                yield f"  {entry.count} like {entry.pattern}{example}"

    def as_json(self) -> dict[str, Any]:
        """The same as data."""
        patterns = [{"pattern": entry.pattern, "count": entry.count} for entry in self.missing]
        return {"source": self.dataset.id, "files": self.files, "missing": patterns}


class Checker:
    """Checks tasks one after the other, and each of their sources once. Inventories of one group of tasks are kept.

    Args:
        run: gives the folders and which index is used.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._disk = Disk(run.layout.benchmark)
        self._group: str | None = None
        self._sources: list[tuple[Dataset, Inventory]] = []
        self.sources: dict[str, SourceCheck] = {}

    def task(self, task: Task) -> TaskCheck:
        """Check one task file; of the released index, the fetched file itself is read."""
        run, show = self._run, may_show(self._run, task)
        released = run.config.task_index == "released"
        try:
            status_file = run.layout.source_status(RELEASED_ID) if released else run.layout.task_status(task.index)
            if not status_file.exists():
                return TaskCheck(task.task, "not made")
            status = first_trouble([read_status(status_file), *self._read(task)])
            if not status.ok:
                state: State = "blocked" if status.state == "blocked" else "failed"
                return TaskCheck(task.task, state, reason=shown_reason(run, task, status))
            return self._released(task) if released else self._rebuilt(task)
        except MedhebError as error:
            told = str(error) if show or isinstance(error, RuleError) else f"{error.fault}. {error.remedy}"
            return TaskCheck(task.task, "failed", reason=told)

    def _read(self, task: Task) -> list[Status]:
        """Make the inventories of a task's sources the kept ones; their statuses."""
        if task.group != self._group:
            self._group, self._sources = None, []
            self._sources = inventories_of(self._run, task)
            self._group = task.group
            for dataset, inventory in self._sources:
                if dataset.id not in self.sources:
                    self.sources[dataset.id] = self._source(dataset, inventory)
        return [inventory.status for _, inventory in self._sources]

    def _source(self, dataset: Dataset, inventory: Inventory) -> SourceCheck:
        missing = Missing([dataset], dataset.images)  # by pattern; there are no rows
        for file in inventory.files:
            if not self._disk.has(f"{dataset.images}/{file.path}"):
                missing.add(file.path, 0)
        return SourceCheck(dataset, len(inventory.files), missing.patterns())

    def _missing(self, task: Task) -> Missing:
        return Missing([dataset for dataset, _ in self._sources], task.image_root)

    def _result(self, task: Task, pictures: int, missing: Missing, by_case: int = 0) -> TaskCheck:
        state: State = "missing" if len(missing) else "complete"
        return TaskCheck(task.task, state, pictures, missing.patterns(), by_case, show=may_show(self._run, task))

    def _rebuilt(self, task: Task) -> TaskCheck:
        images, missing, seen = Images(self._sources), self._missing(task), set()
        for row, record in enumerate(stream_records(self._run.layout.task_index(task.index))):
            for _, path in image_paths([record]):
                if path in seen:
                    continue
                seen.add(path)
                full = f"{task.image_root}/{path}"
                found = images.get(full)
                if found is None or not self._disk.has(full):
                    missing.add(path, row, found.source.id if found else "")
        return self._result(task, len(seen), missing)

    def _released(self, task: Task) -> TaskCheck:
        missing, seen = self._missing(task), set()
        resolver = resolver_of(self._run, task, Images(self._sources))

        def place(path: str, row: int) -> str:
            if path not in seen:
                seen.add(path)
                below = resolver.path(path)
                if below is None or not self._disk.has(f"{task.image_root}/{below}"):
                    missing.add(path, row)
            return path

        source, show = released_file(self._run, task), may_show(self._run, task)
        # Reading checks every row.
        if not sum(1 for _ in released_records(source, task, place, ReleasedFacts(), show)):
            raise RuleError(source, "holds no record", "Fetch the released index again")
        return self._result(task, len(seen), missing, resolver.ways["case"])
