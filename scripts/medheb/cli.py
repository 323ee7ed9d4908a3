"""The command line. One sub-command a step, so that every step runs and is tested without Snakemake.

Heavy modules are imported by the command that needs them: each cluster job starts this file.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from medheb import __version__
from medheb.audit.app import audit_app
from medheb.cluster.app import needs_app
from medheb.core.errors import MedhebError
from medheb.core.json_text import parse_json
from medheb.core.log import scrub, set_up_logging
from medheb.core.terminal import console, tell
from medheb.fetch.app import fetch_app
from medheb.imaging.drr.app import drr_app
from medheb.index.app import index_app
from medheb.manifest.chosen import DEFAULT_CONFIG, choose, chosen, current_run, run_with, sources_run
from medheb.manifest.cluster import CLUSTER_FILE, load_cluster
from medheb.manifest.load import load_config, load_run, merge
from medheb.models.app import models_app
from medheb.train.app import train_app

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Rebuild the MedHEB benchmark, evaluate embedding models on it, audit the result. "
    "Usually Snakemake calls these steps for you: `snakemake all`, or `make demo` to see it work.",
)
app.add_typer(fetch_app)
app.add_typer(needs_app)
app.add_typer(audit_app, name="audit")
app.add_typer(index_app, name="index")
app.add_typer(drr_app, name="drr")
app.add_typer(train_app, name="train")
app.add_typer(models_app, name="models")
cluster_app = typer.Typer(no_args_is_help=True, help="The Slurm cluster: config/cluster.yaml becomes a profile.")
app.add_typer(cluster_app, name="cluster")

Threads = Annotated[int, typer.Option(min=1, help="CPU threads of the networks.")]
DatasetId = Annotated[str, typer.Argument(help="Source id, the name of its manifest.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
GroupId = Annotated[str, typer.Argument(help="Sources of the tasks as in tasks.tsv, joined by +.")]
TaskId = Annotated[str, typer.Argument(help="Task key of tasks.tsv.")]
ModelId = Annotated[str, typer.Argument(help="Model id of models.yaml.")]


def parse_override(text: str) -> dict[str, Any]:
    """``a.b=value`` as nested mappings; the value is JSON or plain text."""
    key, sign, value = text.partition("=")
    if not sign or not key:
        raise MedhebError(f"--set {text}", "is not KEY=VALUE", "Write for example --set protocol=release")
    try:
        parsed: Any = parse_json(value)
    except ValueError:
        parsed = value
    for part in reversed(key.split(".")):
        parsed = {part: parsed}
    nested: dict[str, Any] = parsed
    return nested


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def options(
    config: Annotated[
        list[Path] | None,
        typer.Option(
            help="Configuration file; repeat it to lay later files over earlier ones. Default: config/config.yaml"
        ),
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="One option on top, e.g. --set protocol=release")
    ] = None,
    version: Annotated[bool, typer.Option("--version", callback=_show_version, is_eager=True)] = False,
) -> None:
    """Options of every sub-command."""
    set_up_logging()
    overrides: dict[str, Any] = {}
    for text in set_ or []:
        overrides = merge(overrides, parse_override(text))
    choose(config, overrides)


def _limit_threads(threads: int) -> None:
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = str(threads)
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ["TOKENIZERS_PARALLELISM"] = "false"


@app.command()
def build(
    dataset: DatasetId,
    source: Annotated[
        Path | None, typer.Option(help="Folder of the download as its host lays it out, or a parent of it.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Receives 2D_Images, 3D_Images ... With --source.")] = None,
    protocol: Annotated[
        Literal["release", "corrected"] | None, typer.Option(help="release: as published. With --source.")
    ] = None,
    projector: Annotated[
        Literal["release", "cone", "deepdrr"] | None,
        typer.Option(
            help="For X-rays from CT. With --source. deepdrr: the variable MEDHEB_DEEPDRR_PYTHON names the python of "
            "its environment (docs/drr.md)."
        ),
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="Processes.")] = 1,
    shard: Annotated[str | None, typer.Option(help="NUMBER/COUNT: only a part; the workflow calls this.")] = None,
    receipt: Annotated[Path | None, typer.Option(help="Written when the shard is done.")] = None,
) -> None:
    """Build one source's images and their inventory: of this run, or from any folder with --source and --out."""
    from medheb.build.commands import build_command, build_folder
    from medheb.build.run import build_images
    from medheb.core.shards import parse_shard

    if source is not None or out is not None:
        if source is None or out is None:
            raise MedhebError("medheb build", "got one of --source and --out", "Give both, or neither")
        if shard is not None or receipt is not None:
            raise MedhebError("medheb build", "got --shard or --receipt with --source", "Shards are parts of a run")
        build_folder(sources_run(), dataset, source, out, protocol, projector, workers)
    elif protocol is not None or projector is not None:
        raise MedhebError(
            "medheb build", "got --protocol or --projector without --source", "A run has them in its configuration"
        )
    elif shard is not None or receipt is not None:
        tell(build_command(current_run(), dataset, parse_shard(shard or ""), receipt, workers))
    else:
        tell(build_images(current_run(), dataset, workers))


@app.command()
def bridge(model: ModelId, threads: Threads = 2) -> None:
    """Fit the bridge between image and text space of a dual encoder."""
    _limit_threads(threads)
    from medheb.embed.bridge import fit_model_bridge

    tell(fit_model_bridge(run_with(model=model), model))


@app.command()
def embed(
    model: ModelId,
    group: GroupId,
    threads: Threads = 2,
    shard: Annotated[str | None, typer.Option(help="NUMBER/COUNT: only a part; the workflow calls this.")] = None,
    gather: Annotated[
        int | None, typer.Option(min=2, help="Number of shards, all embedded: gather their receipts.")
    ] = None,
) -> None:
    """Embed what the store lacks of the tasks that draw on the same sources."""
    _limit_threads(threads)
    from medheb.core.shards import parse_shard
    from medheb.embed.devices import gpus_for
    from medheb.embed.gather import gather_shards
    from medheb.embed.ranks import start_ranks
    from medheb.embed.run import embed_inputs

    run = run_with(model=model, group=group)
    if gather is not None:
        tell(gather_shards(run, model, group, gather))
        return
    start_ranks(gpus_for(run, model))
    tell(embed_inputs(run, model, group, threads, parse_shard(shard) if shard else None))


@app.command()
def evaluate(model: ModelId, task: TaskId) -> None:
    """Score one model on one task from stored vectors."""
    from medheb.evaluate.run import evaluate_task

    tell(evaluate_task(run_with(model=model, task=task), model, task))


@app.command("evaluate-graded")
def evaluate_graded(
    model: ModelId, key: Annotated[str, typer.Argument(help="Key of an entry of graded.yaml.")]
) -> None:
    """Score one model on one task of graded relevance from stored vectors."""
    from medheb.evaluate.graded import evaluate_graded

    tell(evaluate_graded(run_with(model=model, graded=key), model, key))


@app.command()
def report() -> None:
    """Write the report of whatever has been scored."""
    from medheb.report.run import collect_report

    collect_report(current_run())


@app.command("report-example")
def report_example(
    folder: Annotated[Path, typer.Option(help="Where it goes.")] = Path("results/report-example"),
    queries: Annotated[int, typer.Option(min=107, help="Queries of each model.")] = 75_233,
) -> None:
    """Make up a run of the full benchmark and write its report: what it looks like, and what it takes."""
    from medheb.report.example import BANNER, example_run, fill_example
    from medheb.report.run import collect_report

    run = example_run(folder)
    fill_example(run, queries)
    collect_report(run, BANNER)
    typer.echo(f"A made-up run, not a result: {run.layout.report / 'index.html'}")


@app.command()
def compare(
    first: Annotated[Path, typer.Argument(help="Results folder of the earlier run (holds scores/).")],
    second: Annotated[Path, typer.Argument(help="Results folder of the later run.")],
    page: Annotated[Path | None, typer.Option(help="Also write the comparison as an HTML page.")] = None,
    as_json: AsJson = False,
) -> None:
    """Two runs side by side: what changed, and whether it is more than noise."""
    from medheb.report.compare import compare_command

    compare_command(first, second, console(), page, as_json)


@app.command()
def preference(
    first: ModelId,
    second: ModelId,
    queries: Annotated[int, typer.Option(min=1, help="Comparisons, spread over the tasks.")] = 530,
    local_only: Annotated[
        bool,
        typer.Option(
            "--local-only",
            help="Also show sources whose terms forbid passing their content on: a page in results/local_only.",
        ),
    ] = False,
) -> None:
    """Write a page on which a person prefers one of two blinded top-3 lists, again and again."""
    from medheb.report.preference import write_preference

    typer.echo(write_preference(current_run(), first, second, queries, local_only))


@app.command("preference-score")
def preference_score(
    choices: Annotated[Path, typer.Argument(help="The file that the page saved.")], as_json: AsJson = False
) -> None:
    """Count preferences, by whether the two models had the right answer first."""
    from medheb.report.preference_score import score_command

    score_command(current_run(), choices, console(), as_json)


@app.command()
def leaderboard() -> None:
    """Print the leaderboard of a finished run."""
    from medheb.report.terminal import print_leaderboard

    print_leaderboard(current_run())


@app.command("require-complete")
def require_complete(marker: Annotated[Path, typer.Argument(help="File to write if nothing is missing.")]) -> None:
    """End with exit code 2 if any cell of the report is missing (strict: true)."""
    from medheb.core.files import write_text
    from medheb.report.complete import missing_cells

    missing = missing_cells(current_run())
    for cell in missing:
        typer.echo(f"missing: {cell}", err=True)
    if missing:
        raise typer.Exit(2)
    write_text(marker, "complete\n")


@app.command()
def run(
    config: Annotated[Path | None, typer.Option(help="Configuration laid over config/config.yaml.")] = None,
    cores: Annotated[int, typer.Option(min=1, help="CPU cores to use.")] = os.cpu_count() or 1,
) -> None:
    """Run the whole workflow here, with progress, and end with the leaderboard. `make demo` calls this.

    A run that was killed is taken up where it stopped. A disk that is too small is refused before anything starts.
    """
    from medheb.driver import run_workflow
    from medheb.fetch.plan import make_plan, require_room

    require_room(make_plan(load_run(load_config([DEFAULT_CONFIG, *([config] if config else [])])).with_index()))
    raise typer.Exit(run_workflow(config, cores))


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def resume(
    context: typer.Context,
    cancel: Annotated[
        bool, typer.Option("--cancel", help="Cancel jobs that still run, instead of waiting for them.")
    ] = False,
    dead: Annotated[
        bool, typer.Option("--driver-is-dead", help="The Snakemake on another machine, which left its lock, is dead.")
    ] = False,
) -> None:
    """Take up a run on the cluster whose Snakemake died: `medheb resume all --configfile config/full.yaml`.

    Everything else is passed on to `snakemake --profile slurm`. Jobs of the dead run that wait in the queue are
    cancelled, running ones are waited for and their results count; then Snakemake goes on.
    """
    from medheb.driver import resume_workflow

    raise typer.Exit(resume_workflow(context.args or ["all"], cancel=cancel, dead=dead))


@cluster_app.command("apply")
def cluster_apply(
    file: Annotated[Path, typer.Argument(help="Description of your cluster.")] = CLUSTER_FILE,
) -> None:
    """Write the Slurm profile of your cluster: what `snakemake --profile slurm` uses from then on."""
    from medheb.cluster.profile import apply_cluster

    for path in apply_cluster(load_cluster(file), file):
        typer.echo(f"written: {path}")


@app.command()
def retry() -> None:
    """Forget everything that is blocked or failed, so that the next run tries it again."""
    from medheb.driver import forget_trouble

    for path in forget_trouble(current_run()):
        typer.echo(f"will be tried again: {path}")


@app.command()
def rebuild(dataset: DatasetId) -> None:
    """Forget what was built from one source, so that the next run builds it and what depends on it again."""
    from medheb.driver import forget_built

    for path in forget_built(current_run(), dataset):
        typer.echo(f"will be built again: {path.parent}")


@app.command()
def schema(
    fix: Annotated[bool, typer.Option("--fix", help="Rewrite the files that differ.")] = False,
    root: Annotated[Path, typer.Option(help="Repository root.")] = Path(),
) -> None:
    """Check that JSON Schemas and config/config.yaml match the typed models."""
    from pydantic import BaseModel

    from medheb.cluster.plan import ClusterPlan
    from medheb.fetch.lock import Lock
    from medheb.fetch.plan import Plan
    from medheb.manifest.schema import drifted, regenerate
    from medheb.models.check import ModelsCheck

    outputs: dict[str, type[BaseModel]] = {
        "plan": Plan,
        "cluster_plan": ClusterPlan,
        "lock": Lock,
        "models_check": ModelsCheck,
    }
    differing = regenerate(root, outputs) if fix else drifted(root, outputs)
    for path in differing:
        typer.echo(f"{'rewritten' if fix else 'differs from the models'}: {path}")
    if differing and not fix:
        typer.echo("Mend them with: medheb schema --fix", err=True)
        raise typer.Exit(1)


@audit_app.command("roots")
def audit_roots() -> None:
    """Write the Merkle roots of sources, task files and scores, the environment, and how everything was made."""
    from medheb.audit.provenance import write_provenance
    from medheb.audit.roots import write_roots
    from medheb.workflow import Plan

    # Here and not in audit.app: it asks the workflow, which lies above the audit.
    run = current_run()
    write_provenance(run, write_roots(run), Plan(chosen().config_files, chosen().overrides))


def main() -> None:
    """Entry point: a refusal is one line on stderr and exit code 1."""
    try:
        app()
    except MedhebError as error:
        print(scrub(f"error: {error}"), file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
