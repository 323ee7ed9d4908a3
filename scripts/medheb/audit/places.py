"""Further places of a source in the layout: links beside its image folder, which task files name as well."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from medheb.audit.judge import Digests, Verdicts, judge, survey
from medheb.audit.tree import kind_at, on_disk
from medheb.audit.verdicts import CheckedLevel
from medheb.manifest.load import Run

AGAIN = "build the source again"


def judge_places(
    run: Run, dataset: str, expected: Mapping[str, Digests], level: CheckedLevel, workers: int
) -> Verdicts:
    """Verdicts over places that do not lead to the recorded files; what is as it should be is left out.

    Where a copy of the benchmark has files in place of links, they are held against the record.

    Args:
        run: the run.
        dataset: a source.
        expected: its recorded files by path.
        level: at which copies are compared.
        workers: threads.
    """
    manifest, benchmark = run.datasets[dataset], run.layout.benchmark
    verdicts: Verdicts = {}
    copies: dict[str, Digests] = {}
    for place in manifest.places:
        folder = f"{manifest.images}/{place.folder}"
        there = {path: place.path + path.removeprefix(folder) for path in expected if path.startswith(f"{folder}/")}
        if not there or (not place.shared and _same(benchmark, place.path, folder)):
            continue
        if not place.shared and kind_at(benchmark, place.path) != "folder":
            there = {folder: place.path}
        for path, name in there.items():
            if not os.path.lexists(on_disk(benchmark, name)):
                verdicts[name] = ("MISSING", f"should lead to {path} and is not there; {AGAIN}")
            elif _is_copy(benchmark, name) and path in expected:
                copies[name] = expected[path]
            elif not _same(benchmark, name, path):
                verdicts[name] = ("UNREADABLE", f"does not lead to {path}: it may lead out of the tree; {AGAIN}")
    present = {name: kind for name in copies if (kind := kind_at(benchmark, name)) is not None}
    judged = judge(copies, present, survey(benchmark, copies, present, level, workers), level)
    return verdicts | {name: found for name, found in judged.items() if found[0] != "IDENTICAL"}


def _same(benchmark: Path, one: str, other: str) -> bool:
    """True if both paths lead to one place that exists."""
    ends = [os.path.realpath(on_disk(benchmark, path)) for path in (one, other)]
    return ends[0] == ends[1] and os.path.lexists(ends[0])


def _is_copy(benchmark: Path, name: str) -> bool:
    """True if no link lies on the way."""
    return os.path.realpath(on_disk(benchmark, name)) == on_disk(Path(os.path.realpath(benchmark)), name)
