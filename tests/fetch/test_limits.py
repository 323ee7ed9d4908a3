"""The limit per host holds across the processes of one machine, and nobody who died keeps a place."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from medheb.fetch import limits
from medheb.fetch.limits import slot

WORK = """
import sys, time
from medheb.fetch.limits import slot
with slot(sys.argv[1], int(sys.argv[2])):
    print(time.monotonic(), flush=True)
    time.sleep(float(sys.argv[3]))
    print(time.monotonic(), flush=True)
"""


@pytest.fixture(autouse=True)
def temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Places of this test alone."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def start(host: str, limit: int, seconds: float) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WORK, host, str(limit), str(seconds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def most_at_once(spans: list[tuple[float, float]]) -> int:
    return max(sum(begin <= moment < end for begin, end in spans) for moment, _ in spans)


def test_processes_share_the_places_of_a_host() -> None:
    running = [start("data.example.org", 2, 0.5) for _ in range(5)]
    spans = [tuple(map(float, process.communicate()[0].split())) for process in running]
    assert all(len(span) == 2 for span in spans)
    assert most_at_once(spans) == 2


def test_another_host_has_places_of_its_own() -> None:
    first = start("data.example.org", 1, 30)
    assert first.stdout
    assert first.stdout.readline()
    began = time.monotonic()
    with slot("other.example.org", 1):
        assert time.monotonic() - began < 5
    first.kill()
    first.communicate()


def test_a_killed_process_leaves_its_place() -> None:
    holder = start("data.example.org", 1, 60)
    assert holder.stdout
    assert holder.stdout.readline()
    waiting = start("data.example.org", 1, 0)
    time.sleep(1)
    assert waiting.poll() is None, "the only place is taken"
    holder.kill()
    holder.communicate()
    assert len(waiting.communicate(timeout=20)[0].split()) == 2


def test_a_folder_of_somebody_else_is_not_used(temporary_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = limits._seats_folder()
    assert folder
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.rmdir()
    folder.symlink_to(temporary_folder)
    assert limits._seats_folder() is None
    with slot("data.example.org", 1):
        assert not [path for path in temporary_folder.iterdir() if path != folder]


def test_a_disk_without_room_for_locks_stops_nothing(temporary_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (temporary_folder / "file").touch()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary_folder / "file"))
    with slot("data.example.org", 1):
        pass
