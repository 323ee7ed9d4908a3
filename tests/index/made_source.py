"""One made-up source: files with facts, and files of JSON lines."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from medheb.build.inventory import BuiltFile
from medheb.build.splits import drawn_split
from medheb.core.digests import sha256_bytes
from medheb.manifest.dataset import Dataset

SEED = 17
SMALL = (36, 24)
SLICES = 2
WORDS = (
    *("effusion", "nodule", "opacity", "fracture", "liver", "kidney", "lesion"),
    *("normal", "mild", "severe", "left", "right", "upper", "lower", "lobe"),
)


@dataclass
class Made:
    """What one source offers."""

    dataset: Dataset
    tests: int
    trains: int
    slices: int
    files: list[BuiltFile] = field(default_factory=list)
    records: dict[str, bytes] = field(default_factory=dict)

    @property
    def options(self) -> Mapping[str, Any]:
        """Settings of the recipe."""
        return self.dataset.recipe.options

    def file(self, path: str, pixels: str = "", **facts: Any) -> None:
        """A picture whose pixels are its own unless ``pixels`` names others."""
        digest = sha256_bytes(f"{self.dataset.id}/{pixels or path}".encode())
        kept = {name: value for name, value in facts.items() if value is not None}
        self.files.append(BuiltFile(path=path, bytes=1, sha256=digest, content=f"pix1:{digest}", facts=kept))

    def rows(self, path: str, rows: Sequence[Mapping[str, Any]], **facts: Any) -> None:
        """A file of JSON lines."""
        content = "".join(json.dumps(row, sort_keys=True, ensure_ascii=False) + "\n" for row in rows).encode()
        self.records[path] = content
        digest = sha256_bytes(content)
        self.files.append(
            BuiltFile(path=path, bytes=len(content), sha256=digest, content=f"raw1:{digest}", facts=facts)
        )

    def numbers(self) -> Iterator[tuple[str, int]]:
        """Split and number of each item: test first."""
        yield from (("test", number) for number in range(self.tests))
        yield from (("train", number) for number in range(self.trains))

    def drawn(self, group: str) -> str:
        """Split of a source without a published one."""
        return drawn_split(SEED, self.dataset.id, group)

    def volume(self, folder: str, count: int | None = None, **facts: Any) -> None:
        """Slices of one case."""
        for slot in range(count or self.slices):
            self.file(f"{folder}/slice_{slot:03d}.png", kind="slice", slot=slot, slice=slot, **facts)


def sentence(*numbers: int) -> str:
    """A text of its own for each combination of numbers."""
    words = " ".join(WORDS[(number * step) % len(WORDS)] for number in numbers for step in (1, 3, 5))
    return f"{words} {'-'.join(map(str, numbers))}."
