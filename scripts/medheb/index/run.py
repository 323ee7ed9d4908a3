"""The ``index`` step: inventories of a task's sources -> its task JSON and a status."""

from __future__ import annotations

import logging

from medheb.build.inventory import read_inventory
from medheb.core.errors import MedhebError
from medheb.core.files import write_json
from medheb.core.status import Status, first_trouble, status_of, write_status
from medheb.index.builders.registry import builder_of
from medheb.index.checks import check_rows
from medheb.index.completeness import check_complete
from medheb.index.draw import Draw
from medheb.index.entries import Source, Sources
from medheb.index.records import Record, as_json
from medheb.manifest.load import Run
from medheb.manifest.task import Task

log = logging.getLogger("medheb.index")


def build_index(run: Run, task_key: str) -> Status:
    """Build one task. Always leaves a task JSON (``[]`` if the status is not ok) and a status beside it, last.

    Raises:
        MedhebError: the task is not selected, or one of its sources has not been built yet.
    """
    task = run.tasks.get(task_key)
    if task is None:
        raise MedhebError(task_key, "is not a task of this run", f"Allowed: {', '.join(run.tasks)}")
    inventories = [read_inventory(run.layout.inventory(run.datasets[source].images, source)) for source in task.sources]
    status = first_trouble([inventory.status for inventory in inventories])
    records: list[Record] = []
    if status.ok:
        sources = Sources([Source(inventory, run.layout, task.image_root) for inventory in inventories])
        try:
            records = build_records(task, sources, run.config.seed)
        except MedhebError as error:
            status = status_of(error, f"index {task_key}")
    if not status.ok:
        log.warning("index %s: %s: %s. %s", task_key, status.state, status.reason, status.remedy)
    write_json(run.layout.task_index(task.index), as_json(records))
    write_status(run.layout.task_status(task.index), status)
    return status


def build_records(task: Task, sources: Sources, seed: int) -> list[Record]:
    """Rows of one task, checked.

    Raises:
        MedhebError: the builder refuses, a named image is in no inventory, or the rows break a rule of all tasks.
    """
    records = builder_of(task)(task, sources, Draw(seed, task.task))
    contents = built_contents(task, sources)
    check_complete(records, contents, task.index)
    check_rows(records, task.pool, contents, task.index)
    log.info("index %s: %d queries", task.task, len(records))
    return records


def built_contents(task: Task, sources: Sources) -> dict[str, str]:
    """Path below the task's image root to content digest, for all files of its sources."""
    if task.image_root is None:
        return {}
    root = f"{task.image_root}/"
    return {
        f"{source.inventory.images}/{file.path}".removeprefix(root): file.content
        for source in sources.all
        for file in source.inventory.files
        if f"{source.inventory.images}/{file.path}".startswith(root)
    }
