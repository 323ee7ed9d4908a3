"""The line that says how far a job is."""

import logging

import pytest

from medheb.embed.progress import Progress


def test_inputs_tokens_a_second_and_time_left(caplog: pytest.LogCaptureFixture) -> None:
    now = [100.0]
    progress = Progress("toy", inputs=30, tokens=6000, clock=lambda: now[0])
    with caplog.at_level(logging.INFO, logger="medheb.embed"):
        now[0] = 110.0
        progress.add(5, 2000)
        assert not caplog.messages, "not at every batch"
        now[0] = 120.0
        progress.add(5, 1000)
        now[0] = 121.0
        progress.add(20, 3000)
    assert caplog.messages == [
        "toy: 10/30 inputs, 150 tokens/s, 0:00:20 left",
        "toy: 30/30 inputs, 286 tokens/s, 0:00:00 left",
    ]
