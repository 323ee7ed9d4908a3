"""``medheb audit``: check what led to a number, without trusting the workflow that made it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from medheb.manifest.chosen import current_run

audit_app = typer.Typer(no_args_is_help=True, help="Digests and Merkle roots of everything that led to a number.")
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


@audit_app.command("record")
def record(dataset: Annotated[str, typer.Argument(help="Source id, the name of its manifest.")]) -> None:
    """Hash one source's built files and write its digests."""
    from medheb.audit.record import record_digests

    record_digests(current_run(), dataset)


@audit_app.command("verify")
def verify(
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
def compare(
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
def recompute(
    scores: Annotated[
        Path | None,
        typer.Option(
            help="Folder of scores from elsewhere, graded ones in 'graded' beside it. Default: this run's, held "
            "against its roots."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compute all metrics again from the ranks of each query (graded ones from its values), without models or images.

    Exit codes as for verify.
    """
    from medheb.audit.commands import recompute_command

    raise typer.Exit(recompute_command(current_run(), scores, as_json))


@audit_app.command("expect")
def expect(
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
def export(
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
