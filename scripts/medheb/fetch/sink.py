"""Write a transfer and digest it at the same time: the digest runs in a second thread."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import IO

from medheb.fetch.expected import Check

BLOCK_BYTES = 1 << 20
# Larger writes get larger pieces of the page cache, whose memory is cold: twice the time on virtual machines.
WRITE_BYTES = 1 << 16
# The disk starts on what has come after so many bytes, so that the flush at the end finds little left to do.
WRITE_BACK_BYTES = 16 << 20
# Blocks that may wait for the digest; bounds the memory.
WAITING = 4


class Sink:
    """Takes bytes in pieces of any size (a TLS record has 16 KiB) and passes them on in blocks.

    Args:
        stream: gets the bytes.
        check: digests them, in ``pool``.
        pool: one thread.
    """

    def __init__(self, stream: IO[bytes], check: Check, pool: ThreadPoolExecutor) -> None:
        self._stream, self._check, self._pool = stream, check, pool
        self._block = bytearray()
        self._waiting: deque[Future[None]] = deque()
        self.size = check.size
        self._written_back = check.size

    def add(self, piece: bytes) -> None:
        """Take the next bytes."""
        self.size += len(piece)
        if not self._block and len(piece) >= BLOCK_BYTES // 2:
            self._pass_on(piece)
            return
        self._block += piece
        if len(self._block) >= BLOCK_BYTES:
            self.flush()

    def flush(self) -> None:
        """Pass on what is there."""
        if self._block:
            block = bytes(self._block)
            self._block.clear()
            self._pass_on(block)

    def finish(self) -> None:
        """Pass on everything; the stream and the check then hold the same bytes."""
        self.flush()
        while self._waiting:
            self._waiting.popleft().result()

    def _pass_on(self, block: bytes) -> None:
        whole = memoryview(block)
        for start in range(0, len(block), WRITE_BYTES):
            self._stream.write(whole[start : start + WRITE_BYTES])
        self._write_back()
        self._waiting.append(self._pool.submit(self._check.update, block))
        if len(self._waiting) > WAITING:
            self._waiting.popleft().result()

    def _write_back(self) -> None:
        fresh = self.size - self._written_back
        if fresh >= WRITE_BACK_BYTES and hasattr(os, "posix_fadvise"):
            # Linux then begins to write what is not yet on the disk, and does not wait for it.
            self._stream.flush()
            with suppress(OSError):  # a hint that a file system need not take
                os.posix_fadvise(self._stream.fileno(), self._written_back, fresh, os.POSIX_FADV_DONTNEED)
            self._written_back = self.size


@contextmanager
def sink(stream: IO[bytes], check: Check) -> Iterator[Sink]:
    """A sink that is finished at the end of the block, also after an error: what came counts for a resumption."""
    with ThreadPoolExecutor(max_workers=1) as pool:
        opened = Sink(stream, check, pool)
        try:
            yield opened
        finally:
            opened.finish()
