"""Tables of sources that may not be shown: read row by row, and no message repeats a cell or a folder.

A table is text in UTF-8, with or without a byte order mark or gzip, with any line ends, separated by commas,
semicolons or tabs. A row that cannot be used is put aside with its line; the others go on.
"""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from medheb.build.output import Output
from medheb.build.recipe import Unit
from medheb.core.errors import MedhebError

MAX_CELL = 1 << 24
GZIP = b"\x1f\x8b"
DELIMITERS = (",", ";", "\t")
PUBLISHERS_OWN = "Get the publisher's own file"
MEND_ROW = "Mend the row or take it out; the other rows are built"
FAULTY_ROWS = "rows that cannot be used"

Fault = tuple[str, str, str]
"""Where, fault and remedy of a row that was put aside."""


@dataclass(frozen=True)
class Row:
    """A row: ``file, line N`` and its trimmed cells by column."""

    where: str
    cells: dict[str, str]

    def fault(self, what: str, remedy: str = MEND_ROW) -> Fault:
        """This row as one that was put aside."""
        return self.where, what, remedy


@contextmanager
def _text(path: Path, name: str) -> Iterator[io.TextIOWrapper]:
    try:
        with path.open("rb") as file:
            packed = file.peek(2)[:2] == GZIP
            binary = gzip.GzipFile(fileobj=file) if packed else file
            with io.TextIOWrapper(binary, encoding="utf-8-sig", newline="") as text:
                yield text
    except FileNotFoundError as error:
        raise MedhebError(name, "is missing", "Fetch the source again, or verify the copy") from error
    except UnicodeDecodeError as error:
        raise MedhebError(name, "is not UTF-8 text", f"Save it as UTF-8, or g{PUBLISHERS_OWN[1:]}") from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise MedhebError(name, "is a damaged gzip file", "Get it again") from error


def _header(line: Sequence[str], name: str, columns: Sequence[str]) -> list[str]:
    header = [cell.strip() for cell in line]
    missing = [column for column in columns if column not in header]
    if missing:
        raise MedhebError(name, f"has no column {', '.join(missing)}", PUBLISHERS_OWN)
    for column in columns or header:
        if column and header.count(column) > 1:
            raise MedhebError(name, "has a column twice", "Remove one of the two")
    return header


def rows_of(
    path: Path,
    columns: Sequence[str],
    faults: list[Fault],
    optional: Sequence[str] = (),
    quoted: bool = True,
) -> Iterator[Row]:
    """Rows of a table, one at a time; empty lines are left out.

    Args:
        path: the table; messages name it without its folder.
        columns: names that must be there; without any, all columns are kept.
        faults: receives rows that are longer than the header.
        optional: names that are kept where they are there.
        quoted: quotes may enclose cells; False for tables of free text without quoting.

    Raises:
        MedhebError: missing, empty, not UTF-8 text, a column is missing or stands twice, or quotes do not close.
    """
    csv.field_size_limit(MAX_CELL)
    name = path.name
    with _text(path, name) as text:
        first = text.readline()
        delimiter = max(DELIMITERS, key=first.count)
        text.seek(0)
        reader = csv.reader(
            text, delimiter=delimiter, strict=quoted, quoting=csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE
        )
        try:
            line = next(reader, None)
            if line is None or not any(cell.strip() for cell in line):
                raise MedhebError(name, "is empty", PUBLISHERS_OWN)
            header = _header(line, name, columns)
            kept = {*columns, *optional} if columns else set(header)
            places = [(column, place) for place, column in enumerate(header) if column in kept]
            last = reader.line_num
            for cells in reader:
                where, last = f"{name}, line {last + 1}", reader.line_num
                if not any(cell.strip() for cell in cells):
                    continue
                if quoted and any(cell.strip() for cell in cells[len(header) :]):
                    faults.append((where, f"has more cells than the header: {len(cells)}, not {len(header)}", MEND_ROW))
                    continue
                row = {column: cells[place].strip() if place < len(cells) else "" for column, place in places}
                yield Row(where, row)
        except csv.Error as error:
            raise MedhebError(
                f"{name}, line {reader.line_num}", "has quotes that do not close", PUBLISHERS_OWN
            ) from error


def unit_of_faults(faults: Sequence[Fault]) -> list[Unit]:
    """A unit that refuses the rows that were put aside; none if there are none."""
    return [Unit(FAULTY_ROWS, sorted(faults))] if faults else []


def refuse_rows(unit: Unit, out: Output) -> bool:
    """Refuse the rows of :func:`unit_of_faults`; False if ``unit`` is another one."""
    if unit.name != FAULTY_ROWS:
        return False
    for where, fault, remedy in unit.data:
        out.refuse(MedhebError(where, fault, remedy))
    return True
