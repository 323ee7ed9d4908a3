"""Several files at once, never more than the limit from one host, and a way to stop them all."""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import stat
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path

LOG = logging.getLogger("medheb.fetch")
MAX_THREADS = 16
SEAT_WAIT_S = 0.2
_SLOTS: dict[tuple[str, int], threading.BoundedSemaphore] = {}
_GUARD = threading.Lock()
_STOP = threading.Event()


class StoppedError(Exception):
    """A transfer ended early because the user stopped the program."""


@contextmanager
def slot(host: str, limit: int) -> Iterator[None]:
    """Wait for one of ``limit`` places at ``host``, shared by all threads and all processes of this user and machine.

    Between processes this is a courtesy to the host, nothing depends on it: a machine without usable file locks in its
    temporary folder gives each process its own places.
    """
    with _GUARD:
        places = _SLOTS.setdefault((host, limit), threading.BoundedSemaphore(limit))
    with places, _seat(host, limit):
        yield


@contextmanager
def _seat(host: str, limit: int) -> Iterator[None]:
    """One of ``limit`` locked files; the kernel frees it when its process ends, however that ends."""
    handle = None
    try:
        folder = _seats_folder()
        handle = _free_seat(folder, host, limit) if folder else None
        if folder and handle is None:
            LOG.info("%d files come from %s already; waiting", limit, host)
        while folder and handle is None:
            pause(SEAT_WAIT_S)
            handle = _free_seat(folder, host, limit)
    except OSError:
        pass
    try:
        yield
    finally:
        if handle is not None:
            os.close(handle)


def _seats_folder() -> Path | None:
    """A folder of this user alone; None if the name is taken by somebody else."""
    folder = Path(tempfile.gettempdir()) / f"medheb-transfers-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    return folder if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() else None


def _free_seat(folder: Path, host: str, limit: int) -> int | None:
    """A locked file, None if all are taken."""
    name = hashlib.sha256(host.encode()).hexdigest()[:16]
    for number in range(limit):
        handle = os.open(folder / f"{name}-{number}", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
        except OSError:
            os.close(handle)
            raise
        else:
            return handle
    return None


def pause(seconds: float) -> None:
    """Sleep, but wake up when the program is stopped.

    Raises:
        StoppedError: it is.
    """
    if _STOP.wait(seconds):
        raise StoppedError


def go_on() -> None:
    """Do nothing, unless the program is stopped.

    Raises:
        StoppedError: it is.
    """
    if _STOP.is_set():
        raise StoppedError


def fetch_all(jobs: Sequence[Callable[[], None]], at_once: int) -> None:
    """Run all jobs, ``at_once`` of them at a time, in order.

    After the first failure no further job starts; those under way come to their end.

    Raises:
        Exception: of the first failed job in the order of ``jobs``, so that the same trouble reads the same each time.
    """
    if len(jobs) == 1:
        jobs[0]()
        return
    with ThreadPoolExecutor(max_workers=min(at_once, MAX_THREADS)) as pool:
        futures: list[Future[None]] = [pool.submit(job) for job in jobs]
        try:
            wait(futures, return_when=FIRST_EXCEPTION)
            for future in futures:
                future.cancel()
            wait(futures)
        except BaseException:
            _STOP.set()
            for future in futures:
                future.cancel()
            wait(futures)
            _STOP.clear()
            raise
    for future in futures:
        if not future.cancelled():
            future.result()
