"""Links at the places where the card's layout has files that live in a source's own folder.

Some sources fill two folders of the layout (PanNuke and PanNuke_VG), and some folders are filled by two sources
(Gastrointestinal). A source's own folder is replaced whole, so the other places are relative links to it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from medheb.core.errors import MedhebError
from medheb.core.files import temporary_name
from medheb.manifest.dataset import Dataset, Place


def link_places(benchmark: Path, dataset: Dataset, paths: Iterable[str]) -> None:
    """Make the links of a source; they may lead nowhere until its folder is renamed into place.

    Args:
        benchmark: root of the benchmark.
        dataset: manifest with ``images`` and ``places``.
        paths: the files of the source, below its image folder.

    Raises:
        MedhebError: a real file or folder stands where a link must be.
    """
    listed = sorted(paths)
    for place in dataset.places:
        folder = f"{dataset.images}/{place.folder}".rstrip("/")
        if place.shared:
            _link_each(benchmark, place, folder, [path for path in listed if path.startswith(f"{place.folder}/")])
        else:
            _link(benchmark / place.path, benchmark / folder)


def _link_each(benchmark: Path, place: Place, folder: str, paths: list[str]) -> None:
    """One link a file, beside those of other sources; links of this source to files that are gone are removed."""
    names = {path.removeprefix(f"{place.folder}/"): path for path in paths}
    top = benchmark / place.path
    for name in names:
        _link(top / name, benchmark / folder / name)
    for entry in sorted(top.rglob("*")) if top.is_dir() else []:
        relative = entry.relative_to(top).as_posix()
        if entry.is_symlink() and relative not in names:
            target = os.path.normpath(entry.parent / os.readlink(entry))  # noqa: PTH115 - the text of the link
            if target.startswith(f"{benchmark / folder}{os.sep}"):
                entry.unlink()


def _link(place: Path, target: Path) -> None:
    text = os.path.relpath(target, place.parent)
    place.parent.mkdir(parents=True, exist_ok=True)
    if place.is_symlink():
        if os.readlink(place) == text:  # noqa: PTH115 - the text of the link
            return
    elif place.exists():
        raise MedhebError(place, "is a real file or folder where a link must be", "Move it away; it was not touched")
    temporary = temporary_name(place)
    temporary.symlink_to(text)
    os.replace(temporary, place)
