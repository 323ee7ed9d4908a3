"""The command line. One sub-command a step, so that every step runs and is tested without Snakemake.

Heavy modules are imported by the command that needs them: each cluster job starts this file.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console

from medheb import __version__
from medheb.core.errors import MedhebError
from medheb.core.log import scrub, set_up_logging
from medheb.core.status import Status
from medheb.imaging.drr.app import drr_app
from medheb.manifest.load import Run, load_config, load_run, merge

DEFAULT_CONFIG = Path("config/config.yaml")
FULL_CONFIG = Path("config/full.yaml")
WIDE = 160  # columns of a table that goes into a file

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Rebuild the MedHEB benchmark, evaluate embedding models on it, audit the result. "
    "Usually Snakemake calls these steps for you: `snakemake all`, or `make demo` to see it work.",
)
audit_app = typer.Typer(no_args_is_help=True, help="Digests and Merkle roots of everything that led to a number.")
app.add_typer(audit_app, name="audit")
app.add_typer(drr_app, name="drr")

Threads = Annotated[int, typer.Option(min=1, help="CPU threads of the networks.")]
DatasetId = Annotated[str, typer.Argument(help="Source id, the name of its manifest.")]
DatasetIds = Annotated[list[str] | None, typer.Argument(help="Source ids; all of the run if none is given.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
GroupId = Annotated[str, typer.Argument(help="Sources of the tasks as in tasks.tsv, joined by +.")]
TaskId = Annotated[str, typer.Argument(help="Task key of tasks.tsv.")]
ModelId = Annotated[str, typer.Argument(help="Model id of models.yaml.")]


class State:
    """Options given before the sub-command."""

    config_files: tuple[Path, ...] = (DEFAULT_CONFIG,)
    config_given: bool = False
    overrides: dict[str, Any] = {}  # noqa: RUF012 - replaced as a whole by the callback


def current_run() -> Run:
    """The run that the options describe."""
    return load_run(load_config(State.config_files, State.overrides))


def sources_run() -> Run:
    """The run that commands about sources mean: the full benchmark, unless ``--config`` names another."""
    if State.config_given or not FULL_CONFIG.exists():
        return current_run().with_index()
    return load_run(load_config((DEFAULT_CONFIG, FULL_CONFIG), State.overrides)).with_index()


def _console() -> Console:
    console = Console()
    return console if console.is_terminal else Console(width=WIDE)


def parse_override(text: str) -> dict[str, Any]:
    """``a.b=value`` as nested mappings; the value is JSON or plain text."""
    key, sign, value = text.partition("=")
    if not sign or not key:
        raise MedhebError(f"--set {text}", "is not KEY=VALUE", "Write for example --set protocol=release")
    try:
        parsed: Any = json.loads(value)
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
    State.config_files = tuple(config or [DEFAULT_CONFIG])
    State.config_given = bool(config)
    State.overrides = {}
    for text in set_ or []:
        State.overrides = merge(State.overrides, parse_override(text))


def _tell(status: Status) -> None:
    """A blocked or failed status is a result, so the exit code stays 0; the report shows it."""
    if not status.ok:
        typer.echo(f"{status.state}: {status.reason}. {status.remedy}", err=True)


def _limit_threads(threads: int) -> None:
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = str(threads)
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ["TOKENIZERS_PARALLELISM"] = "false"


@app.command("accept")
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
        accept_file(run, file, _console())
    elif not datasets:
        raise MedhebError("medheb accept", "got neither a source nor --file", "Name sources; `medheb plan` lists them")
    if datasets:
        declined = accept(run, selected(run, datasets), _console(), (lambda _: True) if yes else ask)
        if declined:
            raise typer.Exit(1)


@app.command()
def plan(as_json: AsJson = False) -> None:
    """List what each source needs: bytes, files, hours, and what is in the way. Asks no host, downloads nothing.

    Exit code 1 if the disk is too small for what can be downloaded.
    """
    from medheb.fetch.plan import make_plan, require_room
    from medheb.fetch.plan_table import print_plan

    made = make_plan(sources_run())
    if as_json:
        typer.echo(made.model_dump_json(indent=1))
    else:
        print_plan(made, _console())
    require_room(made)


@app.command()
def doctor(
    datasets: DatasetIds = None,
    online: Annotated[bool, typer.Option("--online", help="Also ask each source's host.")] = False,
    as_json: AsJson = False,
) -> None:
    """Check Python, packages, terms, tokens, optional clients, local copies, disk, netrc. Exit code 1 if not."""
    from medheb.fetch.doctor import diagnose, print_diagnosis

    diagnosis = diagnose(sources_run(), datasets or [], online)
    if as_json:
        typer.echo(scrub(diagnosis.model_dump_json(indent=1)))
    else:
        print_diagnosis(diagnosis, _console())
    if not diagnosis.ok:
        raise typer.Exit(1)


@app.command()
def refresh(dataset: DatasetId) -> None:
    """Ask a source's host what it holds now, print what changed, and write the lock if anything did."""
    from medheb.fetch.refresh import print_refresh
    from medheb.fetch.refresh import refresh as look_again

    print_refresh(look_again(sources_run(), dataset), _console())


@app.command("verify-copy")
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


@app.command()
def fetch(dataset: DatasetId) -> None:
    """Download one source and unpack it, or record why it is blocked."""
    from medheb.fetch.source import fetch_source

    _tell(fetch_source(current_run().with_index(), dataset))


@app.command("fetch-model")
def fetch_model(model: ModelId) -> None:
    """Download one model's weights and unpack them, or record why they are blocked."""
    from medheb.fetch.source import fetch_model as fetch_weights

    _tell(fetch_weights(current_run(), model))


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
        Literal["release", "cone", "deepdrr"] | None, typer.Option(help="For X-rays from CT. With --source.")
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="Processes.")] = 1,
    shard: Annotated[str | None, typer.Option(help="NUMBER/COUNT: only a part; the workflow calls this.")] = None,
    receipt: Annotated[Path | None, typer.Option(help="Written when the shard is done.")] = None,
) -> None:
    """Build one source's images and their inventory: of this run, or from any folder with --source and --out."""
    from medheb.build.commands import build_command, build_folder, parse_shard
    from medheb.build.run import build_images

    if source is not None or out is not None:
        if source is None or out is None:
            raise MedhebError("medheb build", "got one of --source and --out", "Give both, or neither")
        build_folder(sources_run(), dataset, source, out, protocol, projector, workers)
    elif protocol is not None or projector is not None:
        raise MedhebError(
            "medheb build", "got --protocol or --projector without --source", "A run has them in its configuration"
        )
    elif shard is not None or receipt is not None:
        _tell(build_command(current_run(), dataset, parse_shard(shard), receipt, workers))
    else:
        _tell(build_images(current_run(), dataset, workers))


@app.command()
def index(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Task keys or source ids (all tasks of it); `check` before them to check."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder that `medheb build --out` filled.")] = None,
    protocol: Annotated[
        Literal["release", "corrected"] | None, typer.Option(help="Under which the sources were built. With --out.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make task files.

    `medheb index check [TASK...]`: is every picture there that they name? Exit code 1 if not.
    `medheb index train [SOURCE...]`: training rows of the in-distribution tasks, nothing of a test in them.
    """
    from medheb.index.commands import CHECK, TRAIN, check_command, in_folder, index_command, knows, train_rows

    wanted = list(names or [])
    if wanted[:1] == [TRAIN]:
        train_rows(in_folder(current_run(), out, protocol), wanted[1:])
        return
    checking = wanted[:1] == [CHECK]
    wanted = wanted[1:] if checking else wanted
    if not wanted and not checking:
        raise MedhebError("medheb index", "got no task and no source", "Name some, or `check` to check all tasks")
    run = current_run()
    if out is not None or any(not knows(run, name) for name in wanted):
        run = sources_run()
    run = in_folder(run, out, protocol)
    if checking:
        raise typer.Exit(check_command(run, wanted, as_json))
    index_command(run, wanted)


@app.command()
def bridge(model: ModelId, threads: Threads = 2) -> None:
    """Fit the bridge between image and text space of a dual encoder."""
    _limit_threads(threads)
    from medheb.embed.bridge import fit_model_bridge

    _tell(fit_model_bridge(current_run(), model))


@app.command()
def embed(model: ModelId, group: GroupId, threads: Threads = 2) -> None:
    """Embed what the store lacks of the tasks that draw on the same sources."""
    _limit_threads(threads)
    from medheb.embed.run import embed_inputs

    _tell(embed_inputs(current_run(), model, group))


@app.command()
def evaluate(model: ModelId, task: TaskId) -> None:
    """Score one model on one task from stored vectors."""
    from medheb.evaluate.run import evaluate_task

    _tell(evaluate_task(current_run(), model, task))


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
    from medheb.report.example import example_run, fill_example
    from medheb.report.run import collect_report

    run = example_run(folder)
    fill_example(run, queries)
    collect_report(run)
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

    compare_command(first, second, _console(), page, as_json)


@app.command()
def preference(
    first: ModelId,
    second: ModelId,
    queries: Annotated[int, typer.Option(min=1, help="Comparisons, spread over the tasks.")] = 530,
    local_only: Annotated[
        bool, typer.Option("--local-only", help="Also show sources whose terms forbid passing their content on.")
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

    score_command(current_run(), choices, _console(), as_json)


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

    from medheb.fetch.lock import Lock
    from medheb.fetch.plan import Plan
    from medheb.manifest.schema import drifted, regenerate

    outputs: dict[str, type[BaseModel]] = {"plan": Plan, "lock": Lock}
    differing = regenerate(root, outputs) if fix else drifted(root, outputs)
    for path in differing:
        typer.echo(f"{'rewritten' if fix else 'differs from the models'}: {path}")
    if differing and not fix:
        typer.echo("Mend them with: medheb schema --fix", err=True)
        raise typer.Exit(1)


@audit_app.command("record")
def audit_record(dataset: DatasetId) -> None:
    """Hash one source's built files and write its digests."""
    from medheb.audit.record import record_digests

    record_digests(current_run(), dataset)


@audit_app.command("roots")
def audit_roots() -> None:
    """Write the Merkle roots of sources, task files and scores, the environment, and how everything was made."""
    from medheb.audit.provenance import write_provenance
    from medheb.audit.roots import write_roots
    from medheb.workflow import Plan

    run = current_run()
    write_provenance(run, write_roots(run), Plan(State.config_files, State.overrides))


@audit_app.command("verify")
def audit_verify(
    source: Annotated[str | None, typer.Option(help="Only this source.")] = None,
    level: Annotated[
        Literal["L1", "L2"], typer.Option(help="L1: file bytes; L2: also what they say (pixels, JSON).")
    ] = "L2",
    fast: Annotated[
        bool, typer.Option("--fast/--full", help="Roots, sizes and a sample of contents; or every file (default).")
    ] = False,
    seed: Annotated[int | None, typer.Option(min=0, help="Repeat the sample of an earlier --fast.")] = None,
    as_json: AsJson = False,
) -> None:
    """Check files against the recorded digests: a verdict and a reason for each, a summary by source.

    Exit codes: 0 as recorded; 10 mismatch; 11 missing or extra; 12 unreadable; 13 never built; 14 no usable record.
    """
    from medheb.audit.commands import verify_command

    raise typer.Exit(verify_command(current_run(), source, level, as_json, fast, seed))


@audit_app.command("compare")
def audit_compare(
    first: Annotated[Path, typer.Argument(help="Audit folder that counts as the record.")],
    second: Annotated[Path, typer.Argument(help="Audit folder of another site, another date, or after a change.")],
    as_json: AsJson = False,
) -> None:
    """Compare two audit folders: what differs at which level, down to the files, and what may explain it.

    Needs neither the files nor a configuration. Exit codes as those of verify.
    """
    from medheb.audit.commands import compare_command

    raise typer.Exit(compare_command(first, second, as_json))


@audit_app.command("recompute")
def audit_recompute(
    scores: Annotated[
        Path | None, typer.Option(help="Folder of scores from elsewhere. Default: this run's, held against its roots.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compute all metrics again from the ranks of each query, without models or images. Exit codes as for verify."""
    from medheb.audit.commands import recompute_command

    raise typer.Exit(recompute_command(current_run(), scores, as_json))


@audit_app.command("expect")
def audit_expect(
    update: Annotated[
        bool, typer.Option("--update", help="For maintainers: make what this run found the expectation.")
    ] = False,
    reason: Annotated[
        str, typer.Option(help="Why roots change though neither inputs, recipe version nor settings did.")
    ] = "",
) -> None:
    """Hold the roots of this run against those that every machine must get (manifests/expected)."""
    from medheb.audit.commands import expect_command

    raise typer.Exit(expect_command(current_run(), update, reason))


@audit_app.command("export")
def audit_export(
    kind: Annotated[
        Literal["ro-crate", "croissant", "bagit"],
        typer.Argument(help="ro-crate: the run; croissant: descriptions of sources; bagit: the files of one source."),
    ],
    out: Annotated[Path, typer.Option(help="Folder to write; a crate or bag replaces what is there.")],
    source: Annotated[
        str | None, typer.Option(help="Source id. For bagit; croissant takes all that may be passed on without it.")
    ] = None,
) -> None:
    """Export a finished run or its sources in formats that others read. Nothing that may not be passed on goes out."""
    from medheb.audit.commands import export_command

    export_command(current_run(), kind, out, source)


def main() -> None:
    """Entry point: a refusal is one line on stderr and exit code 1."""
    try:
        app()
    except MedhebError as error:
        print(scrub(f"error: {error}"), file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
