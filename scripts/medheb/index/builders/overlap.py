"""Builder ``shared_labels``: pictures of one source against pictures of another that share labels (paper 5.5).

Right is not one candidate: the evaluation weighs all of them by the overlap of their labels (``graded.yaml``). So
a row needs one candidate that shares a label, which stands first, and takes the others whatever their labels are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from medheb.core.errors import MedhebError
from medheb.index.builders.common import Context, Pair, Part, RuleOptions, Shown, Wrong, group_of
from medheb.index.entries import Entry, Select, distinct
from medheb.manifest.rules import LOCAL_IMAGES

SEVERAL = " | "


class OverlapOptions(RuleOptions):
    """Settings of ``shared_labels``.

    Args:
        items: pictures of either side; queries come from all sources but the last, candidates from the last.
        label: fact that holds the labels.
        candidates: of a pool.
    """

    items: Select
    label: str = "findings"
    candidates: int = LOCAL_IMAGES


def _labelled(context: Context[OverlapOptions], role: str, part: Part) -> list[Entry]:
    """Items with labels, each content once.

    Raises:
        MedhebError: none has any.
    """
    options = context.options
    found = distinct(context.of_part(context.entries(options.items, role), part))
    kept = [entry for entry in found if entry.known(options.label)]
    if found and not kept:
        names = " and ".join(source.dataset for source in context.sources.of(role))
        raise MedhebError(
            context.where,
            f"finds no picture of {names} with the fact '{options.label}'",
            f"Build {names} from a copy that has its table of labels",
        )
    context.left_out(len(found) - len(kept), f"pictures without {options.label}")
    return kept


def _labels(context: Context[OverlapOptions], entry: Entry) -> frozenset[str]:
    return frozenset(entry.fact(context.options.label).split(SEVERAL))


def overlap_pairs(context: Context[OverlapOptions], part: Part) -> Iterator[Pair]:
    """A query, and a drawn candidate that shares a label with it.

    Raises:
        MedhebError: one source, or a global pool.
    """
    context.needs_pool("local")
    if len(context.sources.all) < 2:
        raise MedhebError(context.where, "has one source", "Name at least two: queries, then candidates")
    targets = [(entry, _labels(context, entry)) for entry in _labelled(context, "last", part)]
    missing = 0
    for query in _labelled(context, "first", part):
        asked = _labels(context, query)
        drawn = context.draw.pick(targets, f"{query.name}|positive")
        right = next((entry for entry, labels in drawn if asked & labels), None)
        if right is None:
            missing += 1
            continue
        groups = (group_of(query), group_of(right))
        yield Pair(query.name, Shown(context.task.qry_text, query), Shown("", right), groups)
    context.left_out(missing, "queries that share no label with any candidate")


def overlap_wrong(context: Context[OverlapOptions], _: Sequence[Pair], __: Sequence[Pair]) -> Wrong:
    """Drawn candidates, whatever they share with the query."""
    ordered = _labelled(context, "last", "test")

    def wrong(pair: Pair) -> list[Shown]:
        taken = {shown.entry.content for shown in (pair.query, pair.target) if shown.entry is not None}
        chosen: list[Shown] = []
        for entry in context.draw.pick(ordered, pair.name):
            if len(chosen) == context.options.candidates - 1:
                break
            if entry.content not in taken:
                taken.add(entry.content)
                chosen.append(Shown("", entry))
        return chosen

    return wrong


def pool(context: Context[OverlapOptions]) -> list[Entry]:
    """Candidates of the test."""
    return _labelled(context, "last", "test")
