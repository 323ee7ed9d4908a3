"""Parts that several builders share."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from medheb.core.errors import MedhebError
from medheb.index.draw import Draw
from medheb.index.entries import Entry
from medheb.index.records import Record
from medheb.manifest.task import Task

T = TypeVar("T")
log = logging.getLogger("medheb.index")
LOCAL_IMAGES = 10
LOCAL_TEXTS = 30
MAX_ROWS = 300


def query_fields(entry: Entry, form: str) -> dict[str, object]:
    """Query part of a record: one path for an image, the slices and ``video`` for a volume."""
    if len(entry.paths) == 1 and form != "3d":
        return {"qry_img_path": entry.paths[0]}
    return {"qry_img_path": entry.paths, "qry_modality": "image" if len(entry.paths) == 1 else "video"}


def image_targets(entries: Sequence[Entry], form: str) -> dict[str, object]:
    """Candidate part of a record whose candidates are images or volumes, positive first."""
    texts = tuple("" for _ in entries)
    if form == "3d":
        return {"tgt_text": texts, "tgt_img_path": tuple(entry.paths for entry in entries), "tgt_modality": "video"}
    return {"tgt_text": texts, "tgt_img_path": tuple(entry.paths[0] for entry in entries)}


def record(task: Task, **fields: object) -> Record:
    """A record with the task's instruction."""
    return Record.model_validate({"qry_inst": task.qry_inst, **fields})


def first_of_each(items: Iterable[T], key: Callable[[T], str]) -> list[T]:
    """The first item of each key, in order."""
    kept: dict[str, T] = {}
    for item in items:
        kept.setdefault(key(item), item)
    return list(kept.values())


def log_left_out(task: Task, count: int, why: str) -> None:
    """Say how many possible rows a builder left out."""
    if count:
        log.info("index %s: left out %d %s", task.task, count, why)


def confusable(label: str, group: str, other_label: str, other_group: str) -> bool:
    """True if one label is right wherever the other is: equal, or one is the other's bare group.

    "left kidney" and "right kidney" are different answers; "vertebrae" and "T12 vertebra" are not.
    """
    return label == other_label or (group == other_group and (label == group or other_label == other_group))


def draw_negatives(draw: Draw, wrong: Sequence[Entry], positive: Entry, row: str, fact: str) -> list[Entry]:
    """Wrong candidates of other content than the positive and than each other, at most one per value of ``fact``.

    Raises:
        MedhebError: not one entry is left.
    """
    classes: dict[str, list[Entry]] = {}
    for entry in wrong:
        if entry.content != positive.content:
            classes.setdefault(entry.fact(fact), []).append(entry)
    # One picture a class, so that classes with many pictures do not fill the pool.
    one_each = [draw.one(members, f"{row}|{name}", _path) for name, members in classes.items()]
    chosen = draw.sample(one_each, len(one_each), row, _path)
    distinct = first_of_each(chosen, lambda entry: entry.content)[: LOCAL_IMAGES - 1]
    if not distinct:
        raise MedhebError(f"task {draw.task}", f"finds no wrong candidate for {row}", "Give a source with more labels")
    return distinct


def _path(entry: Entry) -> str:
    return entry.paths[0]
