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
        # By the paths that the inventories hold anyway: full ones would take as much memory again.
        self._files = [{file.path: file for file in inventory.files} for _, inventory in self.sources]

    def get(self, full: str) -> Found | None:
        """The file at a path from the benchmark folder."""
        for (dataset, _), files in zip(self.sources, self._files, strict=True):
            for folder, inner in _folders(dataset):
                if full.startswith(folder):
                    file = files.get(inner + full[len(folder) :])
                    if file is not None:
                        return Found(dataset, file)
        return None

    def __contains__(self, full: str) -> bool:
        return self.get(full) is not None

    def all(self) -> Iterator[Found]:
        """Every file once."""
        for dataset, inventory in self.sources:
            for file in inventory.files:
                yield Found(dataset, file)

    def contents(self, root: str | None) -> Mapping[str, str]:
        """Content digest of every file below the folder ``root``, by its path from there; empty without a root."""
        return _Contents(self, f"{root}/") if root is not None else {}


def _folders(dataset: Dataset) -> Iterator[tuple[str, str]]:
    """Folders of the benchmark that lead to a source's files, and what stands for each before the rest of a path."""
    yield f"{dataset.images}/", ""
    for place in dataset.places:
        yield f"{place.path}/", f"{place.folder}/"


class _Contents(Mapping[str, str]):
    """A view, since a second table of all paths would take as much memory as the first."""

    def __init__(self, images: Images, start: str) -> None:
        self._images, self._start = images, start

    def __getitem__(self, path: str) -> str:
        found = self._images.get(self._start + path)
        if found is None:
            raise KeyError(path)
        return found.file.seen

    def __iter__(self) -> Iterator[str]:
        for found in self._images.all():
            for full in layout_paths(found.source.images, found.source.places, found.file.path):
                if full.startswith(self._start):
                    yield full.removeprefix(self._start)

    def __len__(self) -> int:
        return sum(1 for _ in self)
