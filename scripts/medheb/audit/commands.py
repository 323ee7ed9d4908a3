"""`medheb audit ...`: print what was found and return the exit code."""

from __future__ import annotations

import json
import secrets
import sys
from pathlib import Path

from pydantic import BaseModel

from medheb.audit.compare import compare
from medheb.audit.present import as_text, comparison_text
from medheb.audit.verdicts import CheckedLevel
from medheb.audit.verify import verify
from medheb.manifest.load import Run


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


def _print(text: str, result: BaseModel, as_json: bool) -> None:
    if as_json:
        # ASCII only: names may hold characters that the terminal's encoding lacks.
        shown = json.dumps(result.model_dump(mode="json"), indent=1, sort_keys=True) + "\n"
    else:
        encoding = sys.stdout.encoding or "utf-8"
        shown = text.encode(encoding, "backslashreplace").decode(encoding)
    sys.stdout.write(shown)
