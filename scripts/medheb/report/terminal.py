"""The leaderboard in the terminal, at the end of a run."""

from __future__ import annotations

import pandas as pd
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from medheb.manifest.load import Run
from medheb.report.collect import collect
from medheb.report.tables import leaderboard
from medheb.report.words import NONE, interval, percent, plural


def print_leaderboard(run: Run, console: Console | None = None) -> None:
    """Print the leaderboard, how many cells are missing, and where the report lies.

    Raises:
        MedhebError: scores that cannot stand in one table.
    """
    console = console or Console()
    results = collect(run)
    board = leaderboard(results)
    title = f"MedHEB: {plural(len(run.tasks), 'task')}, protocol {run.protocol.name}, in % (mean of family means)"
    console.print(title, style="bold", markup=False, highlight=False)
    # Narrow on purpose: with a name of 30 characters it still fits a terminal of 80 columns.
    table = Table(box=SIMPLE_HEAD, show_edge=False, padding=0)
    table.add_column("#", justify="right", no_wrap=True)
    table.add_column("Model", overflow="fold")
    level = f"{100 * run.config.evaluate.confidence:g} % CI"
    for heading, width in (("Hit@1", 5), (level, 11), ("Chance", 6), ("Hit@5", 5), ("MRR@5", 5), ("Tasks", 6)):
        table.add_column(heading, justify="right", no_wrap=True, min_width=width)
    for _, row in board.iterrows():
        number = NONE if pd.isna(row["rank"]) else str(row["rank"])
        table.add_row(
            number,
            escape(row["title"]) + (" (canary)" if row["canary"] else ""),
            percent(row["hit@1_families_value"]),
            interval(row["hit@1_families_low"], row["hit@1_families_high"]),
            percent(row["hit@1_families_chance"]),
            percent(row["hit@5_families_value"]),
            percent(row["mrr@5_families_value"]),
            f"{row['tasks']}/{row['tasks_expected']}",
            style="dim" if row["canary"] else None,
        )
    console.print(table)
    missing = len(results.missing)
    if missing:
        console.print(f"{plural(missing, 'cell')} of {len(results.cells)} missing; the report says why and what to do.")
    console.print(f"Report: {run.layout.report / 'index.html'}", soft_wrap=True, markup=False, highlight=False)
