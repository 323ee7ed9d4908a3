"""A fast check: sizes of all files; contents of a sample, and of every file whose size is not the recorded one."""

from __future__ import annotations

import os
import random
from collections.abc import Mapping
from pathlib import Path

from medheb.audit.judge import Digests
from medheb.audit.tree import Kind, on_disk

SAMPLE = 256  # files of a source that are read; a fault in 1 % of many files is missed with a chance of 8 %


def to_read(
    benchmark: Path, expected: Mapping[str, Digests], present: Mapping[str, Kind], seed: int, name: str
) -> set[str]:
    """Recorded files that a fast check reads: a sample, and all whose size differs or cannot be asked.

    Args:
        benchmark: root of the benchmark.
        expected: recorded digests and sizes.
        present: what lies there.
        seed: decides the sample together with ``name``, whatever the order of files.
        name: of the source.
    """
    there = sorted((path for path in expected if present.get(path) == "file"), key=str.encode)
    chosen = set(random.Random(f"{seed} {name}").sample(there, min(SAMPLE, len(there))))  # noqa: S311 - no secret
    return chosen | {path for path in there if _size(benchmark, path) != expected[path].bytes}


def _size(benchmark: Path, path: str) -> int:
    try:
        return os.lstat(on_disk(benchmark, path)).st_size
    except OSError:
        return -1
