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

    ``distinct`` are the candidates in first-seen order; ``origin`` says in which record and at which
    position each was first seen; ``members`` lists, by query, rows of ``distinct``, positive first.
    ``repeated`` counts candidates that occurred more than once within one record.
    """

    distinct: list[Rendered]
    origin: list[tuple[int, int]]
    members: list[list[int]]
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
    row_of: dict[str, int] = {}
    distinct: list[Rendered] = []
    origin: list[tuple[int, int]] = []
    members: list[list[int]] = []
    repeated = 0
    for record, items in enumerate(candidates):
        rows: dict[int, None] = {}
        for position, item in enumerate(items):
            name = identity(item, rule)
            if name not in row_of:
                row_of[name] = len(distinct)
                distinct.append(item)
                origin.append((record, position))
            rows[row_of[name]] = None
        repeated += len(items) - len(rows)
        members.append(list(rows))
    return Pools(distinct, origin, members, repeated)
