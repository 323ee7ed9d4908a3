"""The list of digests of a PhysioNet project, and what is remembered of files that were right."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest
from make_physionet import CANARIES, CONTENT, sums_text

from medheb.core.errors import MedhebError
from medheb.fetch import digest_cache
from medheb.fetch.digest_cache import ENTRY_BYTES, KEY_BYTES, DigestCache
from medheb.fetch.physionet import matching
from medheb.fetch.sums import parse_sums, read_sums

DIGEST = "ab" * 32
EXPECTED = {name: hashlib.sha256(value).digest() for name, value in CONTENT.items()}


@pytest.mark.parametrize("separator", [" ", "  ", " *"], ids=["PhysioNet", "coreutils text", "coreutils binary"])
def test_separators(separator: str) -> None:
    text = sums_text(CONTENT, separator).encode()
    sums = parse_sums(text, "list")
    assert sums.digests == EXPECTED
    assert sums.digest == hashlib.sha256(text).hexdigest()
    assert sums.bytes == len(text)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (f"{DIGEST} a  b c.txt\n", "a  b c.txt"),
        (f"{DIGEST} a.txt\r\n", "a.txt"),
        (f"\ufeff{DIGEST} a.txt\n", "a.txt"),
        (f"{DIGEST} ./a/b.txt", "a/b.txt"),
        (f"{DIGEST.upper()}  a.txt\n\n", "a.txt"),
        (f"\\{DIGEST}  a\\\\n\\nb\n", "a\\n\nb"),
        (f"{DIGEST} caf\u00e9..txt\n", "caf\u00e9..txt"),
    ],
)
def test_names(text: str, name: str) -> None:
    assert parse_sums(text.encode(), "list").digests == {name: bytes.fromhex(DIGEST)}


def test_the_first_line_decides_whether_names_carry_a_mark() -> None:
    sums = parse_sums(f"{DIGEST} a\n{DIGEST} *b\n{DIGEST}  c\n".encode(), "list")
    assert list(sums.digests) == ["a", "*b", " c"]


def test_names_that_are_not_utf8_still_lead_to_their_file(tmp_path: Path) -> None:
    name = b"f\xff.txt"
    (tmp_path / "list").write_bytes(DIGEST.encode() + b" " + name + b"\n")
    assert [os.fsencode(path) for path in read_sums(tmp_path / "list", "list").digests] == [name]


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("<html>p19999999</html>", "line 2 is not '<sha256> <path>'"),
        (f"{DIGEST[:-2]}   p19999999", "line 2 is not '<sha256> <path>'"),
        (f"{DIGEST}p19999999", "line 2 is not '<sha256> <path>'"),
        (DIGEST, "line 2 is not '<sha256> <path>'"),
        (f"{DIGEST} ", "line 2 names a path that is empty or leaves the project"),
        (f"{DIGEST} ../p19999999", "line 2 names a path that is empty or leaves the project"),
        (f"{DIGEST} a/../../p19999999", "line 2 names a path that is empty or leaves the project"),
        (f"{DIGEST} /p19999999", "line 2 names a path that is empty or leaves the project"),
        (f"{'cd' * 32} files/p19999999", "line 2 repeats an earlier path with another digest"),
    ],
)
def test_faulty_lines_are_named_by_number_only(line: str, fault: str) -> None:
    with pytest.raises(MedhebError) as caught:
        parse_sums(f"{DIGEST} files/p19999999\n{line}\n".encode(), "the list")
    assert caught.value.fault == fault
    assert "19999999" not in str(caught.value)


def test_empty_and_unreadable_lists(tmp_path: Path) -> None:
    with pytest.raises(MedhebError, match="holds no digests"):
        parse_sums(b"\n", "the list")
    with pytest.raises(MedhebError, match="cannot be read") as caught:
        read_sums(tmp_path / "p19999999", "the list")
    assert not any(canary in str(caught.value) for canary in CANARIES)


def test_a_list_of_20000_lines() -> None:
    names = [f"files/p{i % 10 + 10}/p{10_000_000 + i // 3}/s{50_000_000 + i}/{i:040x}.jpg" for i in range(20_000)]
    digests = [hashlib.sha256(name.encode()).digest() for name in names]
    lines = [f"{digest.hex()} {name}\n" for digest, name in zip(digests, names, strict=True)]
    sums = parse_sums("".join(lines).encode(), "list")
    assert list(sums.digests.items()) == list(zip(names, digests, strict=True))
    found, idle = matching(sums.digests, ["files/p17/*.jpg", "*.csv"])
    assert found == [name for name in names if name.startswith("files/p17/")]
    assert idle == ["*.csv"]


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files need not have rested before they are remembered."""
    monkeypatch.setattr(digest_cache, "RACY_NS", 0)


@pytest.mark.usefixtures("patient")
def test_cache_knows_unchanged_files_only(tmp_path: Path) -> None:
    file, store = tmp_path / "file", tmp_path / "cache"
    file.write_bytes(b"content")
    status, digest = file.stat(), hashlib.sha256(b"content").digest()
    cache = DigestCache(store)
    cache.remember("p19999999", status, digest)
    cache.save()
    again = DigestCache(store)
    assert again.knows("p19999999", status, digest)
    assert not again.knows("other", status, digest)
    assert not again.knows("p19999999", status, hashlib.sha256(b"other").digest())
    assert not DigestCache(tmp_path / "another").knows("p19999999", status, digest)
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    assert not again.knows("p19999999", file.stat(), digest)
    content = store.read_bytes()
    assert len(content) == KEY_BYTES + ENTRY_BYTES
    assert b"19999999" not in content
    assert digest not in content
    assert store.stat().st_mode & 0o077 == 0


@pytest.mark.usefixtures("patient")
def test_cache_survives_half_an_entry_and_a_faulty_file(tmp_path: Path) -> None:
    file, store = tmp_path / "file", tmp_path / "cache"
    file.write_bytes(b"content")
    status = file.stat()
    cache = DigestCache(store)
    cache.remember("a", status, b"1" * 32)
    cache.save()
    store.write_bytes(store.read_bytes() + b"half")
    cache = DigestCache(store)
    cache.remember("b", status, b"2" * 32)
    cache.save()
    cache = DigestCache(store)
    assert cache.knows("a", status, b"1" * 32)
    assert cache.knows("b", status, b"2" * 32)
    assert not DigestCache(store, reread=True).knows("a", status, b"1" * 32)
    store.write_bytes(b"short")
    assert not DigestCache(store).knows("a", status, b"1" * 32)


def test_cache_does_not_trust_a_file_that_has_just_changed(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"content")
    cache = DigestCache(tmp_path / "cache")
    cache.remember("a", file.stat(), b"1" * 32)
    assert not cache.knows("a", file.stat(), b"1" * 32)
