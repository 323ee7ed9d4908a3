"""Does every image that a task names exist? Missing ones are listed by pattern, not one by one."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Sequence

from medheb.core.errors import MedhebError
from medheb.index.records import Record, image_paths

SHOWN = 5
DIGITS = re.compile(r"\d+")


def missing_patterns(records: Sequence[Record], available: Collection[str]) -> dict[str, list[tuple[int, str]]]:
    """Named but unavailable images: pattern (numbers as ``#``) to (row, path), each path once, in path order."""
    missing: dict[str, int] = {}
    for row, path in image_paths(records):
        if path not in available:
            missing.setdefault(path, row)
    patterns: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for path, row in sorted(missing.items()):
        patterns[DIGITS.sub("#", path)].append((row, path))
    return dict(patterns)


def check_complete(records: Sequence[Record], available: Collection[str], where: str) -> None:
    """Refuse a task that names images nobody built.

    Args:
        records: the task.
        available: paths below the task's image root.
        where: the task JSON.

    Raises:
        MedhebError: names the commonest patterns with how many are missing, an example and its row.
    """
    patterns = missing_patterns(records, available)
    if not patterns:
        return
    total = sum(len(found) for found in patterns.values())
    ranked = sorted(patterns.items(), key=lambda item: (-len(item[1]), item[0]))
    listed = "; ".join(
        f"{len(found)} like {pattern} (row {found[0][0]}: {found[0][1]})" for pattern, found in ranked[:SHOWN]
    )
    more = f"; and {len(ranked) - SHOWN} more patterns" if len(ranked) > SHOWN else ""
    raise MedhebError(
        where, f"names {total} images that no inventory lists: {listed}{more}", "Build the sources again, or the index"
    )
