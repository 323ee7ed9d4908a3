"""A clean end when the cluster asks for one: SIGTERM is noted, the running batch ends, what is done is stored."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

TERMINATED = 128 + signal.SIGTERM


class StopRequest:
    """Set once the process was asked to end."""

    def __init__(self) -> None:
        self.asked = False

    def _note(self, signum: int, frame: FrameType | None) -> None:
        self.asked = True


@contextmanager
def stop_request() -> Iterator[StopRequest]:
    """Note SIGTERM instead of dying of it, while the block runs; only the main thread can."""
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    before = signal.signal(signal.SIGTERM, request._note)
    try:
        yield request
    finally:
        signal.signal(signal.SIGTERM, before)
