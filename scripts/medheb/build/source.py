"""What a recipe reads: the manifest, the unpacked files or the user's verified copy, and the run's switches."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from medheb.build.rights import children, is_folder, is_there
from medheb.core.errors import MedhebError
from medheb.manifest.base import ModelT, describe_faults
from medheb.manifest.dataset import Dataset

ProtocolName = Literal["release", "corrected"]
Projector = Literal["release", "cone", "deepdrr"]
ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz", ".7z", ".rar")
SEARCH_DEPTH = 6  # folders between a parent that a user names and the download's own layout


@dataclass(frozen=True)
class Source:
    """The reading side of one build.

    Args:
        dataset: the source's access manifest.
        files: folder of its unpacked files or verified copy, or a parent of it; read only.
        protocol: ``release`` makes what the published scripts make, ``corrected`` what the paper says.
        projector: which projector makes X-rays from CT.
        deepdrr_python: interpreter of DeepDRR's environment; None: as docs/drr.md says.
        seed: of every draw that the recipe makes.
        others: roots of further projects (by slug) and of required sources (by id).
    """

    dataset: Dataset
    files: Path
    protocol: ProtocolName = "corrected"
    projector: Projector = "cone"
    deepdrr_python: str | None = None
    seed: int = 17
    others: Mapping[str, Path] = field(default_factory=dict)

    @property
    def release(self) -> bool:
        """True if the result must be what the published scripts make."""
        return self.protocol == "release"

    def options(self, model: type[ModelT]) -> ModelT:
        """The manifest's ``recipe.options`` as ``model``.

        Raises:
            MedhebError: a wrong key or value.
        """
        try:
            return model.model_validate(self.dataset.recipe.options)
        except ValidationError as error:
            raise describe_faults(error, f"manifest of {self.dataset.id}, recipe.options") from error

    def is_built(self, folder: Path) -> bool:
        """True of images that an earlier build left below the source: they have the cases' names and not their data."""
        return os.path.lexists(folder / f"{self.dataset.id}.inventory.json")

    def path(self, relative: str) -> Path:
        """A file or folder at a fixed place of the source.

        Raises:
            MedhebError: it is not there, or its folder may not be entered.
        """
        path = self.files / relative
        if not is_there(path):
            raise MedhebError(path, "is missing from the unpacked source", "Fetch the source again, or mend unpack")
        return path

    def folder_with(self, *markers: str, among: Path | None = None) -> Path:
        """The folder that holds one of ``markers`` (names or relative paths), in ``files`` or below it.

        The search goes level by level, so that a user may name the download's own folder or a parent of it.

        Args:
            markers: alternatives; any of them marks the folder.
            among: where to search instead of ``files``, say a required source.

        Raises:
            MedhebError: no folder has one, or two on the same level do.
        """
        top = among or self.files
        denied: list[Path] = []
        found = self.folders_with(*markers, among=among, denied=denied)
        if len(found) > 1:
            names = f"{found[0].relative_to(top)} and {found[1].relative_to(top)}"
            raise MedhebError(
                top, f"holds {' or '.join(markers)} more than once: in {names}", "Name one of these folders"
            )
        if found:
            return found[0]
        fault = f"holds no {' or '.join(markers)}, not even {SEARCH_DEPTH} folders down"
        if denied:
            fault += f", and folders that this user may not read: {len(denied)}, the first is {denied[0]}"
            raise MedhebError(top, fault, "Mend their permissions, or give another folder")
        packed = _archives(top)
        unpack = f". Unpack its archives first, such as {packed[0].name}" if packed else ""
        remedy = f"Give the folder of {self.dataset.title} as its host lays it out, or a parent of it{unpack}"
        raise MedhebError(top, fault, remedy)

    def find(self, *names: str, among: Path | None = None) -> Path:
        """The first of ``names`` that lies in the folder of :meth:`folder_with`.

        Raises:
            MedhebError: as :meth:`folder_with`.
        """
        folder = self.folder_with(*names, among=among)
        return next(folder / name for name in names if is_there(folder / name))

    def parts(self, *names: str) -> dict[str, Path]:
        """Folders of a source's parts by name, those that are there; ``files`` itself may be one of them.

        Raises:
            MedhebError: none is there, or as :meth:`folder_with`.
        """
        try:
            folder = self.folder_with(*names)
        except MedhebError:
            own = self.files.absolute()
            if own.name not in names:
                raise
            return {own.name: own}
        return {name: folder / name for name in names if is_folder(folder / name)}

    def folders_with(self, *markers: str, among: Path | None = None, denied: list[Path] | None = None) -> list[Path]:
        """All folders of :func:`folder_with` on the highest level that has one, sorted; empty if there is none.

        Args:
            markers: as there.
            among: as there.
            denied: receives folders that may not be read; they hide nothing else.
        """
        denied = [] if denied is None else denied
        for level in _levels(among or self.files, denied):
            found = []
            for folder in level:
                try:
                    if any(is_there(folder / marker) for marker in markers):
                        found.append(folder)
                except MedhebError as error:
                    denied.append(Path(error.where))
            if found:
                return found
        return []

    def other(self, name: str) -> Path:
        """Root of a required source or further project; ``files`` where one folder was given for all of them.

        Standalone builds get one folder that holds everything.
        """
        return self.others.get(name, self.files)


def _archives(top: Path) -> list[Path]:
    """Archives directly in a folder; none if it is no folder."""
    return [path for path in children(top) if path.name.lower().endswith(ARCHIVES)] if is_folder(top) else []


def _levels(top: Path, denied: list[Path]) -> Iterator[list[Path]]:
    """Folders by their distance from ``top``, each level sorted; links to folders are followed once.

    Args:
        top: where to start.
        denied: receives folders that cannot be listed.
    """
    level = [top]
    for _ in range(SEARCH_DEPTH + 1):
        yield level
        below: list[Path] = []
        for folder in level:
            try:
                with os.scandir(folder) as entries:
                    below += [Path(entry.path) for entry in entries if entry.is_dir()]
            except OSError:
                if folder not in denied:
                    denied.append(folder)
        level = sorted(below)
