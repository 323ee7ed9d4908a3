"""What a run needs, of its sources and of a cluster, and whether it is there: `medheb plan`, `medheb doctor`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from medheb.core.errors import MedhebError
from medheb.core.log import scrub
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


@needs_app.command()
def doctor(
    datasets: Annotated[list[str] | None, typer.Argument(help="Source ids; all of the run if none is given.")] = None,
    online: Annotated[bool, typer.Option("--online", help="Also ask each source's host.")] = False,
    slurm: Annotated[
        bool, typer.Option("--slurm", help="The cluster instead of the sources: submits a probe to each partition.")
    ] = False,
    cluster: ClusterFile = CLUSTER_FILE,
    minutes: Annotated[float, typer.Option(min=0.1, help="To wait for each probe. With --slurm.")] = 10.0,
    as_json: AsJson = False,
) -> None:
    """Check Python, packages, terms, tokens, optional clients, local copies, disk, netrc. Exit code 1 if not.

    With --slurm: which jobs the cluster takes, and which line of config/cluster.yaml to change where it refuses one.
    """
    from medheb.cluster.doctor import diagnose_cluster
    from medheb.fetch.doctor import diagnose, print_diagnosis

    if slurm and (datasets or online):
        raise MedhebError("medheb doctor --slurm", "got sources or --online", "Ask about sources without --slurm")
    run = sources_run()
    diagnosis = diagnose_cluster(run, cluster, minutes) if slurm else diagnose(run, datasets or [], online)
    if as_json:
        typer.echo(scrub(diagnosis.model_dump_json(indent=1)))
    else:
        print_diagnosis(diagnosis, console())
    if not diagnosis.ok:
        raise typer.Exit(1)
