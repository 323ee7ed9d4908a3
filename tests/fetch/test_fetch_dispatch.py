"""The fetch step over all hosts: gate, own copy, hosts in order, layout of files, marker, and statuses."""

from __future__ import annotations

import hashlib
import json
import logging
import multiprocessing
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from dispatch_samples import a_run, content, delivered, loose, pinned
from fetch_samples import make_tar, make_zip, tar_member
from servers.github import put_commit
from servers.plain import Loopback, loopback
from servers.zenodo import put_record

from medheb.core.layout import Layout
from medheb.core.status import OK, Status, read_status
from medheb.fetch import delivery, sessions, source
from medheb.fetch.complete import read_complete
from medheb.fetch.lock import lock_file
from medheb.fetch.refresh import refresh
from medheb.fetch.source import fetch_source
from medheb.manifest.config import Config
from medheb.manifest.dataset import AcceptedDigest, Unpack
from medheb.manifest.hosts import GitHubHost, HttpsHost, PortalHost, TorrentHost, ZenodoHost

ZENODO = ZenodoHost(kind="zenodo", record="77")
COMMIT = "ab" * 20
GITHUB = GitHubHost(kind="github", repository="a/b", commit=COMMIT)
TORRENT = TorrentHost(kind="academic_torrents", info_hash=COMMIT)
NPZ, TABLE = b"npz" * 1000, b"id,label\n1,2\n"
CANARY = "canary-0dd5"
ALL = Unpack(include=("*",), max_bytes=1_000_000)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Loopback]:
    monkeypatch.setattr(sessions, "BACKOFF_S", 0.0)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.delenv("ZENODO_TOKEN", raising=False)
    monkeypatch.delenv("GITHUB_TOKEN", raising=False)
    with loopback() as running:
        for name in ("ZENODO", "GITHUB_RAW", "HTTPS"):
            monkeypatch.setenv(f"MEDHEB_{name}_URL", running.url)
        yield running


def test_plain_files_pinned_and_not(server: Loopback, layout: Layout) -> None:
    put_record(server, "77", {"a.npz": NPZ, "sub.csv": TABLE, "other.npz": b"x"})
    run = a_run(layout, ZENODO, pinned("a.npz", NPZ), loose("sub.csv"))
    assert delivered(run) == {"a.npz": NPZ, "sub.csv": TABLE}
    archive = layout.archive(hashlib.sha256(NPZ).hexdigest(), "a.npz")
    assert archive.samefile(layout.source_files("sample") / "a.npz"), "one copy on the disk, two names"
    assert (layout.sources / "sample/archives/sub.csv").read_bytes() == TABLE
    complete = read_complete(layout.sources / "sample/COMPLETE.json")
    assert (complete.host, complete.served_by, complete.unpack) == (ZENODO, ZENODO, None)
    assert [file.sha256 for file in complete.archives] == [hashlib.sha256(body).hexdigest() for body in (NPZ, TABLE)]
    asked = len(server.requests)
    assert delivered(run) == {"a.npz": NPZ, "sub.csv": TABLE}
    assert len(server.requests) == asked, "a complete source asks nobody"


def test_where_hard_links_are_not_possible(server: Loopback, layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(delivery.os, "link", refuse)
    put_record(server, "77", {"a.npz": NPZ})
    assert delivered(a_run(layout, ZENODO, pinned("a.npz", NPZ))) == {"a.npz": NPZ}


def test_a_manifest_without_files_takes_what_the_host_lists(server: Loopback, layout: Layout) -> None:
    put_record(server, "77", {"a.npz": NPZ, "b.csv": TABLE})
    assert delivered(a_run(layout, ZENODO)) == {"a.npz": NPZ, "b.csv": TABLE}


def test_several_archives_and_a_plain_file(server: Loopback, layout: Layout, tmp_path: Path) -> None:
    one = make_zip(tmp_path / "one.zip", {"T1/a.nii": b"1", "readme.txt": b"no"}).read_bytes()
    two = make_tar(tmp_path / "two.tar.gz", tar_member("T2/a.nii", b"2")).read_bytes()
    put_record(server, "77", {"one.zip": one, "two.tar.gz": two, "labels.csv": TABLE})
    files = (pinned("one.zip", one), pinned("two.tar.gz", two), pinned("labels.csv", TABLE))
    rules = Unpack(include=("T1/*", "T2/*"), max_bytes=1000)
    assert delivered(a_run(layout, ZENODO, *files, unpack=rules)) == {
        "T1/a.nii": b"1",
        "T2/a.nii": b"2",
        "labels.csv": TABLE,
    }
    status = fetch_source(a_run(layout, ZENODO, *files, unpack=Unpack(include=("T1/*", "T3/*"))), "sample")
    assert (status.state, "matches unpack.include 'T3/*'" in status.reason) == ("failed", True)


def test_archives_that_hold_the_same_name(server: Loopback, layout: Layout, tmp_path: Path) -> None:
    one = make_zip(tmp_path / "one.zip", {"a.txt": b"1"}).read_bytes()
    two = make_zip(tmp_path / "two.zip", {"A.txt": b"2"}).read_bytes()
    put_record(server, "77", {"one.zip": one, "two.zip": two})
    status = fetch_source(a_run(layout, ZENODO, unpack=ALL), "sample")
    assert status.state == "failed"
    assert "A.txt" in status.reason
    assert not layout.source_files("sample").exists()


def test_mirror_serves_when_the_first_host_is_down(server: Loopback, layout: Layout) -> None:
    server.faults["/api/records/77"] = ["always 503"]
    put_commit(server, "a/b", COMMIT, {"a.npz": NPZ})
    run = a_run(layout, ZENODO, pinned("a.npz", NPZ), mirrors=(TORRENT, GITHUB))
    assert delivered(run) == {"a.npz": NPZ}
    complete = read_complete(layout.sources / "sample/COMPLETE.json")
    assert (complete.host, complete.served_by) == (ZENODO, GITHUB)
    asked = len(server.requests)
    assert delivered(run) == {"a.npz": NPZ}
    assert len(server.requests) == asked


def test_all_hosts_fail(server: Loopback, layout: Layout, caplog: pytest.LogCaptureFixture) -> None:
    server.faults["/api/records/77"] = ["always 503"]
    run = a_run(layout, ZENODO, pinned("a.npz", NPZ), mirrors=(GITHUB,))
    texts = set()
    for _ in range(2):
        status = fetch_source(run, "sample")
        texts.add(layout.source_status("sample").read_bytes())
    assert (status.state, status.origin) == ("blocked", "fetch sample")
    assert "overloaded (503) (all 2 hosts failed; the log has each reason)" in status.reason
    assert len(texts) == 1
    assert "does not have the file (404)" in caplog.text


def test_a_torrent_alone_says_so(layout: Layout) -> None:
    status = fetch_source(a_run(layout, TORRENT, pinned("a.npz", NPZ)), "sample")
    assert status.state == "blocked"
    assert f"magnet:?xt=urn:btih:{COMMIT}" in status.remedy


@pytest.mark.parametrize("known", ["bytes", "md5"])
def test_upstream_changed_before_the_transfer(server: Loopback, layout: Layout, known: str) -> None:
    put_record(server, "77", {"a.npz": NPZ})
    change = {"bytes": {"bytes": 5}, "md5": {"md5": "0" * 32}}[known]
    status = fetch_source(a_run(layout, ZENODO, pinned("a.npz", NPZ, **change)), "sample")
    assert status.state == "failed"
    assert "upstream changed: expected" in status.reason
    assert "'accepted'" in status.remedy
    assert server.paths() == ["/api/records/77"]


def test_accepted_digest_lets_a_changed_file_pass(server: Loopback, layout: Layout) -> None:
    put_record(server, "77", {"a.npz": NPZ})
    note = AcceptedDigest(sha256=hashlib.sha256(NPZ).hexdigest(), note="an erratum of the publisher")
    old = pinned("a.npz", b"older", accepted=(note,))
    run = a_run(layout, ZENODO, old)
    assert delivered(run) == {"a.npz": NPZ}
    assert read_complete(layout.sources / "sample/COMPLETE.json").archives[0].sha256 == note.sha256
    asked = len(server.requests)
    assert delivered(run) == {"a.npz": NPZ}
    assert len(server.requests) == asked


def test_damage_is_mended_without_a_new_download(server: Loopback, layout: Layout) -> None:
    put_record(server, "77", {"a.npz": NPZ, "b.csv": TABLE})
    run = a_run(layout, ZENODO, pinned("a.npz", NPZ), loose("b.csv", md5=hashlib.md5(TABLE).hexdigest()))
    delivered(run)
    (layout.source_files("sample") / "b.csv").unlink()
    (layout.source_files("sample") / "more").write_bytes(b"")
    server.requests.clear()
    assert delivered(run) == {"a.npz": NPZ, "b.csv": TABLE}
    assert server.paths() == ["/api/records/77"]


def test_damaged_download_is_fetched_again(server: Loopback, layout: Layout) -> None:
    put_record(server, "77", {"a.npz": NPZ})
    run = a_run(layout, ZENODO, pinned("a.npz", NPZ))
    delivered(run)
    victim = layout.source_files("sample") / "a.npz"
    victim.write_bytes(b"x" + NPZ[1:-1])
    assert delivered(run) == {"a.npz": NPZ}


def test_terms_come_first(server: Loopback, layout: Layout) -> None:
    put_record(server, "77", {"a.npz": NPZ})
    status = fetch_source(a_run(layout, ZENODO, config=Config(accept="asked")), "sample")
    assert status.state == "blocked"
    assert "medheb accept sample" in status.remedy
    assert server.requests == []


def test_own_copy_comes_before_the_host(server: Loopback, layout: Layout, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / "a.npz").write_bytes(NPZ)
    config = Config(accept="open", local_copies={"sample": str(copy)})
    assert fetch_source(a_run(layout, ZENODO, pinned("a.npz", NPZ), config=config), "sample") == OK
    (copy / "a.npz").write_bytes(b"wrong" + NPZ[5:])
    status = fetch_source(a_run(layout, ZENODO, pinned("a.npz", NPZ), config=config), "sample")
    assert status.state == "failed"
    assert read_status(layout.source_status("sample")) == status
    assert server.requests == []


def test_portal_is_blocked_with_its_page(layout: Layout) -> None:
    host = PortalHost(kind="portal", name="redivis", page="https://redivis.example.org/x")
    status = fetch_source(a_run(layout, host, pinned("a.npz", NPZ)), "sample")
    assert status.state == "blocked"
    assert "https://redivis.example.org/x" in status.remedy
    assert "local_copies.sample" in status.remedy


def test_short_disk_names_the_source(server: Loopback, layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    put_record(server, "77", {"a.npz": NPZ})
    server.answers["/api/records/77"]["files"][0]["size"] = 10**18
    status = fetch_source(a_run(layout, ZENODO), "sample")
    assert status.state == "blocked"
    assert "that source sample needs" in status.reason
    assert server.paths() == ["/api/records/77"]


def test_full_disk_while_downloading(server: Loopback, layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    put_record(server, "77", {"a.npz": NPZ})
    written: list[Status] = []
    monkeypatch.setattr(source, "write_status", lambda _, status: written.append(status))

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("medheb.core.files.os.fsync", full)
    fetch_source(a_run(layout, ZENODO, pinned("a.npz", NPZ)), "sample")
    assert (written[0].state, "the disk is full" in written[0].reason) == ("blocked", True)
    assert content(layout.sources) == {}


def test_folder_that_nobody_may_write(server: Loopback, layout: Layout) -> None:
    put_record(server, "77", {"a.npz": NPZ})
    layout.sources.mkdir(parents=True)
    # Not even root makes folders there.
    (layout.sources / "archives").symlink_to("/sys/kernel")
    status = fetch_source(a_run(layout, ZENODO, pinned("a.npz", NPZ)), "sample")
    assert status.state == "blocked"
    assert "the folder for it cannot be used" in status.reason
    assert "paths in the configuration" in status.remedy


def test_archive_folder_that_cannot_be_made(server: Loopback, layout: Layout) -> None:
    put_record(server, "77", {"a.npz": NPZ})
    layout.sources.mkdir(parents=True)
    (layout.sources / "archives").write_text("a file where the folder belongs")
    status = fetch_source(a_run(layout, ZENODO, pinned("a.npz", NPZ)), "sample")
    assert status.state == "blocked"
    assert "the folder for it cannot be used" in status.reason


def test_harmful_listing(server: Loopback, layout: Layout) -> None:
    put_record(server, "77", {"a.npz": NPZ})
    server.answers["/api/records/77"]["files"][0]["key"] = "../../evil"
    status = fetch_source(a_run(layout, ZENODO), "sample")
    assert status.state == "failed"
    assert "the host lists a harmful name" in status.reason


def test_no_token_in_anything_that_is_written(
    server: Loopback, layout: Layout, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("ZENODO_TOKEN", CANARY)
    put_record(server, "77", {"a.npz": NPZ, "b.csv": TABLE})
    server.tokens["/api/records/77"] = f"Bearer {CANARY}"
    delivered(a_run(layout, ZENODO))
    server.tokens["/api/records/77"] = "Bearer another"
    fetch_source(a_run(layout, ZENODO, loose("c.npz")), "sample")
    assert read_status(layout.source_status("sample")).state == "blocked"
    written = content(layout.sources.parent)
    assert len(written) >= 5
    assert not [name for name, body in written.items() if CANARY in name or CANARY.encode() in body]
    assert CANARY not in caplog.text


def test_killed_during_transfer_then_again(server: Loopback, layout: Layout) -> None:
    put_record(server, "77", {"a.npz": NPZ, "b.csv": TABLE * 99})
    server.faults["/api/records/77/files/a.npz/content"] = ["stall"]
    run = a_run(layout, ZENODO, pinned("a.npz", NPZ), loose("b.csv"))
    child = multiprocessing.get_context("fork").Process(target=fetch_source, args=(run, "sample"))
    child.start()
    deadline = time.monotonic() + 10
    while not any(".a.npz.part." in name for name in content(layout.sources)) and time.monotonic() < deadline:
        time.sleep(0.02)
    os.kill(int(child.pid or 0), signal.SIGKILL)
    child.join(10)
    assert child.exitcode == -signal.SIGKILL
    assert not any(name.endswith(("status.json", "COMPLETE.json")) for name in content(layout.sources))
    assert delivered(run) == {"a.npz": NPZ, "b.csv": TABLE * 99}
    assert not [name for name in content(layout.sources) if ".part." in name]


def test_https_files_at_once(server: Loopback, layout: Layout) -> None:
    bodies = {f"{number}.npz": str(number).encode() * 2000 for number in range(12)}
    server.files.update({f"/data/{name}": body for name, body in bodies.items()})
    server.faults["/data/3.npz"] = ["cut"]
    host = HttpsHost(kind="https", base="https://example.org/data/")
    run = a_run(layout, host, *(pinned(name, body) for name, body in bodies.items()))
    assert delivered(run) == bodies
    marker = json.loads((layout.sources / "sample/COMPLETE.json").read_text())
    assert len(marker["members"]) == 12


def test_a_newer_lock_makes_the_fetch_ask_again(
    server: Loopback, layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = a_run(layout, ZENODO, loose("b.csv"))
    put_record(server, "77", {"b.csv": TABLE})
    refresh(run, "sample")
    assert delivered(run) == {"b.csv": TABLE}
    put_record(server, "77", {"b.csv": TABLE + b"3,4\n"})
    assert delivered(run) == {"b.csv": TABLE}, "nobody has looked yet"
    refresh(run, "sample")
    assert delivered(run) == {"b.csv": TABLE + b"3,4\n"}
    asked = len(server.requests)
    delivered(run)
    assert len(server.requests) == asked
    lock_file(run, "sample").write_text("{")
    status = fetch_source(run, "sample")
    assert (status.state, "sample.json: is not JSON" in status.reason) == ("failed", True)
    assert "medheb refresh" in status.remedy
