"""``medheb drr``: is DeepDRR usable here, and does ``cone`` agree with it?

Exit codes: 0 good; 1 a refusal, a failure inside DeepDRR, or pictures that disagree; 3 DeepDRR cannot run here (no CUDA
device, or no environment), which says nothing about the pictures.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from medheb.imaging.drr.parity import Agreement

NOT_HERE_CODE = 3

drr_app = typer.Typer(no_args_is_help=True, help="X-rays from CT: is DeepDRR usable here, does cone agree with it?")

Python = Annotated[
    str | None,
    typer.Option("--python", help="Interpreter of DeepDRR's environment. Default: $MEDHEB_DEEPDRR_PYTHON"),
]


@drr_app.command()
def selftest(python: Python = None) -> None:
    """Project a volume of 32 voxels a side with DeepDRR and with cone; say whether DeepDRR is usable, or why not."""
    from medheb.imaging.drr import parity as figures

    results = _run(lambda: [("", found) for found in figures.selftest(python)], figures.SELFTEST_MEAN_LEVELS)
    typer.echo(f"DeepDRR is usable here: {results} views agree with cone")


@drr_app.command()
def parity(
    volume: Annotated[
        Path | None, typer.Option(help="A CT in HU (NIfTI); without it a made-up body, 128 voxels a side")
    ] = None,
    pixels: Annotated[int, typer.Option(min=16, max=2048, help="Rows and columns of the pictures")] = 512,
    python: Python = None,
) -> None:
    """Compare cone with DeepDRR, both views and two spectra: at most 2 of 255 levels apart, 0.1 in the mean."""
    from medheb.imaging.drr import parity as figures
    from medheb.imaging.nifti import read_nifti

    body = read_nifti(volume) if volume else None
    results = _run(lambda: figures.parity(body, pixels, python), figures.MEAN_LEVELS)
    typer.echo(f"cone agrees with DeepDRR in {results} pictures")


def _run(compare: Callable[[], list[tuple[str, Agreement]]], mean_levels: float) -> int:
    """Print each comparison; how many there were.

    Raises:
        typer.Exit: DeepDRR does not run, or two pictures disagree.
    """
    from medheb.imaging.drr.deepdrr_runner import NOT_HERE, DeepdrrError

    try:
        results = compare()
    except DeepdrrError as error:
        typer.echo(f"DeepDRR is not usable here: {error.fault}. {error.remedy}", err=True)
        raise typer.Exit(NOT_HERE_CODE if error.stage in NOT_HERE else 1) from error
    for name, found in results:
        typer.echo(
            f"{name} {found.view}: max {found.max_levels:.3f}/255, mean {found.mean_levels:.4f}/255, "
            f"correlation {found.correlation:.7f}, p99 |d ln I| {found.p99_log_signal:.2e}".strip()
        )
    if not all(found.within(mean_levels) for _, found in results):
        typer.echo("cone and DeepDRR disagree by more than promised", err=True)
        raise typer.Exit(1)
    return len(results)
