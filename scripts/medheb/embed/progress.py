"""How far an embedding job is: inputs, tokens a second, time left."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from datetime import timedelta

log = logging.getLogger("medheb.embed")
EVERY_SECONDS = 15.0


class Progress:
    """Counts what is done and says so every few seconds.

    Args:
        title: model, for the line.
        inputs: to be embedded.
        tokens: of all of them, as planned.
        clock: seconds.
    """

    def __init__(self, title: str, inputs: int, tokens: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.title, self.inputs, self.tokens = title, inputs, tokens
        self.clock = clock
        self.started = self.said = clock()
        self.done_inputs = self.done_tokens = 0

    def add(self, inputs: int, tokens: int) -> None:
        """Count a batch; the last one is always told."""
        self.done_inputs += inputs
        self.done_tokens += tokens
        now = self.clock()
        if now - self.said >= EVERY_SECONDS or self.done_inputs == self.inputs:
            self.said = now
            log.info("%s", self.line(now))

    def line(self, now: float) -> str:
        """The line at a time."""
        rate = self.done_tokens / max(now - self.started, 1e-9)
        left = timedelta(seconds=round((self.tokens - self.done_tokens) / max(rate, 1e-9)))
        return f"{self.title}: {self.done_inputs}/{self.inputs} inputs, {rate:,.0f} tokens/s, {left} left"
