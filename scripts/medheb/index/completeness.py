"""Does every picture that a task names exist? Missing ones are listed by pattern, not one by one."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from medheb.core.errors import MedhebError
from medheb.index.records import Record, image_paths
from medheb.index.refusal import RuleError
from medheb.manifest.dataset import Dataset

SHOWN = 5
# Digests and random names first: numbers inside them are no pattern of their own.
DIGEST = r"(?<![0-9A-Za-z])(?=[0-9a-f-]*\d)[0-9a-f]{8}[0-9a-f-]{4,}(?![0-9A-Za-z-])"
RANDOM = r"(?<![0-9A-Za-z])(?=(?:[A-Za-z]*\d){2})[0-9A-Za-z]{12,}(?![0-9A-Za-z])"
NUMBERS = re.compile(rf"{DIGEST}|{RANDOM}|\d+")
REMEDY = "Build the sources again, or the index"


@dataclass(frozen=True)
class Pattern:
    """Missing paths that differ in numbers only."""

    pattern: str
    count: int
    source: str
    row: int
    example: str

    def line(self, show: bool = True) -> str:
        """``25 like p#/slice_#.png of brats_ped (row 0: p0/slice_000.png)``; without the example if not ``show``."""
        source = f" of {self.source}" if self.source else ""
        example = f": {self.example}" if show else ""
        return f"{self.count} like {self.pattern}{source} (row {self.row}{example})"


class Missing:
    """Collects paths that lead nowhere, each once with its first row.

    Args:
        sources: the task's sources; what should have made a path is found among them by its folder.
        root: what the paths start from.
    """

    def __init__(self, sources: Sequence[Dataset] = (), root: str | None = None) -> None:
        self._sources, self._root = sources, root
        self._rows: dict[str, tuple[int, str]] = {}

    def add(self, path: str, row: int, source: str = "") -> None:
        """Note a path that leads nowhere, and the source that should have made it if that is known."""
        self._rows.setdefault(path, (row, source or self._maker(path)))

    def __len__(self) -> int:
        return len(self._rows)

    def patterns(self) -> list[Pattern]:
        """Patterns with numbers as ``#``, the commonest first."""
        groups: dict[tuple[str, str], list[str]] = defaultdict(list)
        for path, (_, source) in sorted(self._rows.items()):
            groups[NUMBERS.sub("#", path), source].append(path)
        found = [
            Pattern(pattern, len(paths), source, self._rows[paths[0]][0], paths[0])
            for (pattern, source), paths in groups.items()
        ]
        return sorted(found, key=lambda entry: (-entry.count, entry.pattern, entry.source))

    def _maker(self, path: str) -> str:
        """Source that should have made a path: by its image folder and places; all sources if that is undecided."""
        full = f"{self._root}/{path}" if self._root else path
        if len(self._sources) > 1:
            named = [
                source.id
                for source in self._sources
                if any(full.startswith(f"{folder}/") for folder in (source.images, *(p.path for p in source.places)))
            ]
            if named:
                return " or ".join(sorted(named))
        return " or ".join(source.id for source in self._sources)

    def told(self, show: bool = True) -> str:
        """The commonest patterns as one line."""
        patterns = self.patterns()
        listed = "; ".join(entry.line(show) for entry in patterns[:SHOWN])
        more = f"; and {len(patterns) - SHOWN} more patterns" if len(patterns) > SHOWN else ""
        return listed + more

    def require_none(self, where: str | Path, show: bool = True) -> None:
        """Refuse a task that names pictures nobody built.

        Raises:
            MedhebError: names the commonest patterns with how many are missing, their source, an example and its row.
        """
        if self._rows:
            fault = f"names {len(self._rows)} images that no inventory lists: {self.told(show)}"
            raise (MedhebError if show else RuleError)(where, fault, REMEDY)


def check_complete(records: Sequence[Record], available: Collection[str], where: str) -> None:
    """Refuse a task that names pictures outside ``available`` (paths below its image root)."""
    missing = Missing()
    for row, path in image_paths(records):
        if path not in available:
            missing.add(path, row)
    missing.require_none(where)


class Disk:
    """Says whether files exist, with one look into each folder: quick also on network disks."""

    def __init__(self, top: Path) -> None:
        self._top = top
        self._folders: dict[str, frozenset[str]] = {}

    def has(self, path: str) -> bool:
        """True if ``path`` (from the top) is a file, or a link that leads to one."""
        folder, _, name = path.rpartition("/")
        if folder not in self._folders:
            try:
                with os.scandir(self._top / folder) as entries:
                    self._folders[folder] = frozenset(entry.name for entry in entries if entry.is_file())
            except OSError:
                self._folders[folder] = frozenset()
        return name in self._folders[folder]
