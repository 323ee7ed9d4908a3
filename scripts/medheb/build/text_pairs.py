"""What the recipes of text sources share: rows of ``records.jsonl``, and which of them say the same.

Each row has ``id``, ``query``, ``target`` and ``group`` (rows of one group are too alike to be each other's wrong
answers), and what else its source knows. Rows for training go to ``train.jsonl`` under another kind, so that no task
draws from them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from medheb.build.output import Output
from medheb.build.tables import read_text
from medheb.core.errors import MedhebError
from medheb.core.json_text import parse_json

RECORDS, TRAINING = "records.jsonl", "train.jsonl"
Row = dict[str, Any]


def plain(text: str) -> str:
    """A text for comparison: case and white space do not count."""
    return " ".join(text.casefold().split())


def rows_of_json(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Objects of a file of JSON lines, or of one JSON list, each with where it stands.

    Raises:
        MedhebError: missing, not UTF-8, not JSON, or something else than objects.
    """
    text = read_text(path)
    whole = text.lstrip().startswith("[")
    # Not splitlines(): texts may hold other line separators (U+2028).
    pieces = [text] if whole else [line for line in text.split("\n") if line.strip()]
    for number, piece in enumerate(pieces, start=1):
        try:
            found = parse_json(piece)
        except ValueError as error:
            raise MedhebError(f"{path}, line {number}", f"is not JSON ({error})", "Get an undamaged copy") from error
        for place, row in enumerate(found if whole else [found], start=1):
            where = f"{path}, entry {place}" if whole else f"{path}, line {number}"
            if not isinstance(row, Mapping):
                raise MedhebError(where, "is not a JSON object", "Get the publisher's own file")
            yield where, row


def text_of(row: Mapping[str, Any], names: Sequence[str], where: str) -> str:
    """The first of several fields that a row has, trimmed.

    Raises:
        MedhebError: none is there, or it holds no text.
    """
    value = next((row[name] for name in names if row.get(name) is not None), None)
    if not isinstance(value, str) or not value.strip():
        raise MedhebError(where, f"has no {names[0]}", "Nothing to do: the other rows are used")
    return value.strip()


def group_alike(rows: Sequence[Row]) -> None:
    """Give rows that share their query or their target, directly or through others, the id of the first as group."""
    first: dict[tuple[str, str], int] = {}
    parent = list(range(len(rows)))

    def top(place: int) -> int:
        while parent[place] != place:
            parent[place] = parent[parent[place]]
            place = parent[place]
        return place

    for place, row in enumerate(rows):
        for side in ("query", "target"):
            other = top(first.setdefault((side, plain(row[side])), place))
            one = top(place)
            parent[max(one, other)] = min(one, other)
    for place, row in enumerate(rows):
        row["group"] = rows[top(place)]["id"]


def write_pairs(out: Output, rows: Sequence[Row], name: str = RECORDS, language: str = "en") -> None:
    """Write rows and note how many texts occur again, which a task of one right answer must not draw.

    Raises:
        MedhebError: no rows, or two of one id.
    """
    if not rows:
        raise MedhebError(name, "would hold no row", "Check the source; every row was refused")
    twice = [key for key, count in Counter(str(row["id"]) for row in rows).items() if count > 1]
    if twice:
        raise MedhebError(f"{name}: row {twice[0]}", "occurs twice", "Get the publisher's own file")
    out.records(name, rows, kind="records" if name == RECORDS else "training", language=language)
    for side in ("query", "target"):
        again = len(rows) - len({plain(row[side]) for row in rows})
        if again:
            out.note(f"{name}: rows that repeat the {side} of another: {again} of {len(rows)}")


def collected(
    rows: Iterable[tuple[str, Mapping[str, Any]]], make: Callable[[str, Mapping[str, Any]], Row], out: Output
) -> list[Row]:
    """``make(where, row)`` of every row; one that it refuses is left out and listed."""
    made = []
    for where, row in rows:
        try:
            made.append(make(where, row))
        except MedhebError as error:
            out.refuse(error)
    return made
