"""Members of a zip over byte ranges: from good servers, from bad servers, and from bad archives."""

from __future__ import annotations

import hashlib
import io
import logging
import random
import struct
import zipfile
from pathlib import Path

import pytest
from servers.ranges import range_server

from medheb.core.errors import BlockedError, MedhebError
from medheb.fetch import ranges, remote_zip, sessions
from medheb.fetch.credentials import Login
from medheb.fetch.ranges import RangeFile
from medheb.fetch.unpack import Member
from medheb.manifest.config import Transfer
from medheb.manifest.dataset import Unpack

NAME = "dental: Scans.zip"
THREE = Transfer(attempts=3)
SCAN = random.Random(3).randbytes(60_000)
TABLE = b"id,diagnosis\n1,caries\n" * 40
MEMBERS = {
    "Scans/": b"",
    "Scans/1/1.nii.gz": random.Random(1).randbytes(300_000),
    "Scans/2/2.nii.gz": SCAN,
    "Scans/records.csv": TABLE,
}
WANTED = Unpack(include=("*/2.nii.gz", "*.csv"))


def zip_bytes(members: dict[str, bytes], mode: int = 0) -> bytes:
    plain = io.BytesIO()
    with zipfile.ZipFile(plain, "w") as archive:
        for name, content in members.items():
            info = zipfile.ZipInfo("placeholder")
            info.filename = info.orig_filename = name
            info.compress_type = zipfile.ZIP_DEFLATED
            if mode:
                info.external_attr = mode << 16
            archive.writestr(info, content)
    return plain.getvalue()


def tree(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


GOOD = zip_bytes(MEMBERS)


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short waits."""
    monkeypatch.setattr(sessions, "READ_TIMEOUT_S", 0.4)
    monkeypatch.setattr(sessions, "BACKOFF_S", 0.0)
    monkeypatch.setattr(ranges, "GRACE_S", 0.3)
    monkeypatch.setenv("NETRC", "/dev/null")


def fetch_members(
    url: str, rules: Unpack, target: Path, size: int | None = None, block: int = 4096
) -> tuple[Member, ...]:
    return remote_zip.fetch_members(url, rules, target, THREE, what=NAME, size=size, block_bytes=block)


@pytest.mark.parametrize("manner", [None, "weak etag", "cut twice", "busy twice", "redirects"])
def test_wanted_members_only(tmp_path: Path, manner: str | None) -> None:
    with range_server(GOOD, manner) as server:
        members = fetch_members(server.url, WANTED, tmp_path / "files")
    assert [(member.path, member.bytes) for member in members] == [
        ("Scans/2/2.nii.gz", 60_000),
        ("Scans/records.csv", 880),
    ]
    assert members[0].sha256 == hashlib.sha256(SCAN).hexdigest()
    assert tree(tmp_path) == [
        "files",
        "files/Scans",
        "files/Scans/2",
        "files/Scans/2/2.nii.gz",
        "files/Scans/records.csv",
    ]
    assert (tmp_path / "files/Scans/2/2.nii.gz").read_bytes() == SCAN
    assert (tmp_path / "files/Scans/records.csv").read_bytes() == TABLE
    # The 300 kB member next door is never read.
    assert server.sent < 100_000
    assert all(server.asked)


def test_zip64(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 1000)
    monkeypatch.setattr(zipfile, "ZIP_FILECOUNT_LIMIT", 2)
    content = zip_bytes(MEMBERS)
    assert b"PK\x06\x06" in content
    monkeypatch.undo()
    with range_server(content) as server:
        fetch_members(server.url, WANTED, tmp_path / "files")
    assert (tmp_path / "files/Scans/2/2.nii.gz").read_bytes() == SCAN


HERE = "127.0.0.1"
BAD_SERVERS = {
    "ignores ranges": f"{HERE} ignores byte ranges",
    "web page": f"{HERE} sent a web page instead of the file",
    "wrong start": f"{HERE} answers a request for bytes 0-0 with 'bytes 1-1/",
    "wrong end": "for bytes 0-0 with 'bytes 0-1/",
    "no total": "for bytes 0-0 with 'bytes 0-0/*'",
    "no content range": "for bytes 0-0 with 'no Content-Range'",
    "new etag": f"changed at {HERE} while it was read",
    "new size": f"changed at {HERE} while it was read",
    "new date": f"changed at {HERE} while it was read",
    "no version": "neither a strong ETag nor Last-Modified",
    "cut": f"{HERE} cut the transfer off",
    "too long": "sent more than the 1 bytes of a range",
    "announces more": "announces '6' bytes for a range of 1",
    "stalls": f"{HERE} stopped sending",
    "drips": f"{HERE} is too slow",
    "gzip": "packed form",
    "busy": f"{HERE} is down or overloaded (503)",
    "busy for a day": f"{HERE} asks to slow down (429)",
    "refuses": f"{HERE} forbids the file without a login (403)",
    "gone": f"{HERE} has removed the file (410)",
    "no such range": f"{HERE} refuses a byte range (416)",
}
RETRIED = {"cut", "too long", "announces more", "stalls", "drips", "busy"}


@pytest.mark.parametrize("manner", sorted(BAD_SERVERS))
def test_bad_server_blocks(tmp_path: Path, caplog: pytest.LogCaptureFixture, manner: str) -> None:
    caplog.set_level(logging.DEBUG, logger="medheb")
    with range_server(GOOD, manner) as server, pytest.raises(BlockedError) as caught:
        fetch_members(server.url, WANTED, tmp_path / "files")
    assert BAD_SERVERS[manner] in str(caught.value)
    assert str(caught.value).startswith(f"{NAME}: ")
    assert caught.value.remedy
    assert tree(tmp_path) == []
    # An address may hold a signature.
    assert "s3cret" not in str(caught.value) + caplog.text
    turns = {asked: server.asked.count(asked) for asked in server.asked}
    assert max(turns.values()) == (3 if manner in RETRIED else 1)


def test_whole_file_is_never_read(tmp_path: Path) -> None:
    with range_server(bytes(64 << 20), "ignores ranges") as server, pytest.raises(BlockedError):
        fetch_members(server.url, WANTED, tmp_path / "files")
    assert server.sent == 0, "the server got rid of 64 MB, more than buffers hold"


def test_no_server(tmp_path: Path) -> None:
    with range_server(GOOD) as server:
        url = server.url
    with pytest.raises(BlockedError, match=r"does not answer|cannot be reached") as caught:
        fetch_members(url, WANTED, tmp_path / "files")
    assert "s3cret" not in str(caught.value)


def test_other_bytes_than_the_archives(tmp_path: Path) -> None:
    with range_server(GOOD, "other bytes") as server, pytest.raises(MedhebError, match="damaged or cut short"):
        fetch_members(server.url, WANTED, tmp_path / "files")


def test_size_is_pinned(tmp_path: Path) -> None:
    with range_server(GOOD) as server, pytest.raises(MedhebError) as caught:
        fetch_members(server.url, WANTED, tmp_path / "files", size=len(GOOD) + 1)
    assert f"has {len(GOOD)} bytes at 127.0.0.1, the manifest expects {len(GOOD) + 1}" in str(caught.value)
    assert not isinstance(caught.value, BlockedError)


def test_login_goes_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAMPLE_TOKEN", "canary")
    login = Login(("127.0.0.1",), "SAMPLE_TOKEN")
    with range_server(GOOD) as server:
        remote_zip.fetch_members(server.url, WANTED, tmp_path / "files", THREE, what=NAME, login=login)
    assert set(server.authorizations) == {"Bearer canary"}


def spoil(content: bytes, old: bytes, new: bytes) -> bytes:
    assert old in content
    return content.replace(old, new)


def corrupt_scan(content: bytes) -> bytes:
    start = content.index(b"Scans/2/2.nii.gz") + 2000
    return content[:start] + bytes([content[start] ^ 0xFF]) + content[start + 1 :]


def wrong_crc() -> bytes:
    with zipfile.ZipFile(io.BytesIO(GOOD)) as archive:
        crc = struct.pack("<I", archive.getinfo("Scans/records.csv").CRC)
    return spoil(GOOD, crc, bytes(4))


def huge_directory() -> bytes:
    """A sparse claim: the end record says that the directory fills what lies before it."""
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 1, 1, 70 << 20, 0, 0)
    return bytes(70 << 20) + end


BAD_ARCHIVES = {
    "traversal": (lambda: zip_bytes({"../evil.csv": b"x"}), "leaves its folder"),
    "absolute": (lambda: zip_bytes({"/tmp/evil.csv": b"x"}), "absolute path"),
    "unwanted member is hostile": (lambda: zip_bytes({**MEMBERS, "a\\b": b"x"}), "backslash"),
    "case collision": (lambda: zip_bytes({**MEMBERS, "scans/RECORDS.csv": b"x"}), "one name where case"),
    "link": (lambda: zip_bytes({"a.csv": b"/etc/passwd"}, mode=0o120777), "symbolic link"),
    "not UTF-8": (lambda: spoil(zip_bytes({"r0ntgen.csv": b"x"}), b"r0", b"r\xf6"), "not valid UTF-8"),
    "bad data": (lambda: corrupt_scan(GOOD), "damaged"),
    "bad CRC": (wrong_crc, "CRC"),
    "truncated": (lambda: GOOD[:-100], "damaged"),
    "not a zip": (lambda: b"nothing of the kind " * 50, "damaged"),
    "huge directory": (huge_directory, "bytes in one piece"),
}


@pytest.mark.parametrize("case", sorted(BAD_ARCHIVES))
def test_bad_archive_refused(tmp_path: Path, case: str) -> None:
    make, expected = BAD_ARCHIVES[case]
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "old.txt").write_text("old")
    with range_server(make()) as server, pytest.raises(MedhebError) as caught:
        fetch_members(server.url, Unpack(include=("*.csv", "*.gz")), tmp_path / "files", block=1 << 20)
    assert expected in str(caught.value)
    assert str(caught.value).startswith(f"{NAME}: ")
    assert tree(tmp_path) == ["files", "files/old.txt"]


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        (Unpack(include=("*",), max_members=2), "more than 2 members"),
        (Unpack(include=("*.csv",), max_bytes=800), "more than 800 bytes"),
        (Unpack(include=("*.csv", "nothing"), max_ratio=1e6), "no file that matches unpack.include 'nothing'"),
        (Unpack(include=("zeros",), max_ratio=100), "more than 100 times its size"),
    ],
)
def test_caps(tmp_path: Path, rules: Unpack, expected: str) -> None:
    content = zip_bytes({**MEMBERS, "zeros": bytes(4 << 20)})
    with range_server(content) as server, pytest.raises(MedhebError) as caught:
        fetch_members(server.url, rules, tmp_path / "files")
    assert expected in str(caught.value)
    assert tree(tmp_path) == []


def test_small_cap_reads_no_member(tmp_path: Path) -> None:
    rules = Unpack(include=("*.gz",), max_bytes=1000)
    with range_server(GOOD) as server, pytest.raises(MedhebError, match="more than 1000 bytes"):
        fetch_members(server.url, rules, tmp_path / "files")
    assert server.sent < 20_000


def test_stream_reads_like_the_file() -> None:
    dice = random.Random(5)
    content = dice.randbytes(50_000)
    with range_server(content) as server, RangeFile(server.url, NAME, len(content), THREE, block_bytes=4096) as stream:
        assert stream.size == 50_000
        assert stream.seekable()
        assert stream.readable()
        for _ in range(60):
            start, size = dice.randrange(51_000), dice.randrange(9_000)
            assert stream.seek(start) == start
            assert stream.read(size) == content[start : start + size]
        assert stream.seek(-10, io.SEEK_END) == 49_990
        assert stream.read() == content[-10:]
        with pytest.raises(ValueError, match="position of -1"):
            stream.seek(-1)
