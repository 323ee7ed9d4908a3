"""Was a score computed from the very data and task JSON that were recorded?"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from medheb.audit.schema import SourceRecord
from medheb.core.digests import json_digest, merkle_root
from medheb.core.errors import MedhebError
from medheb.evaluate.score import read_score
from medheb.index.records import as_json, read_records
from medheb.manifest.load import Run
from medheb.manifest.task import Task


class Origin:
    """Digests of a task's data and records, as the audit folder and the task JSON have them now.

    Args:
        run: the run.
        task: the task.
        records: recorded digests by source.
    """

    def __init__(self, run: Run, task: Task, records: Mapping[str, SourceRecord]) -> None:
        self._data_root = _data_root(task, records)
        try:
            self._task_digest: str | None = json_digest(as_json(read_records(run.layout.task_index(task.index))))
        except (MedhebError, OSError, RecursionError):
            self._task_digest = None  # the verdict on the task JSON itself says so

    def contradiction(self, score: Path) -> str:
        """How the score's stated origin differs from what is known, or an empty text."""
        stated = read_score(score)
        return self.differs(stated.data_root, stated.task_digest)

    def differs(self, data_root: str, task_digest: str) -> str:
        """How a stated origin differs from what is known, or an empty text."""
        if self._data_root is not None and data_root != self._data_root:
            return "was computed from other images than are recorded"
        if self._task_digest is not None and task_digest != self._task_digest:
            return "was computed from another task JSON than lies here"
        return ""


def _data_root(task: Task, records: Mapping[str, SourceRecord]) -> str | None:
    """L2 root over all sources of a task; None where a source is not recorded or withholds its digests."""
    if any(source not in records for source in task.sources):
        return None
    if len(task.sources) == 1:
        return records[task.sources[0]].roots.get("L2")
    digests: dict[str, str] = {}
    for source in task.sources:
        if records[source].withheld:
            return None
        digests |= {path: file.L2 for path, file in records[source].files.items()}
    return merkle_root(digests)
