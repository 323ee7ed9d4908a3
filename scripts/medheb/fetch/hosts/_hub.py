"""What the clients of hubs share: optional libraries, refusals, verified delivery."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from medheb.core.digests import CHUNK_BYTES
from medheb.core.errors import BlockedError
from medheb.core.files import fsync_folder, temporary_name
from medheb.fetch.bodies import HEAD_BYTES, refuse_page
from medheb.fetch.expected import Check, expected_of
from medheb.fetch.remote import RemoteFile
from medheb.fetch.trouble import LATER, NETWORK
from medheb.manifest.dataset import Dataset

INSTALL = "Install it with: pip install -r envs/hubs.txt"
GROUP_AND_OTHERS = 0o077
FIRST_SERVER_ERROR = 500


class PassingError(BlockedError):
    """Trouble of a host that may be over soon: asking again can help."""


def library(name: str, module: str) -> Any:
    """Import a module of an optional library when its host is first used.

    Raises:
        BlockedError: it is not installed.
    """
    try:
        return import_module(module)
    except ImportError:
        raise BlockedError(f"library {name}", f"needs the optional client {name}", INSTALL) from None


def hush(*loggers: str) -> None:
    """Silence loggers of a library: their lines hold addresses with signatures, which must not reach a log."""
    for name in loggers:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)


def require_private(path: Path) -> bool:
    """True if a file with credentials exists; it must be readable by its owner only.

    Raises:
        BlockedError: others may read it.
    """
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    if mode & GROUP_AND_OTHERS:
        raise BlockedError(path.name, "holds a token and may be read by others", f"Run: chmod 600 {path}")
    return True


def place(dataset: Dataset, path: str) -> str:
    """How a file is named in refusals: by its source alone where the manifest hides paths."""
    return f"{dataset.id}: {path}" if dataset.show_content else f"{dataset.id}: a file"


def refresh(dataset: Dataset, verb: str) -> str:
    """The remedy for a host whose content is not what the manifest says."""
    return f"{verb} with `medheb refresh {dataset.id}`"


@contextmanager
def work_folder(target: Path) -> Iterator[Path]:
    """A folder beside ``target`` that nobody else uses, for a library's cache; removed afterwards."""
    target.parent.mkdir(parents=True, exist_ok=True)
    folder = temporary_name(target)
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def settle(dataset: Dataset, file: RemoteFile, came: Path, target: Path) -> None:
    """Verify what a library left at ``came`` (same file system) and move it to ``target``.

    Raises:
        MedhebError: it is not what was promised; ``target`` is untouched.
    """
    what = place(dataset, file.path)
    check = Check(expected_of(dataset, file))
    with came.open("rb") as stream:
        refuse_page(what, target.name, "", stream.read(HEAD_BYTES))
        stream.seek(0)
        while chunk := stream.read(CHUNK_BYTES):
            check.update(chunk)
        os.fsync(stream.fileno())
    check.finish(what)
    # Libraries leave private or odd modes; the user's umask decides, and a new file shows it.
    fresh = temporary_name(came)
    fresh.touch()
    came.chmod(fresh.stat().st_mode & 0o777)
    os.replace(came, target)
    fsync_folder(target.parent)


def unreachable(where: str, service: str) -> BlockedError:
    """The refusal when a host does not answer at all."""
    return BlockedError(where, f"{service} cannot be reached", NETWORK)


def refused(dataset: Dataset, service: str, status: int, page: str) -> BlockedError:
    """The refusal behind an HTTP status that means the same everywhere."""
    where = dataset.id
    if status in {404, 410}:
        return BlockedError(where, f"{service} no longer has it (HTTP {status})", f"Look at {page}")
    if status == 429:
        return PassingError(where, f"{service} limits how much may be asked for (HTTP 429)", LATER)
    if status >= FIRST_SERVER_ERROR:
        return PassingError(where, f"{service} has trouble of its own (HTTP {status})", LATER)
    return BlockedError(where, f"{service} refused the request (HTTP {status})", f"Look at {page}")
