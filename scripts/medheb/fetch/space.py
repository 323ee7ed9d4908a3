"""Refuse early when the disk is too small, and name a disk that fills up on the way."""

from __future__ import annotations

import errno
import logging
import shutil
from pathlib import Path

from medheb.core.errors import BlockedError, MedhebError

LOG = logging.getLogger("medheb.fetch")
MEGABYTE = 1e6
FULL = {errno.ENOSPC, errno.EDQUOT}


def require_space(folder: Path, needed: int, what: str) -> None:
    """Check that the file system of ``folder`` (which may not exist yet) has ``needed`` bytes free.

    Raises:
        BlockedError: it has less. The free size is only logged: a status must not change from run to run.
    """
    existing = folder.absolute()
    while not existing.exists():
        existing = existing.parent
    free = shutil.disk_usage(existing).free
    if free < needed:
        LOG.warning("%s needs %.0f MB in %s, %.0f MB are free", what, needed / MEGABYTE, folder, free / MEGABYTE)
        raise BlockedError(
            folder,
            f"the disk has less than the {needed / MEGABYTE:.0f} MB that {what} needs",
            "Free some space, or point paths in the configuration at a larger disk",
        )


def disk_trouble(error: OSError, what: str) -> MedhebError:
    """The refusal that an operating system error becomes while ``what`` is written."""
    # Temporary names differ from attempt to attempt and say nothing to a user.
    reason = error.strerror or type(error).__name__
    if error.errno in FULL:
        return BlockedError(what, "the disk is full", "Free some space and run again; nothing half-written was kept")
    return BlockedError(
        what,
        f"the folder for it cannot be used ({reason})",
        "Check that the folders under paths in the configuration exist and that you may write there",
    )
