"""What is known to be no use before anything of it is read: such a unit is refused when it is built."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medheb.build.recipe import Unit
from medheb.build.rights import MEND_RIGHTS, folders_in, is_there
from medheb.core.errors import MedhebError


@dataclass(frozen=True)
class Fault:
    """Data of a unit that is no use, and why."""

    where: str
    fault: str
    remedy: str


def require_use(unit: Unit) -> Any:
    """The unit's data.

    Raises:
        MedhebError: they are a :class:`Fault`.
    """
    if isinstance(unit.data, Fault):
        raise MedhebError(unit.data.where, unit.data.fault, unit.data.remedy)
    return unit.data


def fault_unit(name: str, error: MedhebError) -> Unit:
    """A unit that building refuses with this error."""
    return Unit(name, Fault(error.where, error.fault, error.remedy))


def claimed_twice(case: str, paths: Sequence[Path]) -> Fault:
    """Several files that claim one case."""
    together = paths[0].parent == paths[1].parent
    named = " and ".join(path.name if together else str(path) for path in sorted(paths)[:2])
    return Fault(str(paths[0].parent), f"holds more than one file for {case}: {named}", "Remove all but the right one")


def folders_or_faults(folder: Path, faults: list[Unit]) -> list[Path]:
    """Folders in a folder by name; none of one that cannot be listed.

    Args:
        folder: where to look.
        faults: receives a unit if it cannot be listed.
    """
    try:
        return folders_in(folder)
    except MedhebError as error:
        faults.append(fault_unit(f"folder {folder.parent.name}/{folder.name}", error))
        return []


def walk(top: Path, faults: list[Unit]) -> Iterator[tuple[Path, list[str], list[str]]]:
    """A folder and all below it: path, names of folders, names of files, both sorted; hidden ones left out.

    The list of folders may be shortened by the caller. Nothing comes of a top that is not there.

    Args:
        top: where to start.
        faults: receives a unit for every folder that cannot be listed.

    Raises:
        MedhebError: the folder of ``top`` may not be entered.
    """

    def unreadable(error: OSError) -> None:
        where = os.fspath(error.filename)
        fault = Fault(where, f"cannot be listed ({error.strerror})", MEND_RIGHTS)
        faults.append(Unit(f"folder {os.path.relpath(where, top.parent)}", fault))

    seen: set[str] = set()
    # Links are followed, each folder once: a link that leads back would never end.
    for folder, names, files in os.walk(top, onerror=unreadable if is_there(top) else None, followlinks=True):
        real = os.path.realpath(folder)
        if real in seen:
            names.clear()
            continue
        seen.add(real)
        names[:] = sorted(name for name in names if not name.startswith("."))
        yield Path(folder), names, sorted(name for name in files if not name.startswith("."))
