"""Check many files of a folder against their digests, on several threads (hashlib lets them run side by side)."""

from __future__ import annotations

import hashlib
import os
import re
import stat
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal, TypeVar

from medheb.core.digests import CHUNK_BYTES
from medheb.fetch.digest_cache import DigestCache
from medheb.fetch.progress import Meter, meter
from medheb.fetch.verification import FileVerdict

MAX_WORKERS = 16
LOOK_BATCH, READ_BATCH = 256, 8
# What browsers, wget2, aria2, gsutil and the AWS client (eight hex digits) leave of a broken transfer.
PARTIAL = re.compile(r"(.+?)(?:\.part|\.partial|\.crdownload|\.download|\.aria2|_?\.gstmp|\.[0-9A-Fa-f]{8})")
ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a file must be.

    Args:
        path: from the root.
        digest: raw bytes of its digest, None if nobody has one.
        algorithm: of ``digest``.
        accepted: other right sha256 (raw), each with its reason.
        bytes: its size, None if unknown.
    """

    path: str
    digest: bytes | None
    algorithm: Literal["sha256", "md5"] = "sha256"
    accepted: tuple[tuple[bytes, str], ...] = ()
    bytes: int | None = None


def usable_workers() -> int:
    """Processors that this process may use, at most 16."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, MAX_WORKERS)


def check_files(
    root: Path, wanted: Sequence[Wanted], cache: DigestCache, what: str, workers: int | None = None
) -> list[FileVerdict]:
    """Verdicts in the order of ``wanted``. Never raises for the state of a file: that is its verdict.

    Args:
        root: folder of the files. Links that leave it are not followed.
        wanted: what each must be.
        cache: what earlier runs found right; kept up to date, also when the check is interrupted.
        what: named in progress lines.
        workers: threads; None for one a processor.
    """
    workers = workers or usable_workers()
    checker = _Checker(root, cache)
    try:
        found = list(_spread(checker.look, wanted, LOOK_BATCH, workers))
        unread = [item for item, verdict in zip(wanted, found, strict=True) if isinstance(verdict, int)]
        with meter(what, sum(verdict for verdict in found if isinstance(verdict, int))) as progress:
            checker.progress = progress
            read = _spread(checker.read, unread, READ_BATCH, workers)
            return [next(read) if isinstance(verdict, int) else verdict for verdict in found]
    finally:
        cache.save()


def _spread(work: Callable[[ItemT], ResultT], items: Sequence[ItemT], size: int, workers: int) -> Iterator[ResultT]:
    batches = [items[start : start + size] for start in range(0, len(items), size)]
    with ThreadPoolExecutor(workers) as pool:
        for results in pool.map(lambda batch: [work(item) for item in batch], batches):
            yield from results


class _Checker:
    def __init__(self, root: Path, cache: DigestCache) -> None:
        self._root = os.path.realpath(root)
        self._cache = cache
        self._lock = threading.Lock()
        self._buffers = threading.local()
        self.progress: Meter | None = None
        # Folders come in order, so a few answers serve thousands of files.
        self._folder_inside = lru_cache(maxsize=4096)(self._inside)
        self._broken = lru_cache(maxsize=64)(_broken_transfers)

    def look(self, item: Wanted) -> FileVerdict | int:
        """The verdict as far as names, sizes and the cache give one, else how many bytes must be read."""
        full = os.path.join(self._root, item.path)  # noqa: PTH118 - a hot path
        try:
            if not self._folder_inside(os.path.dirname(full)):  # noqa: PTH120 - a hot path
                return FileVerdict(item.path, "unreadable", "lies behind a link that leaves the folder")
            status = os.lstat(full)
            if stat.S_ISLNK(status.st_mode):
                if not self._inside(full):
                    return FileVerdict(item.path, "unreadable", "is a link that leaves the folder")
                status = Path(full).stat()
        except (FileNotFoundError, NotADirectoryError):
            return self._absent(item, full)
        except OSError as error:
            return FileVerdict(item.path, "unreadable", error.strerror or "")
        if not stat.S_ISREG(status.st_mode):
            return FileVerdict(item.path, "unreadable", "is not a regular file")
        return self._sized(item, status)

    def _sized(self, item: Wanted, status: os.stat_result) -> FileVerdict | int:
        size = status.st_size
        if item.digest is not None and self._cache.knows(item.path, status, item.digest):
            return FileVerdict(item.path, "ok", bytes=size)
        for digest, note in item.accepted:
            if self._cache.knows(item.path, status, digest):
                return FileVerdict(item.path, "accepted alternate", note, size)
        if size == 0 and item.bytes != 0 and item.digest != hashlib.new(item.algorithm, usedforsecurity=False).digest():
            return FileVerdict(item.path, "partial", "has no bytes")
        if item.bytes is not None and size != item.bytes and not item.accepted:
            state: Literal["partial", "mismatch"] = "partial" if size < item.bytes else "mismatch"
            return FileVerdict(item.path, state, f"has {size} of {item.bytes} bytes", size)
        if item.digest is None and not item.accepted:
            return FileVerdict(item.path, "not verifiable", "nobody has published a digest of it", size)
        return size

    def read(self, item: Wanted) -> FileVerdict:
        """The verdict of a file that must be read."""
        full = os.path.join(self._root, item.path)  # noqa: PTH118 - a hot path
        try:
            found, before, after = self._digest(full, item.algorithm if item.digest else "sha256")
            digest, state, note = self._judge(item, full, found)
        except OSError as error:
            return FileVerdict(item.path, "unreadable", error.strerror or "")
        if state in {"ok", "accepted alternate"} and _same(before, after):
            self._cache.remember(item.path, after, digest)
        return FileVerdict(item.path, state, note, after.st_size)

    def _judge(
        self, item: Wanted, full: str, found: bytes
    ) -> tuple[bytes, Literal["ok", "accepted alternate", "mismatch"], str]:
        if found == item.digest:
            return found, "ok", ""
        if item.accepted:
            sha256 = found if item.algorithm == "sha256" or item.digest is None else self._digest(full, "sha256")[0]
            for digest, note in item.accepted:
                if sha256 == digest:
                    return digest, "accepted alternate", note
        return found, "mismatch", "has another digest"

    def _digest(self, full: str, algorithm: str) -> tuple[bytes, os.stat_result, os.stat_result]:
        digest = hashlib.new(algorithm, usedforsecurity=algorithm != "md5")
        buffer = self._buffer()
        # Not blocking: a pipe that took the file's place must not hold up the check.
        handle = os.open(full, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(handle, "rb", buffering=0) as stream:  # noqa: PTH123 - a descriptor
            before = os.fstat(handle)
            while count := stream.readinto(buffer):
                digest.update(buffer[:count])
                with self._lock:
                    if self.progress:
                        self.progress.add(count)
            return digest.digest(), before, os.fstat(handle)

    def _buffer(self) -> memoryview:
        if not hasattr(self._buffers, "view"):
            self._buffers.view = memoryview(bytearray(CHUNK_BYTES))
        view: memoryview = self._buffers.view
        return view

    def _inside(self, path: str) -> bool:
        real = os.path.realpath(path)
        return real == self._root or real.startswith(self._root.rstrip(os.sep) + os.sep)

    def _absent(self, item: Wanted, full: str) -> FileVerdict:
        folder, name = os.path.split(full)
        if name in self._broken(folder):
            return FileVerdict(item.path, "partial", "only a broken transfer of it is there")
        return FileVerdict(item.path, "missing")


def _broken_transfers(folder: str) -> frozenset[str]:
    """Names of which a folder holds a temporary file of some download client."""
    try:
        names = os.listdir(folder)  # noqa: PTH208 - names only
    except OSError:
        return frozenset()
    stems = [match[1] for name in names if (match := PARTIAL.fullmatch(name))]
    return frozenset(stems + [stem.removeprefix(".") for stem in stems])


def _same(before: os.stat_result, after: os.stat_result) -> bool:
    return (before.st_size, before.st_mtime_ns, before.st_ctime_ns, before.st_ino) == (
        after.st_size,
        after.st_mtime_ns,
        after.st_ctime_ns,
        after.st_ino,
    )
