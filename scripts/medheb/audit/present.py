"""A verification or comparison in plain text: one line a unit, then the names of the first bad files."""

from __future__ import annotations

from collections.abc import Sequence

from medheb.audit.compare import Comparison
from medheb.audit.recompute import Recomputation
from medheb.audit.verdicts import VERDICTS, Unit, Verification

COLUMNS = ("IDENTICAL", "EQUIVALENT", "WITHIN-TOLERANCE", "MISMATCH", "MISSING", "EXTRA", "UNREADABLE", "NOT-BUILT")
SHORT = {"WITHIN-TOLERANCE": "tolerance"}


def as_text(verification: Verification, names: int = 10) -> str:
    """The summary that people read; at most ``names`` findings a unit, the gravest first."""
    lines = _table(verification.units, names)
    if any("EQUIVALENT" in unit.counts for unit in verification.units):
        known = "; ".join(f"{name} {versions}" for name, versions in sorted(verification.encoders.items()))
        lines.append(
            f"EQUIVALENT: the encoder differs, the content does not. Image libraries: {known or 'as recorded'}"
        )
    scope = f"source {verification.source}" if verification.source else "everything"
    if verification.sample_seed is not None:
        lines.append(
            f"Fast check, --seed {verification.sample_seed}: roots, sizes and a sample of contents. "
            f"Not looked at: {', '.join(verification.skipped)}"
        )
    lines.append(
        f"Verdict on {scope} at level {verification.level}: {verification.verdict} (exit code {verification.exit_code})"
    )
    return "\n".join(printable(line) for line in lines) + "\n"


def comparison_text(comparison: Comparison, names: int = 10) -> str:
    """A comparison as people read it."""
    lines = _table(comparison.units, names)
    lines += [f"{name}: differs at {', '.join(levels)}" for name, levels in comparison.levels.items()]
    lines += [f"{name}: made with {text}" for name, text in list(comparison.made.items())[:names]]
    if len(comparison.made) > names:
        lines.append(
            f"... and {len(comparison.made) - names} more made with other code or parameters; --json names all"
        )
    lines += comparison.explanation
    lines += [f"environment {name}: {text}" for name, text in comparison.environment.items()]
    lines.append(f"Verdict: {comparison.verdict} (exit code {comparison.exit_code})")
    return "\n".join(printable(line) for line in lines) + "\n"


def recomputation_text(found: Recomputation, names: int = 20) -> str:
    """A recomputation as people read it."""
    lines = _table(found.units, names)
    lines.append(f"Computed again: {found.scores} scores over {found.queries} queries")
    lines.append(f"Verdict: {found.verdict} (exit code {found.exit_code})")
    return "\n".join(printable(line) for line in lines) + "\n"


def _table(units: Sequence[Unit], names: int) -> list[str]:
    labels = [f"{unit.area} {unit.name}" if unit.area == "source" else unit.name for unit in units]
    width = max([len(label) for label in labels], default=0)
    lines = [f"{'':{width}}  {'verdict':16}  " + "  ".join(f"{SHORT.get(name, name).lower():>10}" for name in COLUMNS)]
    for label, unit in zip(labels, units, strict=True):
        counts = {str(verdict): number for verdict, number in unit.counts.items()}
        cells = "  ".join(f"{counts.get(name, 0) or '-':>10}" for name in COLUMNS)
        lines.append(f"{label:{width}}  {unit.verdict:16}  {cells}")
        lines.extend(_findings(unit, names))
        if unit.unread:
            lines.append(f"    {unit.unread} more files have the recorded size; their content was not read")
    return lines


def _findings(unit: Unit, names: int) -> list[str]:
    if unit.withheld:
        note = unit.reason or "names of this source's files are withheld"
        return [f"    {note}"] if unit.verdict != "IDENTICAL" or unit.reason else []
    ordered = sorted(unit.findings, key=lambda finding: -VERDICTS.index(finding.verdict))
    lines = [f"    {finding.verdict:16}  {finding.name}: {finding.reason}" for finding in ordered[:names]]
    if len(ordered) > names:
        lines.append(f"    ... and {len(ordered) - names} more; --json names them all")
    return lines


def printable(line: str) -> str:
    """``line`` with line ends, terminal codes and other unprintable characters escaped: file names may hold any."""
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode("ascii") for sign in line)
