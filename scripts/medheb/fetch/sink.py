"""Write a transfer and digest it at the same time: the digest runs in a second thread."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import IO

from medheb.fetch.expected import Check

BLOCK_BYTES = 1 << 19
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
        self._stream.write(block)
        self._waiting.append(self._pool.submit(self._check.update, block))
        if len(self._waiting) > WAITING:
            self._waiting.popleft().result()


@contextmanager
def sink(stream: IO[bytes], check: Check) -> Iterator[Sink]:
    """A sink that is finished at the end of the block, also after an error: what came counts for a resumption."""
    with ThreadPoolExecutor(max_workers=1) as pool:
        opened = Sink(stream, check, pool)
        try:
            yield opened
        finally:
            opened.finish()
