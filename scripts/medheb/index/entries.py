"""What the sources of a task offer: pictures, volumes and rows of text, read from their inventories."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from pydantic import Field

from medheb.build.inventory import BuiltFile, Fact, Inventory
from medheb.core.digests import sha256_bytes
from medheb.core.errors import MedhebError
from medheb.core.json_text import parse_json
from medheb.core.layout import Layout
from medheb.manifest.base import Strict
from medheb.manifest.dataset import Place
from medheb.manifest.protocol import Protocol
from medheb.manifest.rules import IndexRule

BUILD_AGAIN = "Run `medheb rebuild` for its source, then the workflow"
JOINED = "+"


class Select(Strict):
    """Which pictures of a source are items of a task.

    Args:
        kind: their fact ``kind``, or several.
        by: fact that joins pictures to one item, such as ``case`` for a volume.
        where: values that further facts must have.
    """

    kind: str | tuple[str, ...]
    by: str | None = None
    where: dict[str, Fact | tuple[str, ...]] = Field(default_factory=dict)

    def takes(self, file: BuiltFile) -> bool:
        """Is a file one of these?"""
        facts = file.facts
        kinds = (self.kind,) if isinstance(self.kind, str) else self.kind
        return facts.get("kind") in kinds and all(
            facts.get(name) in wanted if isinstance(wanted, tuple) else facts.get(name) == wanted
            for name, wanted in self.where.items()
        )


@dataclass(frozen=True)
class Entry:
    """One picture, or several in order: a volume, pictures of one report, crops of one finding.

    ``paths`` start below the task's image root, ``files`` below the source's image folder. ``content`` is equal
    exactly where the pixels are, as models see them (L and RGB alike).
    """

    dataset: str
    paths: tuple[str, ...]
    content: str
    facts: Mapping[str, Any] = field(hash=False, compare=False)
    files: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Tells entries of a task apart; the same whatever the image root is."""
        return f"{self.dataset}/{self.files[0] if self.files else self.paths[0]}"

    @property
    def contents(self) -> list[str]:
        """Content of each picture."""
        return self.content.split(JOINED)

    def fact(self, name: str) -> str:
        """A fact as text. ``path`` and ``folder`` are those of the first picture, below the image folder.

        Raises:
            MedhebError: the build noted no such fact.
        """
        value = self.known(name)
        if value is None:
            raise MedhebError(f"{self.dataset}: {self.paths[0]}", f"has no fact '{name}'", "Choose another builder")
        return value

    def known(self, name: str) -> str | None:
        """A fact as text, None if the build noted none."""
        if name == "path":
            return self.files[0]
        if name == "folder":
            return self.files[0].rpartition("/")[0]
        value = self.facts.get(name)
        return None if value is None else str(value)


@dataclass(frozen=True)
class Row:
    """One row of a file of JSON lines that a recipe wrote.

    ``split`` is that of the row, else of its file. ``where`` is the file and the line.
    """

    dataset: str
    where: str
    cells: Mapping[str, Any] = field(hash=False, compare=False)
    split: str | None = None

    def text(self, name: str) -> str:
        """A cell as text.

        Raises:
            MedhebError: there is no such cell.
        """
        if self.cells.get(name) is None:
            raise MedhebError(self.where, f"has no field '{name}'", BUILD_AGAIN)
        return str(self.cells[name])


@dataclass(frozen=True)
class Source:
    """One source of a task with its inventory.

    Args:
        inventory: what was built.
        layout: of the run.
        image_root: folder that the task's paths start from; the empty text for the benchmark folder itself.
        places: where else in the layout parts of the image folder are found; paths take these first.
        within: only files below this folder of the benchmark.
    """

    inventory: Inventory
    layout: Layout
    image_root: str | None
    places: Sequence[Place] = ()
    within: str = ""

    @property
    def dataset(self) -> str:
        """Id of the source."""
        return self.inventory.dataset

    def all_paths(self, file: BuiltFile) -> list[str]:
        """Every path of a file below the image root, places of the layout first."""
        if self.image_root is None:
            return []
        found = [
            f"{place.path}/{file.path.removeprefix(f'{place.folder}/')}"
            for place in self.places
            if file.path.startswith(f"{place.folder}/")
        ]
        root, within = (f"{folder}/" if folder else "" for folder in (self.image_root, self.within))
        full = (*found, f"{self.inventory.images}/{file.path}")
        return [path.removeprefix(root) for path in full if path.startswith(root) and path.startswith(within)]

    def entries(self, select: Select) -> list[Entry]:
        """Items below the task's image root, in the order of their names.

        Raises:
            MedhebError: the source has such pictures, but none below the image root.
        """
        files = [file for file in self.inventory.files if select.takes(file)]
        placed = [(file, paths[0]) for file in files if (paths := self.all_paths(file))]
        if files and not placed and not self.within:
            raise MedhebError(
                f"inventory of {self.dataset}",
                f"has images in {self.inventory.images}, outside the task's image root {self.image_root}",
                "Correct image_root in tasks.tsv",
            )
        if select.by is None:
            found = [self._entry([pair]) for pair in placed]
        else:
            groups: dict[tuple[str, str], list[tuple[BuiltFile, str]]] = defaultdict(list)
            for file, path in placed:
                name = file.facts.get(select.by)
                if name is not None:
                    groups[str(file.facts.get("split")), str(name)].append((file, path))
            found = [self._entry(in_order(group)) for group in groups.values()]
        return sorted(found, key=lambda entry: entry.files)

    def _entry(self, placed: Sequence[tuple[BuiltFile, str]]) -> Entry:
        return Entry(
            self.dataset,
            tuple(path for _, path in placed),
            JOINED.join(file.seen for file, _ in placed),
            placed[0][0].facts,
            tuple(file.path for file, _ in placed),
        )

    def entry_of(self, paths: Sequence[str], facts: Mapping[str, Any]) -> Entry | None:
        """The item that a list names by paths below the image folder; None if one of them was not built."""
        files = [self._by_path.get(path) for path in paths]
        placed = [(file, found[0]) for file in files if file is not None and (found := self.all_paths(file))]
        if not paths or len(placed) < len(paths):
            return None
        entry = self._entry(placed)
        return Entry(entry.dataset, entry.paths, entry.content, {**entry.facts, **facts}, entry.files)

    def listed(self, kind: str, path: str | None = None) -> Iterator[tuple[Entry, Row]]:
        """Pictures that the source's records name and that were not built, such as a training part left in place.

        Their pixels are not known, so their content is their path.

        Args:
            kind: of the files of records; each names a ``picture``.
            path: only this file, below the image folder.
        """
        root, within = (f"{folder}/" if folder else "" for folder in (self.image_root, self.within))
        for row in self.rows(kind, path):
            picture = row.text("picture")
            full = f"{self.inventory.images}/{picture}"
            if full.startswith(root) and full.startswith(within):
                content = f"path1:{self.dataset}/{picture}"
                yield Entry(self.dataset, (full.removeprefix(root),), content, row.cells, (picture,)), row

    @cached_property
    def _by_path(self) -> dict[str, BuiltFile]:
        return {file.path: file for file in self.inventory.files}

    def rows(self, kind: str, path: str | None = None) -> Iterator[Row]:
        """Rows of the source's files of JSON lines of a kind, in path and line order.

        Args:
            kind: fact ``kind`` of the files.
            path: only this file, below the image folder.

        Raises:
            MedhebError: a file is missing, differs from the inventory, or is no file of JSON lines.
        """
        for file in sorted(self.inventory.of_kind(kind), key=lambda file: file.path):
            if path is not None and file.path != path:
                continue
            split = file.facts.get("split")
            # Not splitlines(): texts may hold other line separators (U+2028).
            for number, line in enumerate(self.read(file).decode("utf-8").rstrip("\n").split("\n"), start=1):
                where = f"{self.inventory.images}/{file.path}, line {number}"
                try:
                    cells = parse_json(line)
                except ValueError as error:
                    raise MedhebError(where, f"is not JSON ({error})", BUILD_AGAIN) from None
                if not isinstance(cells, dict):
                    raise MedhebError(where, "is not a JSON object", BUILD_AGAIN)
                own = cells.get("split", split)
                yield Row(self.dataset, where, cells, None if own is None else str(own))

    def read(self, file: BuiltFile) -> bytes:
        """A file's content, checked.

        Raises:
            MedhebError: it is missing or differs from the inventory.
        """
        path = self.layout.benchmark / self.inventory.images / file.path
        content = path.read_bytes() if path.is_file() else b""
        if sha256_bytes(content) != file.sha256:
            raise MedhebError(path, "is missing or differs from its inventory", BUILD_AGAIN)
        return content


def in_order(placed: Sequence[tuple[BuiltFile, str]]) -> list[tuple[BuiltFile, str]]:
    """Pictures of one item in order: view, slot, number, path. Where some have a slot, the others are left out."""
    slotted = [pair for pair in placed if pair[0].facts.get("slot") is not None] or placed
    return sorted(
        slotted,
        key=lambda pair: (
            str(pair[0].facts.get("view") or ""),
            int(pair[0].facts.get("slot") or 0),
            int(pair[0].facts.get("slice") or 0),
            pair[0].path,
        ),
    )


@dataclass(frozen=True)
class Sources:
    """Sources of a task in the order of its row, and the rules of its run.

    Args:
        all: the sources.
        rules: rules by name; see ``rules.yaml``.
        protocol: switches of the run.
    """

    all: Sequence[Source]
    rules: Mapping[str, IndexRule] = field(default_factory=dict)
    protocol: Protocol | None = None

    def of(self, role: str) -> Sequence[Source]:
        """``all``; ``last``; or ``first``: all but the last, the only one if there is but one."""
        if role == "all" or len(self.all) == 1:
            return self.all
        return self.all[-1:] if role == "last" else self.all[:-1]

    def contents(self) -> dict[str, str]:
        """Path below the image root to content digest, for all files of all sources under all their paths."""
        return {
            path: file.seen for source in self.all for file in source.inventory.files for path in source.all_paths(file)
        }


def entries(sources: Iterable[Source], select: Select) -> list[Entry]:
    """Items of several sources, in their order."""
    return [entry for source in sources for entry in source.entries(select)]


def distinct(items: Iterable[Entry], seen: Collection[str] = ()) -> list[Entry]:
    """The first entry of each content, in order; contents in ``seen`` are left out."""
    kept: dict[str, Entry] = {}
    for item in items:
        if item.content not in seen:
            kept.setdefault(item.content, item)
    return list(kept.values())
