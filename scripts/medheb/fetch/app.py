"""Commands about getting sources: terms, download, copies. They stand at the top, as `medheb fetch`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from medheb.core.errors import MedhebError
from medheb.core.terminal import console, tell
from medheb.manifest.chosen import current_run, having, sources_run

fetch_app = typer.Typer()
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
DatasetId = Annotated[str, typer.Argument(help="Source id, the name of its manifest.")]
DatasetIds = Annotated[list[str] | None, typer.Argument(help="Source ids; all of the run if none is given.")]
ModelId = Annotated[str, typer.Argument(help="Model id of models.yaml.")]


@fetch_app.command("accept")
def accept_terms(
    datasets: Annotated[list[str] | None, typer.Argument(help="Source ids.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Accept without being asked; for unattended runs.")] = False,
    file: Annotated[
        Path | None, typer.Option(help="YAML file of decisions for unattended runs; see docs/data.md.")
    ] = None,
) -> None:
    """Show the terms of sources, ask whether you accept them, and record it. Nothing is fetched before."""
    from medheb.fetch.accept import accept, accept_file, ask, selected

    run = sources_run()
    if file is not None:
        accept_file(run, file, console())
    elif not datasets:
        raise MedhebError("medheb accept", "got neither a source nor --file", "Name sources; `medheb plan` lists them")
    if datasets:
        declined = accept(run, selected(run, datasets), console(), (lambda _: True) if yes else ask)
        if declined:
            raise typer.Exit(1)


@fetch_app.command()
def refresh(dataset: DatasetId) -> None:
    """Ask a source's host what it holds now, print what changed, and write the lock if anything did.

    Weights of a model are sources too: `medheb refresh weights_siglip_base`.
    """
    from medheb.fetch.refresh import print_refresh
    from medheb.fetch.refresh import refresh as look_again
    from medheb.fetch.weights import with_weights

    print_refresh(look_again(with_weights(sources_run()), dataset), console())


@fetch_app.command("verify-copy")
def verify_copy(
    dataset: DatasetId,
    full: Annotated[bool, typer.Option("--full", help="Every listed file, not only those that tasks need.")] = False,
    reread: Annotated[bool, typer.Option("--reread", help="Also files that an earlier run found right.")] = False,
    list_: Annotated[
        Path | None, typer.Option("--list", help="Write the verdict of each file into this private file of yours.")
    ] = None,
) -> None:
    """Verify your own copy of a source. Prints counts, bytes and digests only. Exit code 1 if it cannot be used."""
    from medheb.fetch.accept import selected
    from medheb.fetch.local_copy import verify_local
    from medheb.fetch.verification import write_list

    run = sources_run()
    (manifest,) = selected(run, [dataset])
    verification = verify_local(run, manifest, full=full, reread=reread)
    typer.echo(verification.summary())
    for note in verification.notes:
        typer.echo(f"note: {note}")
    if list_ is not None:
        write_list(verification, list_)
    if trouble := verification.trouble():
        raise trouble


@fetch_app.command()
def fetch(dataset: DatasetId) -> None:
    """Download one source and unpack it, or record why it is blocked."""
    from medheb.fetch.source import fetch_source

    tell(fetch_source(current_run().with_index(), dataset))


@fetch_app.command("fetch-model")
def fetch_model(model: ModelId) -> None:
    """Download one model's weights and unpack them, or record why they are blocked."""
    from medheb.fetch.source import fetch_model as fetch_weights

    run = current_run()
    tell(fetch_weights(run if model in run.models else having(sources_run(), model=model), model))
