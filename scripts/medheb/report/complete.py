"""Which cells are missing: what ``strict`` asks for."""

from __future__ import annotations

from medheb.manifest.load import Run
from medheb.report.collect import MissingCell, collect


def missing_cells(run: Run) -> list[MissingCell]:
    """All cells of the run without a score, each with reason and remedy; empty if the run is complete.

    Raises:
        MedhebError: scores that cannot stand in one table.
    """
    return collect(run).missing
