"""Transfers against servers that cut, stall, lie, refuse and redirect."""

from __future__ import annotations

import errno
import hashlib
import logging
import multiprocessing
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from servers.plain import Loopback, loopback

from medheb.core.errors import BlockedError, MedhebError
from medheb.fetch import http, limits, progress, sessions
from medheb.fetch.credentials import Login
from medheb.fetch.expected import Expected
from medheb.fetch.http import download
from medheb.fetch.limits import fetch_all
from medheb.manifest.config import Transfer

CONTENT = random.Random(0).randbytes(300_000)
SHA256, MD5 = hashlib.sha256(CONTENT).hexdigest(), hashlib.md5(CONTENT).hexdigest()
PINNED = Expected(len(CONTENT), SHA256, MD5)
TRIES = Transfer(attempts=3)
CANARY = "canary-5d1e0b7c"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Loopback]:
    monkeypatch.setattr(sessions, "BACKOFF_S", 0.0)
    monkeypatch.setattr(sessions, "READ_TIMEOUT_S", 0.3)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    with loopback() as running:
        running.files["/a.zip"] = CONTENT
        yield running


def get(server: Loopback, target: Path, expected: Expected = PINNED, transfer: Transfer = TRIES) -> None:
    download([f"{server.url}/a.zip"], target, expected, transfer, what="sample: a.zip")


def ranges(server: Loopback) -> list[str | None]:
    return [headers.get("Range") for _, headers in server.requests]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("expected", [PINNED, Expected(), Expected(md5=MD5), Expected(sha256=SHA256)])
def test_whole_file(server: Loopback, tmp_path: Path, expected: Expected) -> None:
    get(server, tmp_path / "deep" / "a.zip", expected)
    assert (tmp_path / "deep" / "a.zip").read_bytes() == CONTENT
    assert names(tmp_path) == ["a.zip"]


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o002, 0o664), (0o077, 0o600)])
def test_mode_follows_umask(server: Loopback, tmp_path: Path, umask: int, mode: int) -> None:
    before = os.umask(umask)
    try:
        get(server, tmp_path / "a.zip")
    finally:
        os.umask(before)
    assert (tmp_path / "a.zip").stat().st_mode & 0o777 == mode


@pytest.mark.parametrize("fault", ["cut", "stall", "cut weak"])
def test_goes_on_where_it_stopped(server: Loopback, tmp_path: Path, fault: str) -> None:
    server.faults["/a.zip"] = [fault]
    get(server, tmp_path / "a.zip")
    assert (tmp_path / "a.zip").read_bytes() == CONTENT
    asked = ranges(server)
    assert asked[0] is None
    assert len(asked) == 2
    assert asked[1] is not None
    if_range = server.requests[1][1]["If-Range"]
    assert if_range.startswith('"') != fault.endswith("weak"), "a weak ETag proves nothing, its date does"


@pytest.mark.parametrize("second", ["ranges ignored", "wrong range", "wrong total", "other version"])
def test_starts_again_unless_the_rest_is_proven(server: Loopback, tmp_path: Path, second: str) -> None:
    server.faults["/a.zip"] = ["cut", second]
    get(server, tmp_path / "a.zip")
    assert (tmp_path / "a.zip").read_bytes() == CONTENT


def test_no_validator_no_range(server: Loopback, tmp_path: Path) -> None:
    server.faults["/a.zip"] = ["cut weak undated"]
    get(server, tmp_path / "a.zip")
    assert ranges(server) == [None, None]


def test_a_wrong_rest_is_found_and_the_whole_file_asked_for(server: Loopback, tmp_path: Path) -> None:
    server.faults["/a.zip"] = ["cut", "other bytes"]
    get(server, tmp_path / "a.zip")
    assert (tmp_path / "a.zip").read_bytes() == CONTENT
    assert ranges(server)[2] is None


def test_packed_body_is_unpacked(server: Loopback, tmp_path: Path) -> None:
    server.faults["/a.zip"] = ["packed"]
    get(server, tmp_path / "a.zip")
    assert (tmp_path / "a.zip").read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("fault", "words", "remedy"),
    [
        ("401", "wants a login (401)", "netrc"),
        ("403", "forbids the file without a login (403)", "Accept the source's terms"),
        ("404", "does not have the file (404)", "correct the manifest"),
        ("410", "has removed the file (410)", "local_copies"),
        ("429", "asks to slow down (429)", "transfer.per_host"),
        ("rate limit", "asks to slow down (429)", "later"),
        ("500", "is down or overloaded (500)", "later"),
        ("503", "is down or overloaded (503)", "later"),
        ("418", "answered with status 418", "later"),
        ("cut", "cut the transfer off", "later"),
        ("stall", "stopped sending", "later"),
        ("drop", "cut the transfer off", "later"),
        ("quota page", "a web page ('Quota exceeded & more') instead of the file", "local_copies"),
        ("page as file", "a web page ('Quota exceeded & more') instead of the file", "browser"),
    ],
)
def test_each_trouble_has_its_words(server: Loopback, tmp_path: Path, fault: str, words: str, remedy: str) -> None:
    server.faults["/a.zip"] = [f"always {fault}"]
    with pytest.raises(BlockedError) as caught:
        get(server, tmp_path / "a.zip")
    assert caught.value.where == "sample: a.zip"
    assert words in caught.value.fault
    assert remedy in caught.value.remedy
    assert names(tmp_path) == []
    passing = fault in {"429", "rate limit", "500", "503", "cut", "stall", "drop"}
    assert len(server.requests) == (TRIES.attempts if passing else 1)


@pytest.mark.parametrize("fault", ["429", "503", "rate limit", "drop", "500"])
def test_passing_trouble_passes(server: Loopback, tmp_path: Path, fault: str) -> None:
    server.faults["/a.zip"] = [fault, fault]
    get(server, tmp_path / "a.zip")
    assert len(server.requests) == 3


def test_waits_as_long_as_asked(server: Loopback, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr(sessions, "pause", waits.append)
    server.retry_after = "7"
    server.faults["/a.zip"] = ["503", "429"]
    get(server, tmp_path / "a.zip")
    assert waits == [7, 7]
    server.retry_after = "86400"
    server.faults["/a.zip"] = ["429"]
    with pytest.raises(BlockedError, match="slow down"):
        get(server, tmp_path / "b.zip")
    assert waits == [7, 7], "nobody waits for a day"


def test_unreachable_and_not_https(server: Loopback, tmp_path: Path) -> None:
    with pytest.raises(BlockedError, match=r"127\.0\.0\.1 cannot be reached"):
        download(["http://127.0.0.1:9/a.zip"], tmp_path / "a.zip", PINNED, TRIES)
    with pytest.raises(BlockedError, match="no certificate that this machine trusts"):
        download([server.url.replace("http:", "https:") + "/a.zip"], tmp_path / "a.zip", PINNED, TRIES)
    with pytest.raises(MedhebError, match=r"address at example\.org is not https"):
        download(["http://example.org/a.zip"], tmp_path / "a.zip", PINNED, TRIES)
    server.moved["/a.zip"] = "http://example.org/a.zip"
    with pytest.raises(MedhebError, match="sends to an address that is not https"):
        get(server, tmp_path / "a.zip")


@pytest.mark.parametrize(
    ("content", "expected", "fault", "words"),
    [
        (CONTENT[:-1], PINNED, "", f"expected {len(CONTENT)} bytes, got {len(CONTENT) - 1} bytes"),
        (CONTENT, PINNED, "longer", f"expected {len(CONTENT)} bytes, got more"),
        (CONTENT, PINNED, "short length", f"expected {len(CONTENT)} bytes, got {len(CONTENT) // 2} bytes"),
        (b"x" + CONTENT[1:], PINNED, "", f"expected sha256 {SHA256}, got sha256"),
        (b"x" + CONTENT[1:], Expected(md5=MD5), "", f"expected md5 {MD5}, got md5"),
        (CONTENT, PINNED, "pointer", "Git LFS pointer"),
    ],
)
def test_wrong_content_is_refused(
    server: Loopback, tmp_path: Path, content: bytes, expected: Expected, fault: str, words: str
) -> None:
    server.files["/a.zip"] = content
    server.faults["/a.zip"] = [f"always {fault}"] if fault else []
    with pytest.raises(MedhebError) as caught:
        get(server, tmp_path / "a.zip", expected)
    assert not isinstance(caught.value, BlockedError)
    assert words in caught.value.fault
    assert names(tmp_path) == []


def test_accepted_alternate_may_have_another_size(server: Loopback, tmp_path: Path) -> None:
    other = b"an erratum of the publisher" * 9999
    server.files["/a.zip"] = other
    alternate = Expected(len(CONTENT), SHA256, None, (hashlib.sha256(other).hexdigest(),))
    get(server, tmp_path / "a.zip", alternate)
    assert (tmp_path / "a.zip").read_bytes() == other


def test_tiny_body_of_unknown_content(server: Loopback, tmp_path: Path) -> None:
    server.files["/a.zip"] = b"Too many requests"
    with pytest.raises(BlockedError, match="only 17 bytes"):
        get(server, tmp_path / "a.zip", Expected())
    server.files["/a.csv"] = b"a,b\n"
    download([f"{server.url}/a.csv"], tmp_path / "a.csv", Expected(), TRIES)
    assert (tmp_path / "a.csv").read_bytes() == b"a,b\n"


def test_a_digest_decides_where_a_server_gives_the_wrong_type(server: Loopback, tmp_path: Path) -> None:
    server.faults["/a.zip"] = ["always typed as page"]
    get(server, tmp_path / "a.zip")
    with pytest.raises(BlockedError, match=r"a web page \('no title'\)"):
        get(server, tmp_path / "b.zip", Expected())
    with pytest.raises(BlockedError, match=r"a web page \('no title'\)"):
        get(server, tmp_path / "b.zip", Expected(len(CONTENT)))
    assert names(tmp_path) == ["a.zip"]


def test_old_file_stays_when_the_new_one_is_wrong(server: Loopback, tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_bytes(b"old")
    server.files["/a.zip"] = b"wrong"
    with pytest.raises(MedhebError):
        get(server, tmp_path / "a.zip")
    assert (tmp_path / "a.zip").read_bytes() == b"old"


def test_mirrors_in_order(server: Loopback, tmp_path: Path) -> None:
    server.files["/wrong.zip"] = b"wrong" * 10
    urls = [f"{server.url}/{name}.zip" for name in ("gone", "wrong", "a")]
    download(urls, tmp_path / "a.zip", PINNED, TRIES)
    assert server.paths() == ["/gone.zip", "/wrong.zip", "/a.zip"]
    with pytest.raises(BlockedError, match=r"404.*all 2 addresses failed"):
        download(urls[:2], tmp_path / "b.zip", PINNED, TRIES)


def test_login_stays_at_its_host(server: Loopback, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAMPLE_TOKEN", CANARY)
    login = Login(("127.0.0.1",), "SAMPLE_TOKEN")
    server.tokens["/a.zip"] = f"Bearer {CANARY}"
    server.moved["/start"] = f"{server.url}/a.zip"
    download([f"{server.url}/start"], tmp_path / "a.zip", PINNED, TRIES, login=login)
    with loopback() as elsewhere:
        elsewhere.files["/a.zip"] = CONTENT
        server.moved["/away"] = elsewhere.url.replace("127.0.0.1", "localhost") + "/a.zip"
        download([f"{server.url}/away"], tmp_path / "b.zip", PINNED, TRIES, login=login)
        assert [headers.get("Authorization") for _, headers in elsewhere.requests] == [None]
        download(
            [elsewhere.url.replace("127.0.0.1", "localhost") + "/a.zip"], tmp_path / "c.zip", PINNED, TRIES, login=login
        )
        assert elsewhere.requests[1][1].get("Authorization") is None


def test_login_refused_or_missing(server: Loopback, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    login = Login(("127.0.0.1",), "SAMPLE_TOKEN")
    server.tokens["/a.zip"] = "Bearer right"
    address = [f"{server.url}/a.zip"]
    monkeypatch.delenv("SAMPLE_TOKEN", raising=False)
    with pytest.raises(BlockedError, match=r"wants a login \(401\)\. Set the environment variable SAMPLE_TOKEN"):
        download(address, tmp_path / "a.zip", PINNED, TRIES, login=login)
    monkeypatch.setenv("SAMPLE_TOKEN", CANARY)
    with pytest.raises(BlockedError, match=r"forbids the file with your login \(403\)") as caught:
        download(address, tmp_path / "a.zip", PINNED, TRIES, login=login)
    assert CANARY not in str(caught.value)
    server.faults["/a.zip"] = ["401"]
    with pytest.raises(BlockedError, match=r"refused the login \(401\)\. Renew the environment variable SAMPLE_TOKEN"):
        download(address, tmp_path / "a.zip", PINNED, TRIES, login=login)


def test_token_from_the_keyring(server: Loopback, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A stand-in of the optional package, found by the ordinary import.
    package = tmp_path / "modules" / "keyring"
    package.mkdir(parents=True)
    (package / "errors.py").write_text("class KeyringError(Exception):\n    pass\n")
    (package / "__init__.py").write_text(
        "from keyring import errors\n"
        "locked = False\n"
        "def get_password(service, user):\n"
        "    if locked:\n"
        "        raise errors.KeyringError\n"
        f"    return {CANARY!r} if (service, user) == ('medheb', '127.0.0.1') else None\n"
    )
    for name in ("keyring", "keyring.errors"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(str(package.parent))
    monkeypatch.delenv("SAMPLE_TOKEN", raising=False)
    login = Login(("127.0.0.1", "other.example"), "SAMPLE_TOKEN")
    try:
        assert login.header(server.url) == f"Bearer {CANARY}"
        assert login.header("https://other.example/x") is None
        assert CANARY not in repr(login)
        sys.modules["keyring"].locked = True  # type: ignore[attr-defined]
        assert login.header(server.url) is None
    finally:
        for name in ("keyring", "keyring.errors"):
            sys.modules.pop(name, None)


def test_netrc_only_with_mode_0600(server: Loopback, tmp_path: Path) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text(f"machine 127.0.0.1 login me password {CANARY}\n")
    netrc.chmod(0o644)
    with pytest.raises(BlockedError, match=r"others can read it\. Run: chmod 600") as caught:
        get(server, tmp_path / "a.zip")
    assert CANARY not in str(caught.value)
    netrc.chmod(0o600)
    get(server, tmp_path / "a.zip")
    assert server.requests[0][1]["Authorization"].startswith("Basic ")
    netrc.write_text(f"machine 127.0.0.1 {CANARY}\n")
    with pytest.raises(BlockedError, match="cannot be parsed at line") as caught:
        get(server, tmp_path / "a.zip")
    assert CANARY not in str(caught.value)


def test_signed_address_and_token_are_never_told(
    server: Loopback, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("SAMPLE_TOKEN", CANARY)
    caplog.set_level(logging.DEBUG, "medheb")
    told = []
    for fault in ("403", "404", "503", "cut", "stall", "drop", "quota page", "pointer"):
        path = f"/a.zip?X-Amz-Signature={CANARY}"
        server.faults[path] = [f"always {fault}"]
        login = Login(("127.0.0.1",), "SAMPLE_TOKEN")
        with pytest.raises(MedhebError) as caught:
            download([server.url + path], tmp_path / "a.zip", PINNED, TRIES, login=login, what="sample: a.zip")
        told.append(str(caught.value))
    assert CANARY not in "\n".join([*told, caplog.text])
    assert not any(
        CANARY in path.name or CANARY.encode() in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()
    )


def test_many_files_under_one_limit(server: Loopback, tmp_path: Path) -> None:
    transfer = Transfer(per_host=3)
    server.gate = threading.Barrier(3)
    for number in range(9):
        server.files[f"/{number}"] = CONTENT
    jobs = [
        partial(download, [f"{server.url}/{number}"], tmp_path / str(number), PINNED, transfer) for number in range(9)
    ]
    fetch_all(jobs, 9)
    assert names(tmp_path) == [str(number) for number in range(9)]
    assert server.most_busy == 3


def test_first_trouble_in_order_is_told_and_no_new_job_starts() -> None:
    begun: list[int] = []

    def job(number: int) -> None:
        begun.append(number)
        time.sleep(0.2 if number == 0 else 0.01)
        if number < 2:
            raise MedhebError(f"file {number}", "fails", "Nothing")

    with pytest.raises(MedhebError, match="file 0"):
        fetch_all([partial(job, number) for number in range(50)], 2)
    assert len(begun) < 40


def test_ctrl_c_stops_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    stopped = []

    def endless() -> None:
        try:
            limits.pause(30)
        except limits.StoppedError:
            stopped.append(True)
            raise

    def interrupted(*_: object, **__: object) -> None:
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr(limits, "wait", interrupted)
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        fetch_all([endless, endless], 2)
    assert time.monotonic() - started < 5
    assert stopped
    limits.go_on()


def _write(url: str, target: Path) -> None:
    download([url], target, PINNED, Transfer(per_host=8))


def _no_locks(*_: object) -> None:
    raise OSError(errno.ENOLCK, "No locks available")


@pytest.mark.parametrize("lock", [None, lambda *_: None, _no_locks], ids=["locks", "locks do nothing", "locks fail"])
def test_eight_writers_of_one_file(
    server: Loopback, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lock: Callable[..., None] | None
) -> None:
    # Locks only share out the places at a host: a file system that ignores them changes nothing.
    if lock:
        monkeypatch.setattr(limits.fcntl, "flock", lock)
    forked = multiprocessing.get_context("fork")
    writers = [forked.Process(target=_write, args=(f"{server.url}/a.zip", tmp_path / "a.zip")) for _ in range(8)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(30)
    assert [writer.exitcode for writer in writers] == [0] * 8
    assert names(tmp_path) == ["a.zip"]
    assert (tmp_path / "a.zip").read_bytes() == CONTENT


def test_killed_during_transfer_then_again(server: Loopback, tmp_path: Path) -> None:
    server.faults["/a.zip"] = ["stall"]
    child = multiprocessing.get_context("fork").Process(target=_write, args=(f"{server.url}/a.zip", tmp_path / "a.zip"))
    child.start()
    deadline = time.monotonic() + 10
    while not any(".part." in name for name in names(tmp_path)) and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(int(child.pid or 0), signal.SIGKILL)
    child.join(10)
    assert [".part." in name for name in names(tmp_path)] == [True], "only the half file, under its temporary name"
    get(server, tmp_path / "a.zip")
    assert (tmp_path / "a.zip").read_bytes() == CONTENT


def test_full_disk_leaves_nothing(server: Loopback, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("medheb.core.files.os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        get(server, tmp_path / "a.zip")
    assert names(tmp_path) == []


def test_log_tells_progress_once_a_minute(
    server: Loopback, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "medheb.fetch")
    monkeypatch.setattr(http, "CHUNK_BYTES", 50_000)
    get(server, tmp_path / "a.zip")
    assert "MB/s" not in caplog.text
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.0)
    get(server, tmp_path / "a.zip")
    assert "sample: a.zip: 0 of 0 MB" in caplog.text
    assert " left" in caplog.text


def test_bars_on_a_terminal(server: Loopback, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    server.faults["/a.zip"] = ["cut"]
    get(server, tmp_path / "a.zip")
    assert (tmp_path / "a.zip").read_bytes() == CONTENT
    assert progress._BOARD == []
