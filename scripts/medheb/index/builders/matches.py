"""Builder ``matched``: two items that belong together by a case, study or level that the build noted.

The key decides the pair and is never shown to a model.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from medheb.core.errors import MedhebError
from medheb.index.builders.common import (
    Context,
    Pair,
    Part,
    RuleOptions,
    Shown,
    Wrong,
    group_of,
)
from medheb.index.entries import Entry, Select, distinct
from medheb.manifest.rules import LOCAL_IMAGES

Role = Literal["all", "first", "last"]


class MatchOptions(RuleOptions):
    """Settings of ``matched``.

    Args:
        query: asked items.
        target: candidates.
        key: fact that both share.
        queries_from: sources of the queries.
        targets_from: sources of the candidates.
        candidates: of a local pool.
    """

    query: Select
    target: Select
    key: str
    queries_from: Role = "all"
    targets_from: Role = "all"
    candidates: int = LOCAL_IMAGES


def _by_key(context: Context[MatchOptions], part: Part) -> dict[str, Entry]:
    options = context.options
    found: dict[str, Entry] = {}
    for entry in distinct(context.of_part(context.entries(options.target, options.targets_from), part)):
        if found.setdefault(entry.fact(options.key), entry) is not entry:
            raise MedhebError(
                context.where,
                f"has two candidates with {options.key} {entry.fact(options.key)}",
                "Choose another builder, or narrow options.target",
            )
    return found


def match_pairs(context: Context[MatchOptions], part: Part) -> Iterator[Pair]:
    """One pair for every query whose key a candidate shares."""
    options = context.options
    targets = _by_key(context, part)
    queries = distinct(context.of_part(context.entries(options.query, options.queries_from), part))
    missing = 0
    for query in queries:
        target = targets.get(query.fact(options.key))
        if target is None or target.content == query.content:
            missing += 1
            continue
        groups = tuple(dict.fromkeys((group_of(query), group_of(target))))
        yield Pair(query.name, Shown(context.task.qry_text, query), Shown("", target), groups, query.fact(options.key))
    context.left_out(missing, f"queries without a candidate of their {options.key}")


def match_wrong(context: Context[MatchOptions], _: Sequence[Pair], __: Sequence[Pair]) -> Wrong:
    """Drawn candidates of other keys."""
    ordered = sorted(_by_key(context, "test").items())

    def wrong(pair: Pair) -> list[Shown]:
        taken = {shown.entry.content for shown in (pair.query, pair.target) if shown.entry is not None}
        chosen: list[Shown] = []
        for key, entry in context.draw.pick(ordered, pair.name):
            if len(chosen) == context.options.candidates - 1:
                break
            if key != pair.kind and entry.content not in taken:
                taken.add(entry.content)
                chosen.append(Shown("", entry))
        return chosen

    return wrong


def pool(context: Context[MatchOptions]) -> list[Entry]:
    """Candidates of the test."""
    return [*_by_key(context, "test").values()]
