"""``medheb train``: MedEmb from the rebuilt training rows (docs/training.md)."""

from __future__ import annotations

from typing import Annotated

import typer

from medheb.manifest.chosen import current_run

train_app = typer.Typer(
    no_args_is_help=True,
    help="Train MedEmb, the reference model. Usually Snakemake does it: `snakemake --profile slurm train_medemb`.",
)
Size = Annotated[str, typer.Argument(help="Size of MedEmb, a key of medemb.bases in the configuration.")]


@train_app.command("plan")
def plan(size: Size) -> None:
    """Read the training rows, measure their lengths, and decide the batches. Needs no GPU."""
    from medheb.train.plan import make_plan

    run = current_run()
    made = make_plan(run, size, run.layout.medemb(size))
    typer.echo(f"{made.pairs} pairs of {made.rows} rows in {made.batches} batches, padding {made.padding:.3f}")
    for reason, count in made.left_out.items():
        typer.echo(f"left out: {count} rows, {reason}; the first: {', '.join(made.named.get(reason, ())[:3]) or '-'}")


@train_app.command("fit")
def fit(
    size: Size,
    threads: Annotated[int, typer.Option(min=1, help="CPU threads of the job on each machine.")] = 1,
    ranks: Annotated[int, typer.Option(min=1, help="Processes to start, a GPU each where there are some.")] = 1,
    nodes: Annotated[int, typer.Option(min=1, help="Machines of the Slurm job that share them.")] = 1,
    meet: Annotated[str | None, typer.Option(hidden=True)] = None,
) -> None:
    """Train over one epoch, from the newest checkpoint if there is one."""
    from medheb.train.nodes import Geometry, start

    geometry = Geometry(ranks, nodes)
    start(geometry, threads, meet)
    import torch

    from medheb.train.run import fit as train

    own = max(1, threads // geometry.each)
    torch.set_num_threads(own)
    position = train(current_run(), size, own)
    typer.echo(f"{position.pairs} pairs in {position.steps} steps, {position.skipped} skipped")


@train_app.command("merge")
def merge(size: Size) -> None:
    """Merge the trained adapter into the weights, with a model card and the entry for models.yaml."""
    from medheb.train.merge import merge as merge_adapter

    typer.echo(f"{merge_adapter(current_run(), size)}: add its entry.yaml to models.yaml to evaluate it")
