"""What the command line calls. Each function returns an exit code; refusals are MedhebErrors."""

from __future__ import annotations

import json
import sys

from medheb.audit.present import as_text
from medheb.audit.record import record_digests
from medheb.audit.roots import write_roots
from medheb.audit.verdicts import CheckedLevel
from medheb.audit.verify import verify
from medheb.manifest.load import Run


def record_command(run: Run, dataset: str, workers: int = 1) -> int:
    """Record the digests of one source."""
    record_digests(run, dataset, workers)
    return 0


def roots_command(run: Run) -> int:
    """Write the roots over all sources and results; every source must have been recorded."""
    write_roots(run)
    return 0


def verify_command(run: Run, source: str | None = None, level: CheckedLevel = "L2", as_json: bool = False) -> int:
    """Verify the run, print the result to stdout, and return its exit code (see ``medheb.audit.verdicts``)."""
    verification = verify(run, source, level)
    if as_json:
        # ASCII only: names may hold characters that the terminal's encoding lacks.
        text = json.dumps(verification.model_dump(mode="json"), indent=1, sort_keys=True) + "\n"
    else:
        encoding = sys.stdout.encoding or "utf-8"
        text = as_text(verification).encode(encoding, "backslashreplace").decode(encoding)
    sys.stdout.write(text)
    return verification.exit_code
