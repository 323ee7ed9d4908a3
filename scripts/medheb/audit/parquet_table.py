"""Columns of a per-query parquet as arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from medheb.core.errors import MedhebError

Table = Mapping[str, NDArray[Any]]


def read_columns(path: Path, names: Sequence[str]) -> Table:
    """All named columns, in query order (column ``row``).

    Raises:
        MedhebError: missing, damaged, or without a column.
    """
    again = "Copy it again from where it was made"
    try:
        table = pq.read_table(path, partitioning=None)
        columns: dict[str, NDArray[Any]] = {}
        for column in names:
            if table.column(column).null_count:
                raise MedhebError(path, f"has gaps in column '{column}'", again)
            if column.startswith("top_"):
                rows = table.column(column).to_pylist()
                columns[column] = np.fromiter((np.asarray(row) for row in rows), dtype=object, count=len(rows))
            else:
                columns[column] = table.column(column).to_numpy()
                if columns[column].dtype.kind not in "biuf":
                    raise MedhebError(path, f"holds no numbers in column '{column}'", again)
    except FileNotFoundError:
        raise MedhebError(path, "is missing", again) from None
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        raise MedhebError(path, "is not a readable parquet with the per-query columns", again) from error
    order = np.argsort(columns["row"], kind="stable")
    return {column: values[order] for column, values in columns.items()}
