"""`medheb audit ...`: print what was found and return the exit code."""

from __future__ import annotations

import json
import secrets
import sys
from pathlib import Path
from typing import Literal

from pydantic import BaseModel

from medheb.audit.compare import compare
from medheb.audit.expected import changes, expected_path, items_of, read_expected, update
from medheb.audit.export_bag import export_bag
from medheb.audit.export_crate import export_crate
from medheb.audit.export_croissant import export_croissant
from medheb.audit.folder import read_folder
from medheb.audit.present import as_text, comparison_text, printable, recomputation_text
from medheb.audit.recompute import Settings, recompute
from medheb.audit.schema import read_roots, roots_path
from medheb.audit.tree import something_at
from medheb.audit.verdicts import EXIT_CODES, EXIT_OK, CheckedLevel, gravest
from medheb.audit.verify import verify
from medheb.core.errors import MedhebError
from medheb.manifest.base import read_yaml, validate
from medheb.manifest.load import PROTOCOLS, Run
from medheb.manifest.protocol import Protocol


def verify_command(
    run: Run,
    source: str | None = None,
    level: CheckedLevel = "L2",
    as_json: bool = False,
    fast: bool = False,
    seed: int | None = None,
) -> int:
    """Verify the run, print the result to stdout, and return its exit code (see ``medheb.audit.verdicts``).

    A fast check without a ``seed`` draws one, so that nobody can know beforehand which files are read.
    """
    if fast and seed is None:
        seed = secrets.randbelow(1 << 32)
    verification = verify(run, source, level, sample_seed=seed if fast else None)
    _print(as_text(verification), verification, as_json)
    return verification.exit_code


def compare_command(first: Path, second: Path, as_json: bool = False) -> int:
    """Compare two audit folders, print the result to stdout, and return its exit code."""
    comparison = compare(first, second)
    _print(comparison_text(comparison), comparison, as_json)
    return comparison.exit_code


def recompute_command(run: Run, folder: Path | None = None, as_json: bool = False) -> int:
    """Compute all metrics again, print what differs to stdout, and return the exit code.

    Args:
        run: gives protocols, seed, interval options, and the scores and roots if no folder is named.
        folder: scores from elsewhere; then nothing is held against the roots here.
        as_json: print JSON.
    """
    protocols = {path.stem: validate(Protocol, read_yaml(path), path) for path in sorted(PROTOCOLS.glob("*.yaml"))}
    roots = None
    if folder is None and something_at(roots_path(run.layout)):
        roots = read_roots(roots_path(run.layout))
    settings = Settings(protocols, run.config.evaluate, run.config.seed)
    found = recompute(folder or run.layout.results / "scores", settings, roots)
    _print(recomputation_text(found), found, as_json)
    return found.exit_code


def expect_command(run: Run, write: bool = False, reason: str = "") -> int:
    """Hold the run's audit folder against the expected roots of its manifest set; return the exit code.

    Args:
        run: its set of manifests names the file.
        write: make what was found the expectation.
        reason: why roots changed that nothing recorded explains.

    Raises:
        MedhebError: there is no audit folder, or an update without an explanation.
    """
    path = expected_path(Path(run.config.manifests).name)
    found, absent = items_of(read_folder(run.layout.audit))
    listed = update(path, found, absent, reason) if write else changes(read_expected(path).items, found, absent)
    for change in listed:
        sys.stdout.write(
            printable(f"{change.verdict:16}  {change.name} {change.what}. {change.why}".rstrip(". ")) + "\n"
        )
    same = len(found) - sum(change.name in found for change in listed)
    sys.stdout.write(
        f"{same} of {len(found)} roots as expected in {path}{', now updated' if write and listed else ''}\n"
    )
    return EXIT_OK if write else EXIT_CODES[gravest(change.verdict for change in listed)]


def export_command(
    run: Run, kind: Literal["ro-crate", "croissant", "bagit"], out: Path, source: str | None = None
) -> None:
    """Write an export and say what it holds.

    Raises:
        MedhebError: the run is not recorded, or a source may not be passed on or is not built.
    """
    if kind == "ro-crate":
        sys.stdout.write(f"{out}: RO-Crate of the run, {export_crate(run, out)} files\n")
    elif kind == "bagit":
        if source is None:
            raise MedhebError("medheb audit export bagit", "got no --source", f"Allowed: {', '.join(run.datasets)}")
        sys.stdout.write(f"{out}: bag of {source}, {export_bag(run, source, out)} files\n")
    elif source is not None:
        sys.stdout.write(f"{export_croissant(run, source, out)}\n")
    else:
        for dataset in run.datasets:
            try:
                sys.stdout.write(f"{export_croissant(run, dataset, out)}\n")
            except MedhebError as error:
                sys.stdout.write(f"left out: {error}\n")


def _print(text: str, result: BaseModel, as_json: bool) -> None:
    if as_json:
        # ASCII only: names may hold characters that the terminal's encoding lacks.
        shown = json.dumps(result.model_dump(mode="json"), indent=1, sort_keys=True) + "\n"
    else:
        encoding = sys.stdout.encoding or "utf-8"
        shown = text.encode(encoding, "backslashreplace").decode(encoding)
    sys.stdout.write(shown)
