"""What the sources of a task offer: pictures, volumes and text records, read from their inventories."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from medheb.build.inventory import BuiltFile, Fact, Inventory
from medheb.core.digests import sha256_bytes
from medheb.core.errors import MedhebError
from medheb.core.layout import Layout

BUILD_AGAIN = "Run `medheb rebuild` for its source, then the workflow"


@dataclass(frozen=True)
class Entry:
    """One picture, or one volume as its slices in order.

    ``paths`` start below the task's image root. ``content`` is equal exactly where the pixels are.
    """

    dataset: str
    paths: tuple[str, ...]
    content: str
    facts: dict[str, Fact] = field(hash=False, compare=False)

    def fact(self, name: str) -> str:
        """A fact as text.

        Raises:
            MedhebError: the build noted no such fact.
        """
        value = self.facts.get(name)
        if value is None:
            raise MedhebError(f"{self.dataset}: {self.paths[0]}", f"has no fact '{name}'", "Choose another builder")
        return str(value)


@dataclass(frozen=True)
class TextRow:
    """One row of ``records.jsonl``. Rows of one ``group`` are too alike to be each other's wrong answers."""

    id: str
    query: str
    target: str
    group: str


@dataclass(frozen=True)
class Source:
    """One source of a task with its inventory."""

    inventory: Inventory
    layout: Layout
    image_root: str | None

    def _path(self, file: BuiltFile) -> str:
        full = f"{self.inventory.images}/{file.path}"
        root = f"{self.image_root}/"
        if self.image_root is None or not full.startswith(root):
            raise MedhebError(
                f"inventory of {self.inventory.dataset}",
                f"has images in {self.inventory.images}, outside the task's image root {self.image_root}",
                "Correct image_root in tasks.tsv",
            )
        return full.removeprefix(root)

    def _files(self, kind: str) -> list[BuiltFile]:
        return sorted(self.inventory.of_kind(kind), key=lambda file: file.path)

    def pictures(self, kind: str) -> list[Entry]:
        """Single pictures of a kind, in path order."""
        return [
            Entry(self.inventory.dataset, (self._path(file),), file.content, file.facts) for file in self._files(kind)
        ]

    def volumes(self, kind: str) -> list[Entry]:
        """Pictures of a kind joined by their fact ``case``, slices in path order, cases in name order."""
        cases: dict[str, list[BuiltFile]] = defaultdict(list)
        for file in self._files(kind):
            cases[str(file.facts.get("case"))].append(file)
        return [
            Entry(
                self.inventory.dataset,
                tuple(self._path(file) for file in files),
                "+".join(file.content for file in files),
                files[0].facts,
            )
            for _, files in sorted(cases.items())
        ]

    def text_rows(self) -> list[TextRow]:
        """All rows of the source's text records, in file order.

        Raises:
            MedhebError: a file is missing, differs from the inventory, or holds a row without its fields.
        """
        rows: list[TextRow] = []
        for file in self._files("records"):
            path = self.layout.benchmark / self.inventory.images / file.path
            content = path.read_bytes() if path.is_file() else b""
            if sha256_bytes(content) != file.sha256:
                raise MedhebError(path, "is missing or differs from its inventory", BUILD_AGAIN)
            # Not splitlines(): texts may hold other line separators (U+2028).
            for number, line in enumerate(content.decode("utf-8").rstrip("\n").split("\n"), start=1):
                try:
                    row = json.loads(line)
                    rows.append(TextRow(str(row["id"]), str(row["query"]), str(row["target"]), str(row["group"])))
                except KeyError as error:
                    raise MedhebError(path, f"line {number} has no field {error}", BUILD_AGAIN) from None
                except ValueError as error:
                    raise MedhebError(path, f"line {number} is not JSON ({error})", BUILD_AGAIN) from None
        return rows


@dataclass(frozen=True)
class Sources:
    """Sources of a task in the order of its row."""

    all: Sequence[Source]

    @property
    def first(self) -> Sequence[Source]:
        """All but the last; the only one if there is but one. They give the queries."""
        return self.all[:-1] if len(self.all) > 1 else self.all

    @property
    def last(self) -> Source:
        """The one that gives the candidates."""
        return self.all[-1]


def pictures(sources: Iterable[Source], kind: str) -> list[Entry]:
    """Single pictures of a kind from several sources, in their order."""
    return [entry for source in sources for entry in source.pictures(kind)]


def organ_entries(sources: Iterable[Source], form: str) -> list[Entry]:
    """What shows one organ: crops for ``2d``, stacks around it for ``3d``."""
    if form == "3d":
        return [entry for source in sources for entry in source.volumes("voi")]
    return pictures(sources, "crop")
