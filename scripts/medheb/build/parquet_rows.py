"""Rows of parquet files, read a few at a time, and the pictures in their cells.

A cell holds a picture as the hubs store it: a dictionary of ``bytes`` and ``path``, the bytes alone, or only a path
of a file beside the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from medheb.core.errors import MedhebError
from medheb.manifest.base import check_relative

BATCH_ROWS = 16
# Without a buffer and with read-ahead, pyarrow holds whole columns of a row group; so it holds a page or two of each.
BUFFER_BYTES = 1 << 20
GET_AGAIN = "Fetch the source again; if the file stays so, report it to the publisher"


@dataclass(frozen=True)
class RowBlock:
    """A row group of a file: the smallest part that is read without the rest.

    Args:
        path: the file.
        group: number of the row group.
        first: number of its first row in the file, from 0.
        rows: how many.
    """

    path: Path
    group: int
    first: int
    rows: int


@dataclass(frozen=True)
class Table:
    """What a parquet file says of itself."""

    path: Path
    columns: frozenset[str]
    blocks: tuple[RowBlock, ...]

    @property
    def rows(self) -> int:
        """Rows of the whole file."""
        return sum(block.rows for block in self.blocks)


def open_table(path: Path) -> Table:
    """Read the footer of a parquet file.

    Raises:
        MedhebError: missing, unreadable, or not a parquet file.
    """
    try:
        with pq.ParquetFile(path) as file:
            columns = frozenset(file.schema_arrow.names)
            counts = [file.metadata.row_group(number).num_rows for number in range(file.num_row_groups)]
    except FileNotFoundError as error:
        raise MedhebError(path, "is missing", "Fetch the source again") from error
    except (OSError, pa.ArrowException) as error:
        raise MedhebError(path, f"is not a parquet file ({_first_line(error)})", GET_AGAIN) from error
    blocks, first = [], 0
    for number, count in enumerate(counts):
        blocks.append(RowBlock(path, number, first, count))
        first += count
    return Table(path, columns, tuple(blocks))


def read_rows(block: RowBlock, columns: Sequence[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Rows of a block with their number in the file, a small batch in memory at a time.

    Args:
        block: which part.
        columns: names that are there.

    Raises:
        MedhebError: the file breaks while it is read.
    """
    row = block.first
    try:
        with pq.ParquetFile(block.path, buffer_size=BUFFER_BYTES, pre_buffer=False) as file:
            for batch in file.iter_batches(BATCH_ROWS, row_groups=[block.group], columns=list(columns)):
                for cells in batch.to_pylist():
                    yield row, cells
                    row += 1
    except (OSError, pa.ArrowException) as error:
        raise MedhebError(f"{block.path}, row {row}", f"cannot be read ({_first_line(error)})", GET_AGAIN) from error


def picture_bytes(cell: object, where: str, folders: Sequence[Path]) -> bytes:
    """The file content of a picture cell.

    Args:
        cell: dictionary of ``bytes`` and ``path``, bytes, or a path.
        where: file and row, for the message.
        folders: where a path may start, tried in order.

    Raises:
        MedhebError: the cell is empty or of another kind, or its file is not there.
    """
    path: object = None
    if isinstance(cell, dict):
        path, cell = cell.get("path"), cell.get("bytes")
    elif isinstance(cell, str):
        path, cell = cell, None
    if isinstance(cell, (bytes, bytearray, memoryview)):
        return bytes(cell)
    if cell is not None:
        fault = f"holds a {type(cell).__name__} where a picture should be"
        raise MedhebError(where, fault, "Get the publisher's own file")
    if not isinstance(path, str) or not path:
        raise MedhebError(where, "holds no picture", "Mend the row or take it out; the other rows are built")
    try:
        check_relative(path)
    except ValueError as error:
        raise MedhebError(where, f"names a picture whose path is not {error}", "Mend the row") from error
    for folder in folders:
        if (folder / path).is_file():
            return (folder / path).read_bytes()
    raise MedhebError(where, "names a picture file that is not beside the table", "Give the folder with its pictures")


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:120]
