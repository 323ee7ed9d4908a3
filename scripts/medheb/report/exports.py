"""The tables as files: CSV and Parquet with full precision, Markdown and LaTeX as one reads them."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import pandas as pd

from medheb.core.files import write_bytes, write_text
from medheb.report.paper import PaperTable, long_table, wide_table
from medheb.report.tables import as_csv

NO_SHARES = ("effective_rank",)  # numbers of a table that are no shares
MARKDOWN_SIGNS = str.maketrans({"|": "\\|", "\n": " ", "<": "&lt;", ">": "&gt;"})


def export(folder: Path, name: str, table: pd.DataFrame, shown: pd.DataFrame | None = None) -> None:
    """Write ``<name>.csv`` and ``.parquet``; with ``shown``, text as one reads it, also ``.md`` and ``.tex``."""
    write_text(folder / f"{name}.csv", as_csv(table))
    stream = BytesIO()
    table.to_parquet(stream, index=False)
    write_bytes(folder / f"{name}.parquet", stream.getvalue())
    if shown is not None:
        write_text(folder / f"{name}.md", as_markdown(shown))
        write_text(folder / f"{name}.tex", as_latex(shown))


def export_paper(folder: Path, table: PaperTable) -> None:
    """Write one table of the paper in all four formats."""
    export(folder, f"table{table.spec.number}", long_table(table), wide_table(table))


def as_markdown(shown: pd.DataFrame) -> str:
    """A Markdown table; the first column is text, the others are set flush right."""
    head = [str(name) for name in shown.columns]
    lines = [head, [":--", *["--:"] * (len(head) - 1)], *shown.astype(str).to_numpy().tolist()]
    return "".join("| " + " | ".join(cell.translate(MARKDOWN_SIGNS) for cell in line) + " |\n" for line in lines)


def as_latex(shown: pd.DataFrame) -> str:
    """A LaTeX tabular with booktabs rules; signs that LaTeX would read as commands are escaped."""
    escaped = shown.rename(columns=str).astype(str)
    text: str = escaped.to_latex(index=False, escape=True, column_format="l" * 2 + "r" * (len(shown.columns) - 2))
    return text


def percent_columns(table: pd.DataFrame, decimals: int = 1) -> pd.DataFrame:
    """Every share of a table in per cent, as text; missing numbers stay empty, whole numbers stay whole."""
    shown = table.copy()
    for name in shown.columns:
        if pd.api.types.is_float_dtype(shown[name]):
            factor = 1 if name in NO_SHARES else 100
            shown[name] = ["" if pd.isna(value) else f"{factor * value:.{decimals}f}" for value in shown[name].tolist()]
        else:
            shown[name] = ["" if pd.isna(value) else str(value) for value in shown[name].tolist()]
    return shown
