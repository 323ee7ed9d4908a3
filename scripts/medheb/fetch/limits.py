"""Several files at once, never more than the limit from one host, and a way to stop them all."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager

MAX_THREADS = 16
_SLOTS: dict[tuple[str, int], threading.BoundedSemaphore] = {}
_GUARD = threading.Lock()
_STOP = threading.Event()


class StoppedError(Exception):
    """A transfer ended early because the user stopped the program."""


@contextmanager
def slot(host: str, limit: int) -> Iterator[None]:
    """Wait for one of ``limit`` places at ``host``; all threads of this process share them."""
    with _GUARD:
        places = _SLOTS.setdefault((host, limit), threading.BoundedSemaphore(limit))
    with places:
        yield


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
