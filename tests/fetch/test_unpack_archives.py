"""Hostile and broken archives: each is refused whole, and nothing is left anywhere."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import stat
import struct
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from fetch_samples import make_tar, make_zip, tar_member

from medheb.core.errors import MedhebError
from medheb.fetch.unpack import read_members, unpack
from medheb.manifest.dataset import Unpack

ALL = Unpack(include=("*",))


def tree(folder: Path) -> list[str]:
    """All paths below a folder."""
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


def zip_of(*names: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        path = folder / "a.zip"
        with zipfile.ZipFile(path, "w") as archive:
            for name in names:
                info = zipfile.ZipInfo("placeholder")
                info.filename = info.orig_filename = name
                archive.writestr(info, b"x")
        return path

    return make


def zip_with_mode(mode: int) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        path = folder / "a.zip"
        with zipfile.ZipFile(path, "w") as archive:
            info = zipfile.ZipInfo("link")
            info.external_attr = mode << 16
            archive.writestr(info, b"/etc/passwd")
        return path

    return make


def tar_of(*members: tuple) -> Callable[[Path], Path]:
    return lambda folder: make_tar(folder / "a.tar.gz", *members)


def edited_zip(edit: Callable[[bytearray], object], content: bytes = b"content " * 50) -> Callable[[Path], Path]:
    """A one-member zip whose bytes are changed afterwards."""

    def make(folder: Path) -> Path:
        path = make_zip(folder / "a.zip", {"a.txt": content})
        raw = bytearray(path.read_bytes())
        edit(raw)
        path.write_bytes(raw)
        return path

    return make


def set_zip_flag(raw: bytearray) -> None:
    raw[6] |= 1
    central = raw.index(b"PK\1\2")
    raw[central + 8] |= 1


def set_zip_nul(raw: bytearray) -> None:
    for mark, offset in ((b"PK\3\4", 30), (b"PK\1\2", 46)):
        start = raw.index(mark) + offset
        raw[start : start + 5] = b"a\0txt"


def set_zip_crc(raw: bytearray) -> None:
    for mark, offset in ((b"PK\3\4", 14), (b"PK\1\2", 16)):
        start = raw.index(mark) + offset
        raw[start] ^= 1


def claim_zip_size(size: int) -> Callable[[bytearray], None]:
    def edit(raw: bytearray) -> None:
        for mark, offset in ((b"PK\3\4", 22), (b"PK\1\2", 24)):
            start = raw.index(mark) + offset
            raw[start : start + 4] = struct.pack("<I", size)

    return edit


def set_zip_method(raw: bytearray) -> None:
    for mark, offset in ((b"PK\3\4", 8), (b"PK\1\2", 10)):
        start = raw.index(mark) + offset
        raw[start : start + 2] = struct.pack("<H", 97)


def good_tar_bytes() -> bytes:
    """Uncompressed tar of two members of 600 bytes."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as archive:
        for name in ("d/a.txt", "d/b.txt"):
            info = tarfile.TarInfo(name)
            info.size = 600
            archive.addfile(info, io.BytesIO(b"y" * 600))
    return plain.getvalue()


def tar_bytes(change: Callable[[bytes], bytes]) -> Callable[[Path], Path]:
    """A gzip-compressed tar whose inner bytes were changed."""

    def make(folder: Path) -> Path:
        path = folder / "a.tar.gz"
        path.write_bytes(gzip.compress(change(good_tar_bytes())))
        return path

    return make


def gz_bytes(change: Callable[[bytes], bytes]) -> Callable[[Path], Path]:
    """A good tar whose gzip bytes were changed."""

    def make(folder: Path) -> Path:
        path = folder / "a.tar.gz"
        path.write_bytes(change(gzip.compress(good_tar_bytes())))
        return path

    return make


def sparse_tar(folder: Path) -> Path:
    info, content = tar_member("s.txt", b"0\n")
    info.pax_headers = {"GNU.sparse.map": "0,1", "GNU.sparse.size": "10", "GNU.sparse.name": "s.txt"}
    return make_tar(folder / "a.tar.gz", (info, content))


def huge_header_tar(folder: Path) -> Path:
    info, content = tar_member("a.txt")
    info.pax_headers = {"comment": "z" * (2 << 20)}
    return make_tar(folder / "a.tar.gz", (info, content))


def nul_tar(folder: Path) -> Path:
    info, content = tar_member("a.txt")
    info.pax_headers = {"path": "a\0.txt"}
    return make_tar(folder / "a.tar.gz", (info, content))


def latin_tar(folder: Path) -> Path:
    path = folder / "a.tar.gz"
    with tarfile.open(path, "w:gz", format=tarfile.GNU_FORMAT, encoding="latin-1") as archive:
        archive.addfile(tarfile.TarInfo("r\xf6ntgen.txt"))
    return path


def flip(position: int) -> Callable[[bytes], bytes]:
    return lambda raw: raw[:position] + bytes([raw[position] ^ 0xFF]) + raw[position + 1 :]


HOSTILE = {
    "zip traversal": (zip_of("ok.txt", "../evil.txt"), "leaves its folder"),
    "zip traversal inside": (zip_of("a/../../evil.txt"), "leaves its folder"),
    "zip absolute": (zip_of("/tmp/evil.txt"), "absolute path"),
    "zip backslash": (zip_of("..\\evil.txt"), "backslash"),
    "zip drive": (zip_of("C:/evil.txt"), "colon"),
    "zip control character": (zip_of("a\nb.txt"), "control character"),
    "zip NUL": (edited_zip(set_zip_nul), "NUL"),
    "zip no name": (zip_of("./."), "has no name"),
    "zip name too long": (zip_of("n" * 300), "too long"),
    "zip duplicate": (zip_of("a.txt", "a.txt"), "occurs twice"),
    "zip duplicate by dot": (zip_of("a/b.txt", "a/./b.txt"), "occurs twice"),
    "zip case collision": (zip_of("a/B.txt", "a/b.txt"), "one name where case"),
    "zip case collision of folders": (zip_of("A/1.txt", "a/2.txt"), "one name where case"),
    "zip NFC collision": (zip_of("\u00e9.txt", "e\u0301.txt"), "Unicode form"),
    "zip file used as folder": (zip_of("a", "a/b.txt"), "both a file and a folder"),
    "zip symlink": (zip_with_mode(stat.S_IFLNK | 0o777), "symbolic link"),
    "zip device": (zip_with_mode(stat.S_IFBLK | 0o600), "not a plain file"),
    "zip folder that is no folder": (zip_with_mode(stat.S_IFDIR | 0o755), "not a plain file"),
    "zip encrypted": (edited_zip(set_zip_flag), "encrypted"),
    "zip bad CRC": (edited_zip(set_zip_crc), "CRC"),
    "zip claims less": (edited_zip(claim_zip_size(10)), "damaged"),
    "zip claims more": (edited_zip(claim_zip_size(10_000)), "header says 10000"),
    "zip unknown method": (edited_zip(set_zip_method), "damaged"),
    "zip truncated": (edited_zip(lambda raw: raw.__delitem__(slice(60, None))), "damaged"),
    "zip empty": (edited_zip(lambda raw: raw.clear()), "damaged"),
    "tar traversal": (tar_of(tar_member("ok.txt"), tar_member("../evil.txt")), "leaves its folder"),
    "tar absolute": (tar_of(tar_member("/tmp/evil.txt")), "absolute path"),
    "tar backslash": (tar_of(tar_member("a\\b.txt")), "backslash"),
    "tar drive": (tar_of(tar_member("a/c:/evil.txt")), "colon"),
    "tar NUL": (nul_tar, "NUL"),
    "tar not UTF-8": (latin_tar, "not valid UTF-8"),
    "tar symlink": (tar_of(tar_member("l", kind=tarfile.SYMTYPE, link="/etc")), "symbolic link"),
    "tar write through symlink": (
        tar_of(tar_member("l", kind=tarfile.SYMTYPE, link="/tmp"), tar_member("l/evil.txt")),
        "symbolic link",
    ),
    "tar hard link": (tar_of(tar_member("a"), tar_member("b", kind=tarfile.LNKTYPE, link="a")), "hard link"),
    "tar device": (tar_of(tar_member("null", kind=tarfile.CHRTYPE)), "a device"),
    "tar block device": (tar_of(tar_member("disk", kind=tarfile.BLKTYPE)), "a device"),
    "tar pipe": (tar_of(tar_member("pipe", kind=tarfile.FIFOTYPE)), "a pipe"),
    "tar unknown kind": (tar_of(tar_member("odd", kind=b"Q")), "not a plain file"),
    "tar sparse": (sparse_tar, "sparse"),
    "tar duplicate": (tar_of(tar_member("a"), tar_member("a")), "occurs twice"),
    "tar case collision": (tar_of(tar_member("Scan.nii"), tar_member("scan.nii")), "one name where case"),
    "tar huge header": (huge_header_tar, "damaged or cut short (a header of"),
    "tar without end mark": (tar_bytes(lambda raw: raw[: 2 * (512 + 1024)]), "end mark is missing"),
    "tar cut in a member": (tar_bytes(lambda raw: raw[:900]), "damaged"),
    "tar broken second header": (tar_bytes(flip(512 + 1024 + 5)), "header is broken"),
    "tar with something behind": (tar_bytes(lambda raw: raw + b"more" * 128), "behind the end mark"),
    "tar empty": (tar_bytes(lambda raw: b""), "damaged"),
    "gz truncated": (gz_bytes(lambda raw: raw[: len(raw) // 2]), "damaged"),
    "gz without checksum": (gz_bytes(lambda raw: raw[:-8]), "damaged"),
    "gz bad checksum": (gz_bytes(lambda raw: raw[:-8] + bytes(4) + raw[-4:]), "damaged"),
    "gz corrupt": (gz_bytes(flip(20)), "damaged"),
    "gz is not gz": (gz_bytes(lambda raw: b"<html>Sign in</html>"), "damaged"),
    "unknown kind": (lambda folder: make_zip(folder / "a.rar", {"a": b""}), "Allowed: .whl, .zip, .tar"),
}


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("case", sorted(HOSTILE))
def test_refused_and_nothing_written(tmp_path: Path, case: str) -> None:
    make, expected = HOSTILE[case]
    room = tmp_path / "room"
    room.mkdir()
    archive = make(room)
    before = tree(tmp_path)
    with pytest.raises(MedhebError) as caught:
        unpack(archive, room / "out" / "files", ALL)
    assert expected in str(caught.value)
    assert str(archive) in str(caught.value)
    assert tree(tmp_path) == sorted([*before, "room/out"])


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("case", sorted(HOSTILE))
def test_unwanted_members_are_checked_as_well(tmp_path: Path, case: str) -> None:
    """The same archives with an include that leaves the bad member out; its data need not be read in a zip."""
    make, _ = HOSTILE[case]
    data_faults = {"zip bad CRC", "zip claims less", "zip claims more", "zip unknown method"}
    archive = make(tmp_path)
    with pytest.raises(MedhebError) as caught:
        unpack(archive, tmp_path / "files", Unpack(include=("wanted.txt",)))
    assert ("wanted.txt" in str(caught.value)) == (case in data_faults)


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        (Unpack(include=("*",), max_members=2, max_ratio=1e6), "more than 2 members (unpack.max_members)"),
        (Unpack(include=("*",), max_bytes=3_000_000, max_ratio=1e6), "more than 3000000 bytes (unpack.max_bytes)"),
        (Unpack(include=("*",), max_ratio=100), "more than 100 times its size (unpack.max_ratio)"),
        (Unpack(include=("a", "nothing-*"), max_ratio=1e6), "no file that matches unpack.include 'nothing-*'"),
    ],
)
@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_caps_and_patterns(tmp_path: Path, kind: str, rules: Unpack, expected: str) -> None:
    members = {name: bytes(2 << 20) for name in "abc"}
    if kind == "zip":
        archive = make_zip(tmp_path / "bomb.zip", members)
    else:
        archive = make_tar(tmp_path / "bomb.tgz", *(tar_member(*item) for item in members.items()))
    with pytest.raises(MedhebError) as caught:
        unpack(archive, tmp_path / "files", rules)
    assert expected in str(caught.value)
    assert tree(tmp_path) == [archive.name]


def test_bomb_in_an_unwanted_tar_member(tmp_path: Path) -> None:
    archive = make_tar(tmp_path / "a.tar.gz", tar_member("bomb", bytes(8 << 20)), tar_member("small"))
    with pytest.raises(MedhebError, match=r"unpack\.max_ratio"):
        unpack(archive, tmp_path / "files", Unpack(include=("small",), max_ratio=10))


def test_zip_bomb_that_claims_to_be_small(tmp_path: Path) -> None:
    archive = edited_zip(claim_zip_size(5), content=bytes(8 << 20))(tmp_path)
    with pytest.raises(MedhebError):
        unpack(archive, tmp_path / "files", Unpack(include=("*",), max_bytes=100))
    assert tree(tmp_path) == ["a.zip"]


COMPRESSORS = {"tar": bytes, "tar.gz": gzip.compress, "tar.xz": lzma.compress, "tar.bz2": bz2.compress}


@pytest.mark.parametrize("suffix", sorted(COMPRESSORS))
def test_good_tar(tmp_path: Path, suffix: str) -> None:
    archive = tmp_path / f"a.{suffix}"
    archive.write_bytes(COMPRESSORS[suffix](good_tar_bytes()))
    members = unpack(archive, tmp_path / "files", Unpack(include=("*/b.txt",)))
    assert [(member.path, member.bytes) for member in members] == [("d/b.txt", 600)]
    assert tree(tmp_path / "files") == ["d", "d/b.txt"]
    assert dict(read_members(archive, ALL)) == {"d/a.txt": b"y" * 600, "d/b.txt": b"y" * 600}


@pytest.mark.parametrize("suffix", ["tar.xz", "tar.bz2", "tar"])
def test_truncated_of_every_kind(tmp_path: Path, suffix: str) -> None:
    raw = COMPRESSORS[suffix](good_tar_bytes())
    archive = tmp_path / f"a.{suffix}"
    archive.write_bytes(raw[: len(raw) // 3])
    with pytest.raises(MedhebError, match="damaged or cut short"):
        unpack(archive, tmp_path / "files", ALL)


def test_good_zip_replaces_the_folder_whole(tmp_path: Path) -> None:
    archive = make_zip(tmp_path / "a.whl", {"p/": b"", "./p/x.txt": b"1", "p/y.txt": b"22", "q.txt": b"3"})
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "old.txt").write_text("old")
    members = unpack(archive, tmp_path / "files", Unpack(include=("p/*",)))
    assert [(member.path, member.bytes) for member in members] == [("p/x.txt", 1), ("p/y.txt", 2)]
    assert tree(tmp_path / "files") == ["p", "p/x.txt", "p/y.txt"]


def test_long_names_and_listed_folders_pass(tmp_path: Path) -> None:
    long = "/".join(["deep" * 10] * 6) + "/a.txt"
    folder = tar_member("root/", kind=tarfile.DIRTYPE)
    for form in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT):
        archive = make_tar(tmp_path / "a.tgz", folder, tar_member("./root/a"), tar_member(long), folder, form=form)
        assert dict(read_members(archive, ALL)) == {"root/a": b"x", long: b"x"}


def test_failure_keeps_the_earlier_folder(tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "old.txt").write_text("old")
    archive = HOSTILE["gz bad checksum"][0](tmp_path)
    with pytest.raises(MedhebError):
        unpack(archive, tmp_path / "files", ALL)
    assert tree(tmp_path) == ["a.tar.gz", "files", "files/old.txt"]
