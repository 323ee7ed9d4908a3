"""What really lies in a source's image folder, and which of it other sources answer for.

Names are handled as bytes on disk and as UTF-8 text in records, so that locale settings do not matter.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal

from medheb.build.inventory import files_of, read_header, table_path
from medheb.core.errors import MedhebError
from medheb.manifest.load import Run

# "closed" is a folder whose entries cannot be listed.
Kind = Literal["file", "folder", "link", "other", "closed"]


def on_disk(benchmark: Path, path: str) -> bytes:
    """The file name of ``path`` below ``benchmark``, independent of the locale."""
    return os.fsencode(benchmark) + b"/" + path.encode()


def list_tree(benchmark: Path, folder: str) -> dict[str, Kind]:
    r"""Everything below ``benchmark/folder`` by its path from ``benchmark``, folders included.

    Symbolic links below the folder are listed, never followed; the folder itself may be one, since
    sites put large folders on other disks. Bytes that are not UTF-8 show as ``\xNN``.
    """
    found: dict[str, Kind] = {}
    pending = [(on_disk(benchmark, folder), folder)]
    while pending:
        place, name = pending.pop()
        try:
            with os.scandir(place) as entries:
                listing = [(entry.name, entry.path, _kind(entry)) for entry in entries]
        except FileNotFoundError:
            continue
        except NotADirectoryError:
            found[name] = "other"
            continue
        except OSError:
            found[name] = "closed"
            continue
        for base, inner, kind in listing:
            path = f"{name}/{base.decode('utf-8', 'backslashreplace')}"
            found[path] = kind
            if kind == "folder":
                pending.append((inner, path))
    return found


def _kind(entry: os.DirEntry[bytes]) -> Kind:
    if entry.is_symlink():
        return "link"
    if entry.is_dir(follow_symlinks=False):
        return "folder"
    return "file" if entry.is_file(follow_symlinks=False) else "other"


def kind_at(benchmark: Path, path: str) -> Kind | None:
    """What lies at one path, None for nothing; a symbolic link is not followed."""
    try:
        mode = os.lstat(on_disk(benchmark, path)).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        return "closed"
    if stat.S_ISLNK(mode):
        return "link"
    if stat.S_ISDIR(mode):
        return "folder"
    return "file" if stat.S_ISREG(mode) else "other"


def through_links(
    benchmark: Path, folder: str, links: Mapping[str, str], present: Mapping[str, Kind], wanted: Iterable[str]
) -> dict[str, Kind]:
    """What is present, with the links that a source's inventory vouches for followed to the wanted files.

    A link that leads elsewhere than recorded stays a link, so that what it hides counts as missing.

    Args:
        benchmark: root of the benchmark.
        folder: image folder of the source.
        links: its links by name, with the text of each.
        present: what :func:`list_tree` found.
        wanted: recorded paths.
    """
    good = {
        f"{folder}/{name}"
        for name, text in links.items()
        if present.get(f"{folder}/{name}") == "link"
        and os.readlink(on_disk(benchmark, f"{folder}/{name}")) == os.fsencode(text)  # noqa: PTH115 - names are bytes
    }
    found = {path: kind for path, kind in present.items() if path not in good}
    depth = folder.count("/") + 2
    for path in wanted:
        if path not in found and "/".join(path.split("/")[:depth]) in good:
            kind = kind_at(benchmark, path)
            if kind is not None:
                found[path] = kind
    return found


def something_at(path: Path) -> bool:
    """True unless certainly nothing lies at ``path``; a place that cannot be looked at counts as something."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def inventory_name(run: Run, dataset: str) -> str:
    """Path of a source's inventory from the benchmark folder."""
    images = run.datasets[dataset].images
    return run.layout.inventory(images, dataset).relative_to(run.layout.benchmark).as_posix()


def inventory_files(run: Run, dataset: str) -> set[str]:
    """Paths of a source's inventory, header and table, from the benchmark folder."""
    header = inventory_name(run, dataset)
    return {header, table_path(Path(header)).as_posix()}


def overlapping(run: Run, dataset: str) -> list[str]:
    """Other sources of the run whose image folder is that of ``dataset``, or lies in it or around it."""
    mine = f"{run.datasets[dataset].images}/"
    theirs = {other: f"{manifest.images}/" for other, manifest in run.datasets.items() if other != dataset}
    return [other for other, folder in theirs.items() if folder.startswith(mine) or mine.startswith(folder)]


def not_of_source(run: Run, dataset: str) -> set[str]:
    """Paths in a source's image folder that are no built files of it.

    These are its own inventory (two files), and the inventories and listed files of other sources of the run whose
    image folders overlap with its own. A false claim of another source shows when that one is checked.
    """
    excused = inventory_files(run, dataset)
    for other in overlapping(run, dataset):
        theirs = run.datasets[other].images
        excused |= inventory_files(run, other)
        try:
            path = run.layout.inventory(theirs, other)
            listed = {f"{theirs}/{file.path}" for file in files_of(path, read_header(path))}
        except (MedhebError, OSError, RecursionError):
            continue
        excused |= listed
    return excused
