"""Verdicts, exit codes, and the typed result of a verification (the schema of ``--json``)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from pydantic import Field

from medheb.manifest.base import Strict

SCHEMA_VERSION = 1

Level = Literal["L0", "L1", "L2", "L3"]
CheckedLevel = Literal["L1", "L2"]
Verdict = Literal[
    "IDENTICAL", "EQUIVALENT", "WITHIN-TOLERANCE", "NOT-BUILT", "MISSING", "EXTRA", "UNREADABLE", "MISMATCH"
]
Area = Literal["source", "index", "scores", "graded", "embeddings", "record"]

# From harmless to grave: the verdict over several files is the gravest of theirs.
VERDICTS: tuple[Verdict, ...] = (
    "IDENTICAL",
    "EQUIVALENT",
    "WITHIN-TOLERANCE",
    "NOT-BUILT",
    "EXTRA",
    "MISSING",
    "UNREADABLE",
    "MISMATCH",
)

EXIT_OK = 0  # all identical, equivalent or within a declared tolerance
EXIT_MISMATCH = 10  # some content differs, or the audit folder contradicts itself or the manifests
EXIT_MISSING_OR_EXTRA = 11  # the set of files differs
EXIT_UNREADABLE = 12  # some file cannot be read or decoded
EXIT_NOT_BUILT = 13  # all that was built is in order, but some of it was never built
EXIT_UNUSABLE = 14  # the audit folder is missing, damaged or of another schema version

EXIT_CODES: dict[Verdict, int] = {
    "IDENTICAL": EXIT_OK,
    "EQUIVALENT": EXIT_OK,
    "WITHIN-TOLERANCE": EXIT_OK,
    "NOT-BUILT": EXIT_NOT_BUILT,
    "EXTRA": EXIT_MISSING_OR_EXTRA,
    "MISSING": EXIT_MISSING_OR_EXTRA,
    "UNREADABLE": EXIT_UNREADABLE,
    "MISMATCH": EXIT_MISMATCH,
}


class Finding(Strict):
    """One thing that is not identical: its name, its verdict and the reason in one clause."""

    name: str
    verdict: Verdict
    reason: str


class Unit(Strict):
    """Verdict over one source, or over all task JSONs, scores or embedding receipts, or over the record itself.

    ``counts`` count checked things by verdict; ``unread`` files have the recorded size, but a fast check did not read
    them. ``findings`` name everything that is not identical; they
    are empty where ``withheld`` says that names of this source must not be shown.
    """

    area: Area
    name: str
    verdict: Verdict
    reason: str = ""
    withheld: bool = False
    counts: dict[Verdict, int] = Field(default_factory=dict)
    unread: int = Field(default=0, ge=0)
    findings: tuple[Finding, ...] = ()


class Verification(Strict):
    """Result of a verification: the JSON that ``medheb audit verify --json`` prints."""

    schema_version: int = SCHEMA_VERSION
    level: CheckedLevel
    source: str | None = Field(description="the one source that was asked for, or null for everything")
    sample_seed: int | None = Field(default=None, description="of a fast check: chooses the files that are read")
    skipped: tuple[str, ...] = Field(default=(), description="what a fast check does not look at")
    verdict: Verdict
    exit_code: int
    encoders: dict[str, str] = Field(description="image libraries at record time and here, where they differ")
    units: tuple[Unit, ...]


def gravest(verdicts: Iterable[Verdict]) -> Verdict:
    """The gravest of ``verdicts``; IDENTICAL if there are none."""
    return max(verdicts, key=VERDICTS.index, default="IDENTICAL")


def unit_of(
    area: Area,
    name: str,
    verdicts: Mapping[str, tuple[Verdict, str]],
    *,
    withheld: bool = False,
    reason: str = "",
    unread: int = 0,
) -> Unit:
    """Sum up ``name -> (verdict, reason)``; where ``withheld``, names and reasons of single files are dropped."""
    counts = {
        verdict: number
        for verdict in VERDICTS
        if (number := sum(1 for found, _ in verdicts.values() if found == verdict))
    }
    findings = tuple(
        Finding(name=item, verdict=verdict, reason=why)
        for item, (verdict, why) in sorted(verdicts.items(), key=lambda pair: pair[0].encode())
        if verdict != "IDENTICAL" and not withheld
    )
    return Unit(
        area=area,
        name=name,
        verdict=gravest(counts),
        reason=reason,
        withheld=withheld,
        counts=counts,
        unread=unread,
        findings=findings,
    )


def exit_code(units: Iterable[Unit]) -> int:
    """Exit code for ``units``; a record that cannot be read makes the audit folder unusable."""
    every = list(units)
    if any(
        finding.verdict in {"MISSING", "UNREADABLE"}
        for unit in every
        if unit.area == "record"
        for finding in unit.findings
    ):
        return EXIT_UNUSABLE
    return EXIT_CODES[gravest(unit.verdict for unit in every)]
