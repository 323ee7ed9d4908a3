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
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from types import TracebackType
from typing import Self

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


class PreparedBatches:
    """Batches in their order, each with its parts decoded and processed; a context, which ends its workers.

    Workers start to decode when the context is entered, so that weights can be loaded meanwhile.

    Args:
        adapter: what prepares a part.
        reader: what reads its images.
        batches: in the order in which the network takes them.
        workers: processes; 0 prepares in this one.
    """

    def __init__(self, adapter: Adapter, reader: ImageReader, batches: Sequence[Batch], workers: int) -> None:
        self.adapter, self.reader, self.workers = adapter, reader, workers
        self._upcoming = deque(batches)
        self._waiting: deque[tuple[Batch, list[Future[list[Prepared]]]]] = deque()
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Self:
        if self.workers and self._upcoming:
            self._pool = ProcessPoolExecutor(
                self.workers,
                mp_context=multiprocessing.get_context("spawn"),
                initializer=_start,
                initargs=(self.adapter, self.reader, os.getpid()),
            )
            with _one_thread_each():
                self._submit(self._pool)  # starts all workers
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool:
            self._pool.shutdown(wait=True, cancel_futures=True)

    def __iter__(self) -> Iterator[tuple[Batch, list[Prepared]]]:
        """Each batch once.

        Raises:
            MedhebError: a part that cannot be prepared, or a worker that was killed.
        """
        while self._upcoming or self._waiting:
            if self._pool is None:
                batch = self._upcoming.popleft()
                yield batch, [self.adapter.prepare(part, self.reader) for part in batch.parts]
                continue
            batch, turns = self._waiting.popleft()
            try:
                prepared = [part for turn in turns for part in turn.result()]
                self._submit(self._pool)
            except BrokenProcessPool as error:
                raise MedhebError(
                    "a worker that decodes images",
                    "was killed, most often because memory ran out",
                    "Give the job more memory or set embed.workers lower, and run `medheb retry`",
                ) from error
            yield batch, prepared

    def _submit(self, pool: ProcessPoolExecutor) -> None:
        """Hand out as many turns as may be ready ahead of the network."""
        while self._upcoming and (
            len(self._waiting) < BATCHES_AHEAD
            or sum(len(turns) for _, turns in self._waiting) < TURNS_AHEAD * self.workers
        ):
            batch = self._upcoming.popleft()
            self._waiting.append((batch, [pool.submit(_prepare, turn) for turn in _turns(batch, self.workers)]))


def _turns(batch: Batch, workers: int) -> list[tuple[Rendered, ...]]:
    size = max(1, min(PARTS_A_TURN, len(batch.parts) // workers))
    return [batch.parts[start : start + size] for start in range(0, len(batch.parts), size)]


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


def _prepare(parts: Sequence[Rendered]) -> list[Prepared]:
    if _adapter is None or _reader is None:
        raise RuntimeError("a worker was handed parts before its adapter")
    return [_adapter.prepare(part, _reader) for part in parts]
