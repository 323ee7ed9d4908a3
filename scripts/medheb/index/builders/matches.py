"""Builders whose pairs belong together by level or case: ``matched_level`` and ``xray_to_volume``."""

from __future__ import annotations

from collections.abc import Sequence

from medheb.core.errors import MedhebError
from medheb.index.builders.common import LOCAL_IMAGES, first_of_each, image_targets, query_fields, record
from medheb.index.draw import Draw
from medheb.index.entries import Entry, Sources, pictures
from medheb.index.records import Record
from medheb.manifest.task import Task


def _pair(task: Task, draw: Draw, queries: Sequence[Entry], candidates: Sequence[Entry], key: str) -> list[Record]:
    """One row per query whose ``key`` a candidate shares; negatives (local pools) have other keys."""
    by_key: dict[str, Entry] = {}
    for entry in first_of_each(candidates, lambda entry: entry.content):
        if entry.fact(key) in by_key:
            raise MedhebError(
                f"task {task.task}", f"has two candidates with {key} {entry.fact(key)}", "Choose another builder"
            )
        by_key[entry.fact(key)] = entry
    records = []
    for query in first_of_each(queries, lambda entry: entry.content):
        positive = by_key.get(query.fact(key))
        if positive is None:
            continue
        others: list[Entry] = []
        if task.pool == "local":
            wrong = [entry for entry in by_key.values() if entry is not positive]
            others = draw.sample(wrong, LOCAL_IMAGES - 1, query.paths[0], lambda entry: entry.paths[0])
        fields = {**query_fields(query, "3d"), **image_targets([positive, *others], "3d")}
        records.append(record(task, qry_text=task.qry_text, **fields))
    return records


def matched_level(task: Task, sources: Sources, draw: Draw) -> list[Record]:
    """The slab of the last source at the level of a slab of the others, such as T1 -> CT."""
    queries = [entry for source in sources.first for entry in source.volumes("slab")]
    return _pair(task, draw, queries, sources.last.volumes("slab"), "level")


def xray_to_volume(task: Task, sources: Sources, draw: Draw) -> list[Record]:
    """The CT slab that a radiograph was projected from. Every source gives queries and candidates."""
    slabs = [entry for source in sources.all for entry in source.volumes("slab")]
    return _pair(task, draw, pictures(sources.all, "xray"), slabs, "case")
