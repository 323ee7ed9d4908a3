"""Builders whose candidates show organs: ``same_label_image``, ``text_to_image`` and ``region``."""

from __future__ import annotations

from collections.abc import Sequence

from medheb.core.errors import MedhebError
from medheb.index.builders.common import (
    confusable,
    draw_negatives,
    first_of_each,
    image_targets,
    log_left_out,
    query_fields,
    record,
)
from medheb.index.draw import Draw
from medheb.index.entries import Entry, Sources, organ_entries, pictures
from medheb.index.records import Record
from medheb.manifest.task import Task


def _need_pool(task: Task, wanted: str) -> None:
    if task.pool != wanted:
        raise MedhebError(
            f"task {task.task}", f"key 'pool' is '{task.pool}'", f"Allowed with builder {task.builder}: {wanted}"
        )


def same_label_image(task: Task, sources: Sources, draw: Draw) -> list[Record]:
    """An image of the same organ in another person. Queries: all sources but the last; candidates: the last.

    Right is the same group (either kidney, any rib), with the same side and level where the other person has it;
    wrong are other groups. Queries whose group the other person lacks are left out.

    Raises:
        MedhebError: one source only, or a global pool, where other images of the group would count as wrong.
    """
    _need_pool(task, "local")
    if len(sources.all) < 2:
        raise MedhebError(f"task {task.task}", "has one source", "Name at least two: queries, then candidates")
    candidates = organ_entries([sources.last], task.form)
    queries = organ_entries(sources.first, task.form)
    records = []
    for query in queries:
        group = query.fact("group")
        same = [entry for entry in candidates if entry.fact("group") == group and entry.content != query.content]
        exact = [entry for entry in same if entry.fact("label") == query.fact("label")]
        if not same:
            continue
        row = query.paths[0]
        positive = draw.one(exact or same, f"{row}|positive", lambda entry: entry.paths[0])
        wrong = [entry for entry in candidates if entry.fact("group") != group]
        others = draw_negatives(draw, wrong, positive, row, "group")
        fields = {**query_fields(query, task.form), **image_targets([positive, *others], task.form)}
        records.append(record(task, qry_text=task.qry_text, **fields))
    log_left_out(task, len(queries) - len(records), "queries whose organ the other person lacks")
    return records


def text_to_image(task: Task, sources: Sources, draw: Draw) -> list[Record]:
    """An image of the named organ. Every source gives candidates.

    Local: each image is one row's positive, among images of other labels. Global: one row and one image a label,
    the middle one in path order, since other images of a label would count as wrong.
    """
    entries = organ_entries(sources.all, task.form)
    records = []
    if task.pool == "global":
        by_label: dict[str, list[Entry]] = {}
        for entry in entries:
            by_label.setdefault(entry.fact("label"), []).append(entry)
        middle = [members[len(members) // 2] for _, members in sorted(by_label.items())]
        for entry in _without_confusable(first_of_each(middle, lambda entry: entry.content)):
            records.append(record(task, qry_text=entry.fact("label"), **image_targets([entry], task.form)))
        return records
    for entry in entries:
        name, group = entry.fact("label"), entry.fact("group")
        wrong = [other for other in entries if not confusable(name, group, other.fact("label"), other.fact("group"))]
        others = draw_negatives(draw, wrong, entry, entry.paths[0], "label")
        records.append(record(task, qry_text=name, **image_targets([entry, *others], task.form)))
    return records


def _without_confusable(entries: Sequence[Entry]) -> list[Entry]:
    """Leave out bare groups ("vertebrae") where a member ("T12 vertebra") is in the pool too."""
    specific = {entry.fact("group") for entry in entries if entry.fact("label") != entry.fact("group")}
    return [
        entry for entry in entries if entry.fact("label") != entry.fact("group") or entry.fact("group") not in specific
    ]


def region(task: Task, sources: Sources, draw: Draw) -> list[Record]:
    """A whole slice and the name of an organ in it; the crop of that organ is to be found among all crops.

    Every source gives queries and candidates. Crops whose slice was not written, and repeated crops, give no row.

    Raises:
        MedhebError: a local pool.
    """
    _need_pool(task, "global")
    slices = {(entry.fact("subject"), entry.fact("slice")): entry for entry in pictures(sources.all, "slice")}
    found = organ_entries(sources.all, "2d")
    crops = first_of_each(found, lambda entry: entry.content)
    records = []
    for crop in crops:
        whole = slices.get((crop.fact("subject"), crop.fact("slice")))
        if whole is not None:
            fields = {**query_fields(whole, task.form), **image_targets([crop], task.form)}
            records.append(record(task, qry_text=crop.fact("label"), **fields))
    log_left_out(task, len(found) - len(records), "crops that repeat another or whose slice was not written")
    return records
