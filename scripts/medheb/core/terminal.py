"""What commands say on a terminal."""

from __future__ import annotations

import typer
from rich.console import Console

from medheb.core.status import Status

WIDE = 160  # columns of a table that goes into a file


def console() -> Console:
    """A console, wide enough for tables where nobody looks at it."""
    found = Console()
    return found if found.is_terminal else Console(width=WIDE)


def tell(status: Status) -> None:
    """A blocked or failed status is a result, so the exit code stays 0; the report shows it."""
    if not status.ok:
        typer.echo(f"{status.state}: {status.reason}. {status.remedy}", err=True)
