"""Builders whose candidates are longer texts: ``report`` and ``text_pairs``."""

from __future__ import annotations

from medheb.index.builders.common import LOCAL_TEXTS, MAX_ROWS, first_of_each, log_left_out, query_fields, record
from medheb.index.draw import Draw
from medheb.index.entries import Sources, TextRow, pictures
from medheb.index.records import Record
from medheb.manifest.task import Task


def report(task: Task, sources: Sources, draw: Draw) -> list[Record]:
    """The findings line of a slice, among lines of other slices. Queries: all sources but the last.

    Local: at most 30 candidates, the wrong ones from other persons (of any source) if there are any, as neighbouring
    slices of one person read nearly the same. Slices that share their line or their pixels give one row.
    """
    found = pictures(sources.first, "slice")
    slices = first_of_each(first_of_each(found, lambda entry: entry.content), lambda entry: entry.fact("text"))
    log_left_out(task, len(found) - len(slices), "slices that share their findings line or pixels")
    everyone = pictures(sources.all, "slice")
    records = []
    for entry in slices:
        right = entry.fact("text")
        others: list[str] = []
        if task.pool == "local":
            strangers = [other for other in everyone if other.fact("subject") != entry.fact("subject")]
            lines = {other.fact("text") for other in strangers or everyone} - {right}
            others = draw.sample(sorted(lines), LOCAL_TEXTS - 1, entry.paths[0], str)
        fields = query_fields(entry, task.form)
        records.append(record(task, qry_text=task.qry_text, tgt_text=(right, *others), **fields))
    return records


def text_pairs(task: Task, sources: Sources, draw: Draw) -> list[Record]:
    """The text that belongs to a text: at most 300 drawn rows of all sources.

    Rows whose query or target occurs more than once (white space and case aside) are never drawn, so that there is
    one right answer. Local: 30 candidates, the others from rows of other groups; global: only the positive.
    """
    found = [row for source in sources.all for row in source.text_rows()]
    rows = _unambiguous(found)
    log_left_out(task, len(found) - len(rows), "ambiguous rows before the draw")
    drawn = draw.sample(rows, MAX_ROWS, "rows", lambda row: row.id)
    records = []
    for row in sorted(drawn, key=lambda row: row.id):
        others: list[str] = []
        if task.pool == "local":
            wrong = [other for other in rows if other.group != row.group]
            chosen = draw.sample(wrong, LOCAL_TEXTS - 1, row.id, lambda other: other.id)
            others = [other.target for other in chosen]
        records.append(record(task, qry_text=row.query, tgt_text=(row.target, *others)))
    return records


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


def _unambiguous(rows: list[TextRow]) -> list[TextRow]:
    queries: dict[str, int] = {}
    targets: dict[str, int] = {}
    for row in rows:
        queries[_plain(row.query)] = queries.get(_plain(row.query), 0) + 1
        targets[_plain(row.target)] = targets.get(_plain(row.target), 0) + 1
    return [
        row
        for row in rows
        if queries[_plain(row.query)] == 1
        and targets[_plain(row.target)] == 1
        and _plain(row.query) != _plain(row.target)
    ]
