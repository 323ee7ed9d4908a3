"""The sink: what comes in pieces of any size is written and digested whole."""

from __future__ import annotations

import hashlib
import random
from pathlib import Path

import pytest

from medheb.fetch import sink as sinks
from medheb.fetch.expected import Check, Expected


@pytest.mark.parametrize("largest", [100, 3_000, 20_000])
def test_pieces_of_any_size_become_the_same_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, largest: int) -> None:
    monkeypatch.setattr(sinks, "BLOCK_BYTES", 4096)
    monkeypatch.setattr(sinks, "WRITE_BYTES", 1000)
    monkeypatch.setattr(sinks, "WRITE_BACK_BYTES", 10_000)
    draw = random.Random(largest)
    content = draw.randbytes(200_000)
    check = Check(Expected(len(content), hashlib.sha256(content).hexdigest()))
    with (tmp_path / "came").open("xb") as stream, sinks.sink(stream, check) as received:
        start = 0
        while start < len(content):
            piece = content[start : start + draw.randint(1, largest)]
            received.add(piece)
            start += len(piece)
        assert received.size == len(content)
    check.finish("file")
    assert (tmp_path / "came").read_bytes() == content


def test_the_disk_begins_before_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[int, int]] = []
    monkeypatch.setattr(sinks, "WRITE_BACK_BYTES", 2 << 20)
    monkeypatch.setattr(sinks.os, "POSIX_FADV_DONTNEED", 4, raising=False)
    monkeypatch.setattr(
        sinks.os, "posix_fadvise", lambda handle, start, count, advice: told.append((start, count)), raising=False
    )
    with (tmp_path / "came").open("xb") as stream, sinks.sink(stream, Check(Expected())) as received:
        for _ in range(5):
            received.add(bytes(1 << 20))
    assert told == [(0, 2 << 20), (2 << 20, 2 << 20)]


def test_a_block_that_cannot_be_written_is_an_error_and_not_a_hole(tmp_path: Path) -> None:
    with (tmp_path / "came").open("xb") as stream:
        stream.close()
        with pytest.raises(ValueError, match="closed file"), sinks.sink(stream, Check(Expected())) as received:
            received.add(bytes(1 << 20))
