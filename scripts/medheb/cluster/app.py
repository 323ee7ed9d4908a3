"""What a run needs, of its sources and of a cluster: `medheb plan`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from medheb.core.terminal import console
from medheb.manifest.chosen import sources_run
from medheb.manifest.cluster import CLUSTER_FILE, load_cluster

needs_app = typer.Typer()
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
ClusterFile = Annotated[Path, typer.Option("--cluster", help="Description of your cluster. With --slurm.")]


@needs_app.command()
def plan(
    slurm: Annotated[
        bool, typer.Option("--slurm", help="Jobs, GPU hours by model, shards and disk of the run on a cluster.")
    ] = False,
    cluster: ClusterFile = CLUSTER_FILE,
    as_json: AsJson = False,
) -> None:
    """List what each source needs: bytes, files, hours, and what is in the way. Asks no host, downloads nothing.

    Exit code 1 if the disk is too small for what can be downloaded.
    """
    from medheb.cluster.plan import make_cluster_plan
    from medheb.cluster.plan_table import print_cluster_plan
    from medheb.fetch.plan import make_plan, require_room
    from medheb.fetch.plan_table import print_plan

    if slurm:
        jobs = make_cluster_plan(sources_run(), load_cluster(cluster))
        if as_json:
            typer.echo(jobs.model_dump_json(indent=1))
        else:
            print_cluster_plan(jobs, console())
        return
    made = make_plan(sources_run())
    if as_json:
        typer.echo(made.model_dump_json(indent=1))
    else:
        print_plan(made, console())
    require_room(made)
