"""``medheb index``: task files, their check, and training rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer
from typer.core import TyperGroup

from medheb.core.errors import MedhebError
from medheb.manifest.chosen import current_run, sources_run
from medheb.manifest.load import Run

MAKE = "make"
Protocol = Literal["release", "corrected"]


class NamesFirst(TyperGroup):
    """``medheb index kvasir`` means ``medheb index make kvasir``."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Put the command before what is none."""
        if args and args[0] not in {*self.commands, *ctx.help_option_names}:
            args = [MAKE, *args]
        return super().parse_args(ctx, args)


index_app = typer.Typer(
    cls=NamesFirst,
    no_args_is_help=True,
    help="Make task files: `medheb index NAME...`, NAME being a task key or a source id (all tasks of it).",
)

Out = Annotated[Path | None, typer.Option(help="Folder that `medheb build --out` filled.")]
Under = Annotated[Protocol | None, typer.Option(help="Under which the sources were built. With --out.")]


def _run_for(names: list[str], out: Path | None, protocol: Protocol | None) -> Run:
    """The run, or the full benchmark for names that only that has and for folders of ``medheb build --out``."""
    from medheb.index.commands import in_folder, knows

    run = current_run()
    if out is not None or any(not knows(run, name) for name in names):
        run = sources_run()
    return in_folder(run, out, protocol)


@index_app.command(MAKE)
def make(
    names: Annotated[list[str] | None, typer.Argument(help="Task keys or source ids (all tasks of it).")] = None,
    out: Out = None,
    protocol: Under = None,
) -> None:
    """Make task files; the word `make` may be left out.

    Exit code 1 with --out if one of them is empty; in a run that is data, and the report shows it.
    """
    from medheb.index.commands import index_command

    if not names:
        raise MedhebError("medheb index", "got no task and no source", "Name some, or `check` to check all tasks")
    made = index_command(_run_for(names, out, protocol), names)
    if out is not None and not all(status.ok for status in made):
        raise typer.Exit(1)


@index_app.command()
def check(
    names: Annotated[list[str] | None, typer.Argument(help="Task keys or source ids; all if none is given.")] = None,
    out: Out = None,
    protocol: Under = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Is every picture there that the task files name? Exit code 1 if not."""
    from medheb.index.commands import check_command

    raise typer.Exit(check_command(_run_for(names or [], out, protocol), names or [], as_json))


@index_app.command()
def train(
    names: Annotated[list[str] | None, typer.Argument(help="Task keys or source ids; all if none is given.")] = None,
    out: Out = None,
    protocol: Under = None,
) -> None:
    """Training rows of the in-distribution tasks (Train_Data); nothing of a test is in them (docs/index.md)."""
    from medheb.index.commands import train_rows

    train_rows(_run_for(names or [], out, protocol), names or [])
