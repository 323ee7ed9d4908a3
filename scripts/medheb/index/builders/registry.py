"""Builder names of tasks.tsv, and what they call."""

from __future__ import annotations

from collections.abc import Callable

from medheb.core.errors import MedhebError
from medheb.index.builders.labels import label, question
from medheb.index.builders.matches import matched_level, xray_to_volume
from medheb.index.builders.organs import region, same_label_image, text_to_image
from medheb.index.builders.texts import report, text_pairs
from medheb.index.draw import Draw
from medheb.index.entries import Sources
from medheb.index.records import Record
from medheb.manifest.task import Task

Builder = Callable[[Task, Sources, Draw], list[Record]]
BUILDERS: dict[str, Builder] = {
    builder.__name__: builder
    for builder in (
        label,
        matched_level,
        question,
        region,
        report,
        same_label_image,
        text_pairs,
        text_to_image,
        xray_to_volume,
    )
}


def builder_of(task: Task) -> Builder:
    """The builder that a task's row names.

    Raises:
        MedhebError: no such builder.
    """
    builder = BUILDERS.get(task.builder)
    if builder is None:
        raise MedhebError(
            f"task {task.task}", f"key 'builder' is '{task.builder}'", f"Allowed: {', '.join(sorted(BUILDERS))}"
        )
    return builder
