"""What is there, for recipes: a folder without rights is an error that names it, never an absent file.

``Path.exists`` and its kin raise a bare PermissionError there, and ``os.path.exists`` says no.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from medheb.core.errors import MedhebError

MEND_RIGHTS = "Mend its permissions"


def _mode(path: Path) -> int | None:
    """Mode bits of what a path leads to, ``None`` if it leads nowhere."""
    try:
        return os.stat(path).st_mode  # noqa: PTH116 - one call, whose errors are told apart
    except PermissionError as error:
        fault = f"may not be entered by this user ({error.strerror})"
        raise MedhebError(path.parent, fault, MEND_RIGHTS) from error
    except (OSError, ValueError):
        return None


def is_there(path: Path) -> bool:
    """Whether there is anything.

    Raises:
        MedhebError: its folder, or one above, may not be entered.
    """
    return _mode(path) is not None


def is_file(path: Path) -> bool:
    """Whether there is a file; raises as :func:`is_there`."""
    mode = _mode(path)
    return mode is not None and stat.S_ISREG(mode)


def is_folder(path: Path) -> bool:
    """Whether there is a folder; raises as :func:`is_there`."""
    mode = _mode(path)
    return mode is not None and stat.S_ISDIR(mode)


def children(folder: Path) -> list[Path]:
    """Entries of a folder by name, hidden ones left out.

    Raises:
        MedhebError: it cannot be listed.
    """
    try:
        return sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    except OSError as error:
        raise MedhebError(folder, f"cannot be listed ({error.strerror})", MEND_RIGHTS) from error


def folders_in(folder: Path) -> list[Path]:
    """Folders in a folder by name.

    Raises:
        MedhebError: it cannot be listed or entered.
    """
    return [path for path in children(folder) if is_folder(path)]


def files_below(top: Path, ending: str) -> list[Path]:
    """Files at whatever depth whose names end so, by path; none where ``top`` is not there.

    Raises:
        MedhebError: a folder on the way cannot be listed.
    """
    if not is_folder(top):
        return []
    found = []
    for folder, _, names in os.walk(top, onerror=_refuse):
        found += [Path(folder) / name for name in names if name.endswith(ending)]
    return sorted(found)


def _refuse(error: OSError) -> None:
    raise MedhebError(os.fspath(error.filename), f"cannot be listed ({error.strerror})", MEND_RIGHTS) from error
