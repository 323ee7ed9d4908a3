"""Receive a transfer, write it and digest it at the same time: the last two in threads of their own."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from typing import IO

from medheb.fetch.expected import Check

BLOCK_BYTES = 1 << 20
# Larger writes get larger pieces of the page cache, whose memory is cold: twice the time on virtual machines.
WRITE_BYTES = 1 << 16
# The disk starts on what has come after so many bytes, so that the flush at the end finds little left to do.
WRITE_BACK_BYTES = 16 << 20
# Blocks that may wait for disk and digest; bounds the memory.
WAITING = 4


class Sink:
    """Takes bytes in pieces of any size (a TLS record has 16 KiB) and passes them on in blocks.

    Args:
        stream: gets the bytes, in ``writer``.
        check: digests them, in ``digester``.
        writer: one thread.
        digester: one thread.
    """

    def __init__(
        self, stream: IO[bytes], check: Check, writer: ThreadPoolExecutor, digester: ThreadPoolExecutor
    ) -> None:
        self._stream, self._check = stream, check
        self._writer, self._digester = writer, digester
        self._block = bytearray()
        self._waiting: deque[tuple[Future[None], Future[None]]] = deque()
        self.size = check.size
        self._written = self._written_back = check.size

    def add(self, piece: bytes) -> None:
        """Take the next bytes.

        Raises:
            OSError: an earlier block could not be written.
        """
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
        """Pass on everything; the stream and the check then hold the same bytes.

        Raises:
            OSError: a block could not be written.
        """
        self.flush()
        while self._waiting:
            self._settle()

    def _pass_on(self, block: bytes) -> None:
        self._waiting.append(
            (self._writer.submit(self._write, block), self._digester.submit(self._check.update, block))
        )
        if len(self._waiting) > WAITING:
            self._settle()

    def _settle(self) -> None:
        both = self._waiting.popleft()
        wait(both)
        for future in both:
            future.result()

    def _write(self, block: bytes) -> None:
        whole = memoryview(block)
        for start in range(0, len(block), WRITE_BYTES):
            self._stream.write(whole[start : start + WRITE_BYTES])
        self._written += len(block)
        fresh = self._written - self._written_back
        if fresh >= WRITE_BACK_BYTES and hasattr(os, "posix_fadvise"):
            # Linux then begins to write what is not yet on the disk, and does not wait for it.
            self._stream.flush()
            with suppress(OSError):  # a hint that a file system need not take
                os.posix_fadvise(self._stream.fileno(), self._written_back, fresh, os.POSIX_FADV_DONTNEED)
            self._written_back = self._written


@contextmanager
def sink(stream: IO[bytes], check: Check) -> Iterator[Sink]:
    """A sink that is finished at the end of the block, also after an error: what came counts for a resumption."""
    with ThreadPoolExecutor(max_workers=1) as writer, ThreadPoolExecutor(max_workers=1) as digester:
        opened = Sink(stream, check, writer, digester)
        try:
            yield opened
        finally:
            opened.finish()
