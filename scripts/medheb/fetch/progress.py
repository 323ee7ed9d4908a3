"""Progress of transfers: bars on a terminal, one line a minute in a log."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

LOG = logging.getLogger("medheb.fetch")
LINE_SECONDS = 60.0
MEGABYTE = 1e6


class Meter:
    """Progress of one file. ``total`` is None if the size is unknown.

    Args:
        what: the file, as the user knows it.
        total: its bytes.
    """

    def __init__(self, what: str, total: int | None) -> None:
        self._what, self._total = what, total
        self._done = 0
        self._fresh = 0
        self._started = self._last = time.monotonic()

    def add(self, count: int) -> None:
        """``count`` more bytes have come."""
        self._done += count
        self._fresh += count
        now = time.monotonic()
        if now - self._last >= LINE_SECONDS:
            self._last = now
            self._line(self._fresh / (now - self._started))

    def restart(self, done: int) -> None:
        """The transfer begins again with ``done`` bytes in hand."""
        self._done = done

    def _line(self, speed: float) -> None:
        of_all, left = "", ""
        if self._total:
            of_all = f" of {self._total / MEGABYTE:.0f}"
            seconds = int((self._total - self._done) / speed) if speed else 0
            left = f", {seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02} left" if speed else ", stands still"
        LOG.info("%s: %.0f%s MB, %.1f MB/s%s", self._what, self._done / MEGABYTE, of_all, speed / MEGABYTE, left)


class BarMeter(Meter):
    """The same as a bar on a board that all running transfers share."""

    def __init__(self, what: str, total: int | None, board: Progress) -> None:
        super().__init__(what, total)
        self._board = board
        self._task = board.add_task(what, total=total)

    def add(self, count: int) -> None:
        """``count`` more bytes have come."""
        self._board.advance(self._task, count)

    def restart(self, done: int) -> None:
        """The transfer begins again with ``done`` bytes in hand."""
        self._board.update(self._task, completed=done)

    def close(self) -> None:
        """Take the bar away."""
        self._board.remove_task(self._task)


_GUARD = threading.Lock()
_BOARD: list[Progress] = []
_USERS = 0


@contextmanager
def meter(what: str, total: int | None) -> Iterator[Meter]:
    """The meter of one transfer: a bar if stderr is a terminal, else lines in the log."""
    if not sys.stderr.isatty():
        yield Meter(what, total)
        return
    bar = BarMeter(what, total, _enter_board())
    try:
        yield bar
    finally:
        bar.close()
        _leave_board()


def _enter_board() -> Progress:
    global _USERS
    with _GUARD:
        if not _BOARD:
            text = TextColumn("{task.description}", markup=False)
            columns = (text, BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
            _BOARD.append(Progress(*columns, console=Console(stderr=True), transient=True))
            _BOARD[0].start()
        _USERS += 1
        return _BOARD[0]


def _leave_board() -> None:
    global _USERS
    with _GUARD:
        _USERS -= 1
        if not _USERS:
            _BOARD.pop().stop()
