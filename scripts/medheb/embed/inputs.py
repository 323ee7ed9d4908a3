"""From a task JSON to rendered inputs: which distinct things a model must embed, and under which keys."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache

from medheb.core.errors import MedhebError
from medheb.core.status import read_status
from medheb.index.built import inventories_of
from medheb.index.paths import Images
from medheb.index.records import Item, Record, read_records
from medheb.index.text_rules import honest, published
from medheb.manifest.load import Run
from medheb.manifest.task import Task
from medheb.models.base import Adapter, ImageRef, Rendered, Side


@dataclass(frozen=True)
class RenderedTask:
    """A task as one model sees it: queries [n] and their candidates, positive first.

    ``sizes`` holds width and height in pixels of images by their sha256, as far as the inventories know them.
    """

    task: Task
    records: list[Record]
    queries: list[Rendered]
    candidates: list[list[Rendered]]
    sizes: dict[str, tuple[int, int]]


@dataclass(frozen=True)
class GroupInputs:
    """Distinct rendered inputs of a group of tasks by key, in key order, and the sizes of their images."""

    inputs: dict[str, Rendered]
    sizes: dict[str, tuple[int, int]]


def render_task(run: Run, task: Task, adapter: Adapter) -> RenderedTask:
    """Render all queries and candidates of a task.

    Texts of text-text tasks are cleaned, as published or without losing a sign, as the protocol says.

    Raises:
        MedhebError: the task JSON is damaged or names an image that no source of the task built.
    """
    path = run.layout.task_index(task.index)
    records = read_records(path)
    images = Images(inventories_of(run, task) if task.image_root is not None else [])
    sizes: dict[str, tuple[int, int]] = {}
    clean = published if run.protocol.text_cleaning else honest

    @cache
    def rendered(item: Item, instruction: str, side: Side) -> Rendered:
        refs: list[ImageRef] = []
        for image in item.images:
            full = f"{task.image_root}/{image}"
            found = images.get(full)
            if found is None:
                raise MedhebError(
                    path,
                    f"names image {full}, which none of {', '.join(task.sources)} has built",
                    "Build the index again, or the source that should hold the image",
                )
            refs.append(ImageRef(full, found.file.sha256, found.file.content))
            width, height = found.file.facts.get("width"), found.file.facts.get("height")
            if isinstance(width, int) and isinstance(height, int):
                sizes[found.file.sha256] = (width, height)
        shown = replace(item, text=clean(item.text)) if task.family == "text-text" else item
        return adapter.render(shown, instruction, side, tuple(refs))

    return RenderedTask(
        task=task,
        records=records,
        queries=[rendered(record.query, record.qry_inst, "query") for record in records],
        # Candidates carry no instruction, in the paper and in the published code alike.
        candidates=[[rendered(item, "", "candidate") for item in record.candidates] for record in records],
        sizes=sizes,
    )


def distinct_inputs(run: Run, adapter: Adapter, group: str) -> GroupInputs:
    """What a model must embed for all tasks of a group that could be built."""
    found: dict[str, Rendered] = {}
    sizes: dict[str, tuple[int, int]] = {}
    for task in run.tasks_of(group):
        if not read_status(run.layout.task_status(task.index)).ok:
            continue
        rendered = render_task(run, task, adapter)
        for inputs in [rendered.queries, *rendered.candidates]:
            found |= {item.key: item for item in inputs}
        sizes |= rendered.sizes
    return GroupInputs(dict(sorted(found.items())), sizes)


def distinct_parts(adapter: Adapter, inputs: Iterable[Rendered]) -> dict[str, Rendered]:
    """What has to be embedded for these inputs: their parts by key, in key order."""
    found = {part.key: part for rendered in inputs for part in adapter.parts(rendered)}
    return dict(sorted(found.items()))
