"""Under which paths of the benchmark folder the pictures of a task's sources are found."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from medheb.build.inventory import BuiltFile, Inventory
from medheb.manifest.dataset import Dataset, Place


def layout_paths(images: str, places: Sequence[Place], path: str) -> Iterator[str]:
    """Every path of one built file from the benchmark folder: in its source's folder, then at the source's places.

    Args:
        images: the source's image folder.
        places: further places of the layout, which are links to folders below it.
        path: the file, from the image folder.
    """
    yield f"{images}/{path}"
    for place in places:
        if path.startswith(f"{place.folder}/"):
            yield f"{place.path}/{path.removeprefix(f'{place.folder}/')}"


def path_below(root: str, images: str, places: Sequence[Place], path: str) -> str | None:
    """Path of a built file from the folder ``root``; None if it is found at no place below it."""
    for full in layout_paths(images, places, path):
        if full.startswith(f"{root}/"):
            return full.removeprefix(f"{root}/")
    return None


@dataclass(frozen=True, slots=True)
class Found:
    """A picture that a path leads to."""

    source: Dataset
    file: BuiltFile

    def below(self, root: str) -> str | None:
        """Its path from the folder ``root``, None if it is not found there."""
        return path_below(root, self.source.images, self.source.places, self.file.path)


class Images:
    """All built files of some sources by their paths from the benchmark folder, those at further places included."""

    def __init__(self, sources: Iterable[tuple[Dataset, Inventory]]) -> None:
        self.sources: list[tuple[Dataset, Inventory]] = list(sources)
        self._files: dict[str, Found] = {}
        for dataset, inventory in self.sources:
            for file in inventory.files:
                found = Found(dataset, file)
                for full in layout_paths(dataset.images, dataset.places, file.path):
                    self._files.setdefault(full, found)

    def get(self, full: str) -> Found | None:
        """The file at a path from the benchmark folder."""
        return self._files.get(full)

    def __contains__(self, full: str) -> bool:
        return full in self._files

    def all(self) -> Iterator[Found]:
        """Every file once."""
        for dataset, inventory in self.sources:
            for file in inventory.files:
                yield Found(dataset, file)

    def contents(self, root: str | None) -> Mapping[str, str]:
        """Content digest of every file below the folder ``root``, by its path from there; empty without a root."""
        return _Contents(self._files, f"{root}/") if root is not None else {}


class _Contents(Mapping[str, str]):
    """A view, since a second table of all paths would take as much memory as the first."""

    def __init__(self, files: Mapping[str, Found], start: str) -> None:
        self._files, self._start = files, start

    def __getitem__(self, path: str) -> str:
        return self._files[self._start + path].file.content

    def __iter__(self) -> Iterator[str]:
        return (full.removeprefix(self._start) for full in self._files if full.startswith(self._start))

    def __len__(self) -> int:
        return sum(1 for _ in self)
