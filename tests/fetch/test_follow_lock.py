"""Host changes, refresh, fetch: through the real clients and a server on this machine."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from plan_samples import dataset, file, make_run
from servers.plain import Loopback, loopback
from servers.zenodo import put_record

from medheb.core.errors import MedhebError
from medheb.fetch import sessions
from medheb.fetch.follow import follow_lock
from medheb.fetch.lock import lock_file
from medheb.fetch.refresh import refresh
from medheb.fetch.source import fetch_source
from medheb.manifest.load import Run

OLD, NEW = b"old content\n", b"new content\n"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Loopback]:
    monkeypatch.setattr(sessions, "BACKOFF_S", 0.0)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.chdir(tmp_path)
    with loopback() as running:
        for name in ("ZENODO", "HTTPS"):
            monkeypatch.setenv(f"MEDHEB_{name}_URL", running.url)
        yield running


def content(run: Run) -> bytes:
    """What a fetch leaves."""
    status = fetch_source(run, "a")
    assert status.ok, status
    return (run.layout.source_files("a") / "a.txt").read_bytes()


def zenodo(tmp_path: Path, **entry: Any) -> Run:
    return make_run(tmp_path, dataset("a", "zenodo", files=[file("a.txt", None) | entry]), accept="open")


def test_unpinned_source_is_fetched_again_when_its_lock_changes(tmp_path: Path, server: Loopback) -> None:
    run = zenodo(tmp_path)
    put_record(server, "1", {"a.txt": OLD})
    assert "first lock: 1 files with 12 bytes" in refresh(run, "a").differences
    assert content(run) == OLD
    assert not follow_lock(run, "a")
    put_record(server, "1", {"a.txt": NEW})
    assert content(run) == OLD, "nobody has looked yet"
    (line,) = refresh(run, "a").differences
    assert line.startswith("changed  a.txt: md5 ")
    assert follow_lock(run, "a")
    assert content(run) == NEW
    assert not follow_lock(run, "a")
    assert not refresh(run, "a").changed


def test_first_lock_is_held_against_what_came_before_it(tmp_path: Path, server: Loopback) -> None:
    run = zenodo(tmp_path)
    put_record(server, "1", {"a.txt": OLD})
    assert content(run) == OLD
    refresh(run, "a")
    assert not follow_lock(run, "a"), "it is what came"
    put_record(server, "1", {"a.txt": NEW})
    refresh(run, "a")
    assert follow_lock(run, "a")


def test_changed_mark_of_a_plain_host_counts(tmp_path: Path, server: Loopback) -> None:
    run = make_run(tmp_path, dataset("a", files=[file("a.txt", None)]), accept="open")
    server.files["/a.txt"] = OLD
    mark = refresh(run, "a").lock.files[0].mark
    assert mark
    assert content(run) == OLD
    follow_lock(run, "a")
    server.files["/a.txt"] = NEW
    assert refresh(run, "a").lock.files[0].mark != mark
    assert follow_lock(run, "a")
    assert content(run) == NEW


def test_pinned_source_keeps_its_right_content(tmp_path: Path, server: Loopback) -> None:
    run = zenodo(tmp_path, sha256=hashlib.sha256(OLD).hexdigest())
    put_record(server, "1", {"a.txt": OLD})
    refresh(run, "a")
    assert content(run) == OLD
    put_record(server, "1", {"a.txt": NEW})
    assert refresh(run, "a").changed
    assert not follow_lock(run, "a")
    assert content(run) == OLD


def test_no_lock_another_source_and_a_damaged_lock(tmp_path: Path, server: Loopback) -> None:
    run = zenodo(tmp_path)
    assert not follow_lock(run, "a")
    assert not follow_lock(run, "zzz")
    assert not (tmp_path / "sources").exists()
    lock_file(run, "a").parent.mkdir(parents=True)
    lock_file(run, "a").write_text("{")
    with pytest.raises(MedhebError, match=r"a\.json: is not JSON.*medheb refresh"):
        follow_lock(run, "a")


def test_folder_that_cannot_be_written_is_left_to_the_fetch(tmp_path: Path, server: Loopback) -> None:
    run = zenodo(tmp_path)
    put_record(server, "1", {"a.txt": OLD})
    refresh(run, "a")
    (tmp_path / "sources").mkdir()
    (tmp_path / "sources" / "a").write_text("in the way")
    assert not follow_lock(run, "a")
