"""Which candidates are the same, and which pool each query is ranked against."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from medheb.models.base import Rendered

VOLUME_NAME_SLICES = 3  # the published code names a volume by its first slices only (discrepancy 25)


@dataclass(frozen=True)
class Pools:
    """Distinct candidates of a task and how queries use them.

    ``distinct`` are the candidates in the order of their keys, so that no position in a task file can
    help a model; ``origin`` says in which record and at which position each was first seen;
    ``members`` lists each query's own candidates and ``positives`` its right one, as rows of
    ``distinct``. ``repeated`` counts candidates that occurred more than once within one record.
    """

    distinct: list[Rendered]
    origin: list[tuple[int, int]]
    members: list[list[int]]
    positives: list[int]
    repeated: int


def identity(rendered: Rendered, rule: Literal["content", "name"]) -> str:
    """What makes two candidates one: their content, or the name that the published code gives them."""
    if rule == "content":
        return rendered.key
    if rendered.modality == "volume":
        return "+".join(image.path for image in rendered.images[:VOLUME_NAME_SLICES]) + "..."
    if rendered.modality == "image":
        return f"{'+'.join(image.path for image in rendered.images)}:{rendered.text}"
    return rendered.text


def build_pools(candidates: Sequence[Sequence[Rendered]], rule: Literal["content", "name"]) -> Pools:
    """Find the distinct candidates. Within a record a repeated candidate is ranked once."""
    first_seen: dict[str, tuple[Rendered, tuple[int, int]]] = {}
    for record, items in enumerate(candidates):
        for position, item in enumerate(items):
            first_seen.setdefault(identity(item, rule), (item, (record, position)))
    ordered = sorted(first_seen.items(), key=lambda entry: entry[1][0].key)
    row_of = {name: row for row, (name, _) in enumerate(ordered)}
    members = [sorted({row_of[identity(item, rule)] for item in items}) for items in candidates]
    return Pools(
        distinct=[item for _, (item, _) in ordered],
        origin=[origin for _, (_, origin) in ordered],
        members=members,
        positives=[row_of[identity(items[0], rule)] for items in candidates],
        repeated=sum(len(items) - len(rows) for items, rows in zip(candidates, members, strict=True)),
    )
