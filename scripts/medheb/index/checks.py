"""What every built task must hold, whichever builder made it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from medheb.core.errors import MedhebError
from medheb.index.records import Item, Record

MIN_QUERIES = 10
REMEDY = "Give the task other sources or another builder"


def content_of(item: Item, contents: Mapping[str, str]) -> tuple[str, ...]:
    """What an item says: its text and the pixels of its images; paths without known content stand for themselves."""
    return (item.text, *(contents.get(path, path) for path in item.images))


def check_rows(records: Sequence[Record], pool: str, contents: Mapping[str, str], where: str) -> None:
    """Check size and uniqueness of a task.

    Args:
        records: the task.
        pool: ``local`` or ``global``.
        contents: path below the image root to content digest.
        where: the task JSON.

    Raises:
        MedhebError: fewer than ten queries, candidates of equal content in one row, a local row without a wrong
            candidate, or a global pool with two rows that share their query or their positive.
    """
    if len(records) < MIN_QUERIES:
        raise MedhebError(where, f"would have {len(records)} queries, fewer than {MIN_QUERIES}", REMEDY)
    seen: dict[tuple[str, tuple[str, ...]], int] = {}
    for row, record in enumerate(records):
        candidates = [content_of(item, contents) for item in record.candidates]
        if len(set(candidates)) != len(candidates):
            raise MedhebError(where, f"row {row} holds one candidate twice", REMEDY)
        if pool == "local" and len(candidates) < 2:
            raise MedhebError(where, f"row {row} has no wrong candidate", REMEDY)
        if pool == "global":
            for part in (("query", content_of(record.query, contents)), ("positive", candidates[0])):
                if part in seen:
                    raise MedhebError(where, f"rows {seen[part]} and {row} have one {part[0]}", REMEDY)
                seen[part] = row
