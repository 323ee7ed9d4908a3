"""Tables and JSON files as publishers really ship them: byte order marks, any line ends, semicolons, blanks.

Rows come back with the number they have in the file, so that a refusal can name them. No message repeats a cell: a
fault of a whole table is shown for sources, too, whose terms forbid to show their data.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medheb.build.closed_tables import Fault
from medheb.core.errors import MedhebError
from medheb.core.json_text import parse_json

MAX_TABLE_BYTES = 1 << 30
DELIMITERS = (",", ";", "\t")
GET_AGAIN = "Fetch the source again; if the file stays so, report it to the publisher"


@dataclass(frozen=True)
class Row:
    """A row of a table: where it stands (``file, line N``) and its cells by column, all trimmed."""

    where: str
    cells: dict[str, str]


def read_text(path: Path) -> str:
    """A text file in UTF-8, with or without a byte order mark; line ends become LF.

    Raises:
        MedhebError: missing, unreadable, too large, empty, or another encoding.
    """
    try:
        if path.stat().st_size > MAX_TABLE_BYTES:
            raise MedhebError(path, "is larger than 1 GiB, too much for a table", "Check the file")
        content = path.read_bytes()
    except FileNotFoundError as error:
        raise MedhebError(path, "is missing", GET_AGAIN) from error
    except OSError as error:
        raise MedhebError(path, f"cannot be read ({error.strerror})", "Mend the permissions or the disk") from error
    if not content.strip():
        raise MedhebError(path, "is empty", GET_AGAIN)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        fault = f"is not UTF-8 text (byte {error.start})"
        raise MedhebError(path, fault, "Save it as UTF-8, or get the publisher's own file") from error
    return text.replace("\r\n", "\n").replace("\r", "\n")


def delimiter_of(header: str) -> str:
    """The delimiter that a header line uses most; a comma if it uses none."""
    return max(DELIMITERS, key=header.count)


def read_table(path: Path, columns: Sequence[str] = (), faults: list[Fault] | None = None) -> list[Row]:
    """Rows of a table with a header, cells and column names trimmed; empty lines are left out.

    Args:
        path: separated by commas, semicolons or tabs.
        columns: names that must be there.
        faults: receives rows that are longer than the header; without it they are an error.

    Raises:
        MedhebError: see :func:`read_text`; a column is missing or named twice; a row is longer than the header.
    """
    text = read_text(path)
    header_line = text.split("\n", 1)[0]
    reader = csv.reader(io.StringIO(text), delimiter=delimiter_of(header_line), strict=True)
    try:
        header = [name.strip() for name in next(reader)]
        _check_header(path, header, columns)
        rows = []
        for cells in reader:
            where = f"{path}, line {reader.line_num}"
            trimmed = [cell.strip() for cell in cells]
            if not any(trimmed):
                continue
            if any(trimmed[len(header) :]):
                fault = (where, f"has more cells than the header: {len(cells)}, not {len(header)}", "Mend the line")
                if faults is None:
                    raise MedhebError(*fault)
                faults.append(fault)
                continue
            trimmed += [""] * (len(header) - len(trimmed))
            rows.append(Row(where, dict(zip(header, trimmed, strict=False))))
    except csv.Error as error:
        raise MedhebError(path, f"is no table ({error})", GET_AGAIN) from error
    return rows


def _check_header(path: Path, header: Sequence[str], columns: Sequence[str]) -> None:
    missing = [name for name in columns if name not in header]
    if missing:
        # What it has instead is not said: without a header it would be a row of data.
        raise MedhebError(path, f"has no column {', '.join(missing)}", "Get the publisher's own file")
    twice = sorted(place for place, name in enumerate(header, start=1) if name and name in header[: place - 1])
    if twice:
        raise MedhebError(path, f"has the name of column {twice[0]} twice", "Remove one of the two columns")


def _unique_pairs(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError("a key stands twice")
        found[key] = value
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON value")


def read_json_file(path: Path) -> Any:
    """Content of a JSON file, with or without a byte order mark.

    Raises:
        MedhebError: see :func:`read_text`; JSON lines under a name that ends in .json; a repeated key, NaN, or no JSON.
    """
    text = read_text(path)
    try:
        return parse_json(text, object_pairs_hook=_unique_pairs, parse_constant=_no_constant)
    except ValueError as error:
        if _is_json_lines(text):
            fault = "holds one JSON value a line, though its name ends in .json"
            raise MedhebError(path, fault, "Get the publisher's own file, or join the lines to one list") from error
        raise MedhebError(path, f"is not JSON ({str(error)[:120]})", GET_AGAIN) from error


def _is_json_lines(text: str) -> bool:
    lines = [line for line in text.split("\n") if line.strip()]
    if len(lines) < 2:
        return False
    try:
        return all(isinstance(parse_json(line), (dict, list)) for line in lines[:2])
    except ValueError:
        return False
