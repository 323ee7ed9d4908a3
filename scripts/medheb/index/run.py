"""The ``index`` step: a task's sources and, if wanted, its released file -> its task JSON, quality and status."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from pathlib import Path

from medheb.build.inventory import Inventory
from medheb.core.digests import sha256_file
from medheb.core.errors import MedhebError
from medheb.core.files import write_text
from medheb.core.status import Status, first_trouble, read_status, status_of, write_status
from medheb.fetch.located import files_of
from medheb.index.builders.registry import builder_of
from medheb.index.built import inventories_of
from medheb.index.checks import RowRules, check_rows
from medheb.index.completeness import Missing, check_complete
from medheb.index.draw import Draw
from medheb.index.entries import Source, Sources
from medheb.index.measure import Measure
from medheb.index.paths import Images
from medheb.index.quality import Quality, Released, write_quality
from medheb.index.records import Record, image_paths, record_writer
from medheb.index.refusal import RuleError
from medheb.index.released import ReleasedFacts, released_records
from medheb.index.resolve import Resolver
from medheb.manifest.dataset import Dataset
from medheb.manifest.load import Run
from medheb.manifest.released import RELEASED_ID
from medheb.manifest.task import Task

log = logging.getLogger("medheb.index")
FEW_QUERIES = 10
RULE = "rule of"  # begins the origin of a status that may be shown for every source


def build_index(run: Run, task_key: str) -> Status:
    """Make one task file. Always leaves a task JSON (``[]`` if the status is not ok), a quality report and a status.

    Raises:
        MedhebError: the task is not selected, one of its sources has not been built yet, or was built for another
            protocol or by another recipe.
    """
    task = run.every_task.get(task_key)
    if task is None:
        raise MedhebError(task_key, "is not a task of this run", f"Allowed: {', '.join(run.every_task)}")
    sources = inventories_of(run, task)
    status = first_trouble([*_released_status(run), *(inventory.status for _, inventory in sources)])
    quality = Measure(run, task, Images([])).result()
    path = run.layout.task_index(task.index)
    if status.ok:
        images = Images(sources)
        try:
            # A task of graded relevance that is none of the benchmark's has no released file.
            if run.config.task_index == "released" and task_key in run.tasks:
                quality = _write_released(run, task, images, path)
            else:
                quality = _write_rebuilt(run, task, images, path)
            log.info("index %s: %d queries", task_key, quality.rows)
        except MedhebError as error:
            status = status_of(error, f"{RULE if isinstance(error, RuleError) else 'index'} {task_key}")
    if not status.ok:
        log.warning("index %s: %s: %s", task_key, status.state, shown_reason(run, task, status))
        write_text(path, "[]\n")
    elif quality.rows < FEW_QUERIES:
        log.warning("index %s: only %d queries", task_key, quality.rows)
    write_quality(run.layout.task_quality(task.index), quality)
    write_status(run.layout.task_status(task.index), status)
    return status


def shown_reason(run: Run, task: Task, status: Status) -> str:
    """Why a task is empty, for logs and terminals; texts and paths of a restricted source stand in its status only."""
    if may_show(run, task) or not status.origin.startswith("index "):
        return f"{status.reason}. {status.remedy}"
    return f"the terms of its source forbid to show why; the reason stands in {run.layout.task_status(task.index)}"


def may_show(run: Run, task: Task) -> bool:
    """True if every source of a task allows its texts and paths to be shown."""
    return all(run.datasets[source].show_content for source in task.sources)


def _released_status(run: Run) -> list[Status]:
    if run.config.task_index == "rebuilt":
        return []
    path = run.layout.source_status(RELEASED_ID)
    if not path.exists():
        fetch = f"medheb --set task_index=released fetch {RELEASED_ID}"
        raise MedhebError(
            path, "is missing: the released index has not been fetched", f"Run `{fetch}`, or the workflow"
        )
    return [read_status(path)]


# rebuilt
def sources_of(run: Run, task: Task, sources: Sequence[tuple[Dataset, Inventory]]) -> Sources:
    """What the builders read."""
    found = [Source(inventory, run.layout, task.image_root, dataset.places) for dataset, inventory in sources]
    return Sources(found, run.rules, run.protocol)


def build_records(task: Task, sources: Sources, seed: int) -> list[Record]:
    """Rows of one task, checked.

    Raises:
        MedhebError: the builder refuses, a named image is in no inventory, or the rows break a rule of all tasks.
    """
    records = list(builder_of(task)(task, sources, Draw(seed, task.task)))
    contents = sources.contents()
    check_complete(records, contents, task.index)
    check_rows(records, task.pool, contents, task.index)
    return records


def _write_rebuilt(run: Run, task: Task, images: Images, path: Path) -> Quality:
    records = builder_of(task)(task, sources_of(run, task, images.sources), Draw(run.config.seed, task.task))
    rules = RowRules(task.pool, images.contents(task.image_root), task.index)
    return _write(run, task, images, path, records, rules)


def _write(run: Run, task: Task, images: Images, path: Path, records: Iterable[Record], rules: RowRules) -> Quality:
    """Write rows as they come; nothing is left if the builder, completeness or a rule refuses them."""
    missing = Missing([dataset for dataset, _ in images.sources], task.image_root)
    measure = Measure(run, task, images)
    with record_writer(path) as writer:
        for row, record in enumerate(records):
            for _, name in image_paths([record]):
                if f"{task.image_root}/{name}" not in images:
                    missing.add(name, row)
            rules.add(record)
            measure.add(record)
            writer.add(record)
        missing.require_none(task.index, may_show(run, task))
        rules.finish()
    return measure.result()


# released
def released_file(run: Run, task: Task) -> Path:
    """The fetched task JSON of a task.

    Raises:
        RuleError: the fetched index has no such file.
    """
    folder = files_of(run, run.with_index().datasets[RELEASED_ID])
    path = folder / task.index
    if not path.is_file():
        raise RuleError(
            path, f"is missing: the released index has no file for task {task.task}", "Set 'task_index: rebuilt'"
        )
    return path


def resolver_of(run: Run, task: Task, images: Images) -> Resolver:
    """Finds pictures for the paths of a task's released file."""
    by_case = run.released.by_case if run.released else ()
    return Resolver(task, images, frozenset(by_case))


def _write_released(run: Run, task: Task, images: Images, path: Path) -> Quality:
    source, show = released_file(run, task), may_show(run, task)
    missing = Missing([dataset for dataset, _ in images.sources], task.image_root)
    resolver, facts, measure = resolver_of(run, task, images), ReleasedFacts(), Measure(run, task, images)

    def place(path: str, row: int) -> str:
        found = resolver.path(path)
        if found is None:
            missing.add(path, row)
        return found or path

    with record_writer(path) as writer:
        for record in released_records(source, task, place, facts, show):
            measure.add(record)
            writer.add(record)
        if not writer.rows:
            raise RuleError(source, "holds no record", "Fetch the released index again")
        missing.require_none(task.index, show)
    if resolver.ways["case"]:
        log.warning("index %s: %d paths resolved by case and slice name", task.task, resolver.ways["case"])
    return measure.result().model_copy(update={"released": released_facts(source, facts, resolver)})


def released_facts(source: Path, facts: ReleasedFacts, resolver: Resolver) -> Released:
    """What was met in a released file, for the quality report."""
    return Released(
        sha256=sha256_file(source),
        generation=facts.generation,
        unknown_fields=dict(sorted(facts.unknown_fields.items())),
        multi_picture_candidates=facts.multi_picture_candidates,
        unread_query_pictures=facts.unread_query_pictures,
        paths=dict(sorted(resolver.ways.items())),
    )
