"""Builders ``report`` and ``report_to_image``: a picture or volume and the text written about it.

The text is a fact of the pictures, or stands in the source's records, joined by a case, a picture or a folder.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from medheb.index.builders.common import (
    Context,
    Pair,
    Part,
    RuleOptions,
    Shown,
    Wrong,
    group_of,
    wrong_texts,
)
from medheb.index.builders.matches import Role
from medheb.index.entries import Entry, Row, Select, distinct
from medheb.index.refusal import RuleError
from medheb.index.text_rules import comparable
from medheb.manifest.base import Strict
from medheb.manifest.rules import LOCAL_TEXTS


class Joined(Strict):
    """Texts in records; of several rows of one item the first counts (visits of a patient, say).

    Args:
        kind: of the files.
        fields: cells whose texts are joined by a blank.
        row: cell that names the item, or a list of such names.
        fact: what it is compared with: a fact, ``path`` or ``folder``.
        leave_out: texts that say nothing.
    """

    kind: str = "reports"
    fields: tuple[str, ...] = ("text",)
    row: str = "case"
    fact: str = "case"
    leave_out: tuple[str, ...] = ()


class ReportOptions(RuleOptions):
    """Settings of builders over reports.

    Args:
        items: pictures or volumes.
        text: fact that holds the report, if it is one.
        joined: where the report stands, if it is no fact.
        queries_from: sources of the queries; wrong texts come from all.
        training: kind of records that name pictures with their texts, if those of the training part stay in place and
            are not built.
        apart: fact in which wrong texts' items differ from the query's where any does.
        candidates: of a local pool.
    """

    items: Select
    text: str | None = None
    joined: Joined | None = None
    queries_from: Role = "all"
    training: str | None = None
    apart: str = "group"
    candidates: int = LOCAL_TEXTS


def _text(row: Row, joined: Joined) -> str:
    parts = (str(row.cells.get(name) or "").strip() for name in joined.fields)
    return " ".join(part for part in parts if part and part not in joined.leave_out)


def _texts(context: Context[ReportOptions], role: Role) -> dict[tuple[str, str], str]:
    """Text by source and name of the item.

    Raises:
        MedhebError: no source has records of the kind.
    """
    joined, found, rows = context.options.joined, dict[tuple[str, str], str](), 0
    if joined is None:
        raise RuleError(context.where, "has a rule without text and without joined", "Set one of the two")
    for source in context.sources.of(role):
        for row in source.rows(joined.kind):
            rows += 1
            names = row.cells.get(joined.row)
            text = _text(row, joined)
            for name in names if isinstance(names, list) else [names]:
                if name is not None and text:
                    found.setdefault((source.dataset, str(name)), text)
    if not rows:
        names = ", ".join(source.dataset for source in context.sources.of(role))
        raise RuleError(
            context.where,
            f"finds no records of kind '{joined.kind}' in {names}",
            "Fetch the source's tables of texts too and build it again",
        )
    return found


def with_reports(context: Context[ReportOptions], role: Role = "all") -> list[tuple[Entry, str]]:
    """Items that have a text, in name order."""
    options = context.options
    found = context.entries(options.items, role)
    if options.text is not None:
        pairs = [(entry, entry.known(options.text) or "") for entry in found]
    else:
        texts = _texts(context, role)
        fact = options.joined.fact if options.joined else ""
        pairs = [(entry, texts.get((entry.dataset, entry.known(fact) or ""), "")) for entry in found]
    kept = [(entry, text) for entry, text in pairs if text.strip()]
    context.left_out(len(found) - len(kept), "items without a text")
    if found and not kept:
        raise RuleError(context.where, "finds no item with a text", "Check options.joined of its rule")
    return kept


def _listed(context: Context[ReportOptions]) -> Iterator[tuple[Entry, str]]:
    """Pictures of the training part that stay in place, with their texts."""
    options = context.options
    for source in context.sources.of(options.queries_from) if options.training and options.joined else ():
        for entry, row in source.listed(options.training or ""):
            text = _text(row, options.joined or Joined())
            if text:
                yield entry, text


def _pairs(context: Context[ReportOptions], part: Part) -> Iterator[tuple[Entry, str]]:
    if part == "train":
        yield from _listed(context)
    texts = {entry.name: (entry, text) for entry, text in with_reports(context, context.options.queries_from)}
    for entry in distinct(context.of_part((entry for entry, _ in texts.values()), part)):
        yield texts[entry.name]


def report_pairs(context: Context[ReportOptions], part: Part) -> Iterator[Pair]:
    """The text of a picture or volume. Items that share their text give one row in a test."""
    seen: set[str] = set()
    for entry, text in _pairs(context, part):
        if part == "test" and comparable(text) in seen:
            continue
        seen.add(comparable(text))
        kind = entry.known(context.options.apart) or ""
        yield Pair(entry.name, Shown(context.task.qry_text, entry), Shown(text), (group_of(entry),), kind)


def report_wrong(context: Context[ReportOptions], _: Sequence[Pair], __: Sequence[Pair]) -> Wrong:
    """Texts of other groups (persons, cases) if there are any: those of one group may read nearly the same."""
    options = context.options
    by_group: dict[str, set[str]] = defaultdict(set)
    texts = {entry.name: (entry, text) for entry, text in with_reports(context)}
    for entry in context.of_part((entry for entry, _ in texts.values()), "test"):
        by_group[entry.known(options.apart) or ""].add(texts[entry.name][1])
    every = sorted({text for texts in by_group.values() for text in texts})

    def wrong(pair: Pair) -> list[Shown]:
        own = by_group.get(pair.kind, set())
        never = own if len(by_group) > 1 else set()
        return [Shown(text) for text in wrong_texts(context, every, pair, options.candidates - 1, never)]

    return wrong


def image_of_report_pairs(context: Context[ReportOptions], part: Part) -> Iterator[Pair]:
    """The picture or volume that a text was written about. Of several items of one text, the first is taken."""
    seen: set[str] = set()
    for entry, text in _pairs(context, part):
        if part == "test" and comparable(text) in seen:
            continue
        seen.add(comparable(text))
        yield Pair(
            entry.name, Shown(text), Shown("", entry), (group_of(entry),), entry.known(context.options.apart) or ""
        )


def image_of_report_wrong(context: Context[ReportOptions], pairs: Sequence[Pair], __: Sequence[Pair]) -> Wrong:
    """Items of other groups and other texts."""
    ordered = sorted(pairs, key=lambda pair: pair.name)

    def wrong(pair: Pair) -> list[Shown]:
        chosen: list[Shown] = []
        for other in context.draw.pick(ordered, pair.name):
            if len(chosen) == context.options.candidates - 1:
                break
            if other.kind != pair.kind and other.target.key != pair.target.key:
                chosen.append(other.target)
        return chosen

    return wrong
