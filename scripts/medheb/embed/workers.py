"""Worker processes that decode and process parts ahead of the network.

Workers are spawned, never forked: a fork would copy threads and locks of the network's libraries. They are handed the
adapter once and then only parts; what they have ready is bounded. They end when the process that started them is gone,
however it went.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager

from medheb.core.errors import MedhebError
from medheb.embed.plan import Batch
from medheb.embed.reading import ImageReader
from medheb.models.base import Adapter, Prepared, Rendered

PARTS_A_TURN = 8  # what a worker is handed at once
TURNS_AHEAD = 2  # of every worker
BATCHES_AHEAD = 2
WATCH_SECONDS = 2.0

_adapter: Adapter | None = None
_reader: ImageReader | None = None


def prepared_batches(
    adapter: Adapter, reader: ImageReader, batches: Sequence[Batch], workers: int
) -> Generator[tuple[Batch, list[Prepared]]]:
    """Batches in their order, each with its parts decoded and processed.

    Args:
        adapter: what prepares a part.
        reader: what reads its images.
        batches: in the order in which the network takes them.
        workers: processes; 0 prepares in this one.

    Raises:
        MedhebError: a part that cannot be prepared, or a worker that was killed.
    """
    if not workers:
        for batch in batches:
            yield batch, [adapter.prepare(part, reader) for part in batch.parts]
        return
    with _pool(adapter, reader, workers) as pool:
        waiting: deque[tuple[Batch, list[Future[list[Prepared]]]]] = deque()
        upcoming = iter(batches)
        exhausted = False
        while waiting or not exhausted:
            while not exhausted and (
                len(waiting) < BATCHES_AHEAD or sum(len(turns) for _, turns in waiting) < TURNS_AHEAD * workers
            ):
                following = next(upcoming, None)
                if following is None:
                    exhausted = True
                    break
                turns = [pool.submit(_prepare, turn) for turn in _turns(following, workers)]
                waiting.append((following, turns))
            if waiting:
                batch, turns = waiting.popleft()
                try:
                    prepared = [part for turn in turns for part in turn.result()]
                except BrokenProcessPool as error:
                    raise MedhebError(
                        "a worker that decodes images",
                        "was killed, most often because memory ran out",
                        "Give the job more memory or set embed.workers lower, and run `medheb retry`",
                    ) from error
                yield batch, prepared


def _turns(batch: Batch, workers: int) -> list[tuple[Rendered, ...]]:
    size = max(1, min(PARTS_A_TURN, len(batch.parts) // workers))
    return [batch.parts[start : start + size] for start in range(0, len(batch.parts), size)]


@contextmanager
def _pool(adapter: Adapter, reader: ImageReader, workers: int) -> Iterator[ProcessPoolExecutor]:
    pool = ProcessPoolExecutor(
        workers,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_start,
        initargs=(adapter, reader, os.getpid()),
    )
    try:
        with _one_thread_each():
            pool.submit(_nothing)  # starts all workers
        yield pool
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Workers inherit the environment; they are many, so the libraries in each must not start threads of their own."""
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(dict.fromkeys(names, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _start(adapter: Adapter, reader: ImageReader, parent: int) -> None:
    global _adapter, _reader  # a worker serves one job all its life
    _adapter, _reader = adapter, reader
    # The parent decides when to stop: at the end of a wall time all processes of a job get the signal.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(WATCH_SECONDS)
    os._exit(1)


def _nothing() -> None:
    """Makes the pool start."""


def _prepare(parts: Sequence[Rendered]) -> list[Prepared]:
    if _adapter is None or _reader is None:
        raise RuntimeError("a worker was handed parts before its adapter")
    return [_adapter.prepare(part, _reader) for part in parts]
