"""From recorded digests and what lies on disk to one verdict a path. Sets are compared first, content second."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from medheb.audit.measure import Measured, Problem, measure_all
from medheb.audit.tolerance import compare_grids
from medheb.audit.tree import Kind
from medheb.audit.verdicts import CheckedLevel, Verdict
from medheb.core.digests import PICTURE_SUFFIXES
from medheb.core.files import TEMPORARY_MARK

Verdicts = dict[str, tuple[Verdict, str]]
Owners = Callable[[], Mapping[str, str]]


class Digests(NamedTuple):
    """What the record says of a file: L1 of its bytes, L2 of its content, its size, L3 if a tolerance is declared."""

    L1: str
    L2: str
    L3: str | None = None
    bytes: int | None = None


def survey(
    benchmark: Path, expected: Mapping[str, Digests], present: Mapping[str, Kind], level: CheckedLevel, workers: int
) -> dict[str, Measured | Problem]:
    """Digests of every file that is present: recorded ones at ``level``, others by their bytes only."""
    recorded = [path for path, kind in present.items() if kind == "file" and path in expected]
    extra = [path for path, kind in present.items() if kind == "file" and path not in expected]
    tolerant = frozenset(path for path in recorded if expected[path].L3 is not None)
    return {
        **measure_all(benchmark, recorded, level, workers, tolerant),
        **measure_all(benchmark, extra, "L1", workers),
    }


def judge(
    expected: Mapping[str, Digests],
    present: Mapping[str, Kind],
    measured: Mapping[str, Measured | Problem],
    level: CheckedLevel,
) -> Verdicts:
    """One verdict and reason for every recorded path and every path that is not recorded."""
    verdicts: Verdicts = {}
    closed = tuple(f"{path}/" for path, kind in present.items() if kind == "closed")
    # Made when the first file differs: most runs find none.
    owners = cache(partial(_owners, expected))
    for path, digests in expected.items():
        kind = present.get(path)
        if kind == "file":
            verdicts[path] = _judge_file(path, digests, measured[path], level, owners)
        else:
            verdicts[path] = _judge_absent(path, kind, closed)
    for path, kind in present.items():
        if path not in expected and kind != "folder":
            verdicts[path] = _judge_extra(path, kind, measured.get(path), owners)
    return _name_moved(expected, verdicts, measured)


def _judge_file(
    path: str, recorded: Digests, found: Measured | Problem, level: CheckedLevel, owners: Owners
) -> tuple[Verdict, str]:
    if isinstance(found, Problem):
        return found.verdict, found.reason
    if found.L1 == recorded.L1:
        if level == "L2" and found.L2 != recorded.L2:
            return "MISMATCH", "bytes are as recorded but its L2 digest is not: the record was edited"
        return "IDENTICAL", ""
    if found.L2 is not None and found.L2 == recorded.L2:
        if _is_picture(path):
            return "EQUIVALENT", "bytes differ, pixels are equal: another encoder or compression level wrote it"
        return "EQUIVALENT", "bytes differ, content is equal: written in another layout"
    tolerance = ""
    if recorded.L3 is not None and found.L3 is not None:
        within, tolerance = compare_grids(recorded.L3, found.L3)
        if within:
            return "WITHIN-TOLERANCE", f"pixels differ within the declared tolerance: {tolerance}"
    other = owners().get(found.L1) or owners().get(found.L2 or "")
    if other is not None:
        return "MISMATCH", f"holds what is recorded for {other}"
    if level == "L1":
        return "MISMATCH", "bytes differ; level L2 tells whether the content does"
    words = "pixels differ" if _is_picture(path) else "content differs"
    return "MISMATCH", f"{words}; out of the declared tolerance: {tolerance}" if tolerance else words


def _judge_absent(path: str, kind: Kind | None, closed: tuple[str, ...]) -> tuple[Verdict, str]:
    if kind == "link":
        return "UNREADABLE", "is a symbolic link, which may lead out of the tree; it is not followed"
    if kind == "folder":
        return "UNREADABLE", "is a folder where a file is recorded"
    if kind is not None:
        return "UNREADABLE", "is not a regular file that can be read"
    if closed and path.startswith(closed):
        return "UNREADABLE", "lies in a folder that cannot be listed"
    return "MISSING", "is recorded but not there"


def _judge_extra(path: str, kind: Kind, found: Measured | Problem | None, owners: Owners) -> tuple[Verdict, str]:
    if kind == "closed":
        return "UNREADABLE", "is a folder that cannot be listed"
    if kind == "link":
        return "EXTRA", "is a symbolic link that is not recorded; it is not followed"
    if PurePosixPath(path).name.startswith(".") and TEMPORARY_MARK in path:
        return "EXTRA", "is a temporary leftover of a killed job"
    if isinstance(found, Measured) and found.L1 in owners():
        return "EXTRA", f"is not recorded; holds what is recorded for {owners()[found.L1]}"
    return "EXTRA", "is not recorded"


def _name_moved(
    expected: Mapping[str, Digests], verdicts: Verdicts, measured: Mapping[str, Measured | Problem]
) -> Verdicts:
    """Say where the bytes of a missing file lie now, if an extra file holds them."""
    moved: dict[str, str] = {}
    for path in sorted(path for path, (verdict, _) in verdicts.items() if verdict == "EXTRA"):
        found = measured.get(path)
        if isinstance(found, Measured):
            moved.setdefault(found.L1, path)
    if not moved:
        return verdicts
    return {
        path: (verdict, f"{reason}; its bytes lie in {moved[expected[path].L1]}")
        if verdict == "MISSING" and expected[path].L1 in moved
        else (verdict, reason)
        for path, (verdict, reason) in verdicts.items()
    }


def _owners(expected: Mapping[str, Digests]) -> dict[str, str]:
    """First recorded path of each digest, at either level."""
    owners: dict[str, str] = {}
    for path in sorted(expected):
        owners.setdefault(expected[path].L1, path)
        owners.setdefault(expected[path].L2, path)
    return owners


def _is_picture(path: str) -> bool:
    return PurePosixPath(path).suffix.lower() in PICTURE_SUFFIXES
