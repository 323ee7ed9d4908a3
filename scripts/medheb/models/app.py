"""Commands about models: `medheb models ...`."""

from __future__ import annotations

from typing import Annotated

import typer

from medheb.core.terminal import console
from medheb.manifest.chosen import sources_run

models_app = typer.Typer(no_args_is_help=True, help="The embedding models of a run.")


@models_app.command("check")
def check(
    models: Annotated[list[str] | None, typer.Argument(help="Model ids; all of the run if none is given.")] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1 ...; auto: a GPU where there is one.")] = "auto",
    run_networks: Annotated[
        bool, typer.Option("--self-test/--no-self-test", help="Load the weights that are there and try them.")
    ] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Licence, gate, weights, disk, memory and a self-test of each model. Exit code 1 if one is not ready."""
    from medheb.models.check import check_models, print_check

    found = check_models(sources_run(), models or [], _device(device), run_networks)
    if as_json:
        typer.echo(found.model_dump_json(indent=1))
    else:
        print_check(found, console())
    if not found.ok:
        raise typer.Exit(1)


def _device(name: str) -> str:
    if name != "auto":
        return name
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"
