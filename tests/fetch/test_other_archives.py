"""Names in archives that are not plain ASCII, and kinds of archive that no source needs."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from fetch_samples import make_zip

from medheb.core.errors import MedhebError
from medheb.fetch.unpack import unpack
from medheb.manifest.dataset import Unpack

ALL = Unpack(include=("*",))


def zip_with_raw_name(path: Path, name: bytes, declared: bool) -> Path:
    """A zip of one member whose name is the given bytes; ``declared``: it says that they are UTF-8."""
    stand_in = ("x" * len(name)).encode()
    make_zip(path, {stand_in.decode(): b"content"})
    raw = bytearray(path.read_bytes().replace(stand_in, name))
    if declared:
        for mark, offset in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
            raw[raw.index(mark) + offset + 1] |= 0x08
    path.write_bytes(raw)
    return path


@pytest.mark.parametrize("declared", [True, False])
def test_utf8_names_declared_or_not(tmp_path: Path, declared: bool) -> None:
    archive = zip_with_raw_name(tmp_path / "a.zip", "P\u00f6schl/1.png".encode(), declared)
    members = unpack(archive, tmp_path / "files", ALL)
    assert [member.path for member in members] == ["P\u00f6schl/1.png"]
    assert (tmp_path / "files" / "P\u00f6schl" / "1.png").read_bytes() == b"content"


@pytest.mark.parametrize("declared", [True, False])
@pytest.mark.parametrize("encoding", ["latin-1", "cp437", "shift_jis"])
def test_other_encodings_are_refused(tmp_path: Path, declared: bool, encoding: str) -> None:
    text = "\u808c/1.png" if encoding == "shift_jis" else "P\u00f6schl/1.png"
    archive = zip_with_raw_name(tmp_path / "a.zip", text.encode(encoding), declared)
    with pytest.raises(MedhebError, match="not valid UTF-8") as caught:
        unpack(archive, tmp_path / "files", ALL)
    assert str(archive) in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["a.zip"]


def test_hidden_traversal_in_an_undeclared_name(tmp_path: Path) -> None:
    archive = zip_with_raw_name(tmp_path / "a.zip", "\u00f6/../../evil".encode(), declared=False)
    with pytest.raises(MedhebError, match="leaves its folder"):
        unpack(archive, tmp_path / "files", ALL)


def test_undeclared_and_declared_name_collide(tmp_path: Path) -> None:
    archive = tmp_path / "a.zip"
    with zipfile.ZipFile(archive, "w") as opened:
        opened.writestr("xx.txt", b"1")
        opened.writestr("\u00f6.txt", b"2")
    archive.write_bytes(archive.read_bytes().replace(b"xx.txt", "\u00f6.txt".encode()))
    with pytest.raises(MedhebError, match="occurs twice"):
        unpack(archive, tmp_path / "files", ALL)


@pytest.mark.parametrize("name", ["a.7z", "a.rar", "a.zip.001", "a.z01", "a.tar.zst", "a.nii.gz"])
def test_kinds_that_no_source_needs(tmp_path: Path, name: str) -> None:
    archive = tmp_path / name
    archive.write_bytes(b"7z\xbc\xaf\x27\x1c")
    with pytest.raises(MedhebError, match="not a kind of archive that can be unpacked") as caught:
        unpack(archive, tmp_path / "files", ALL)
    assert ".zip, .tar" in caught.value.remedy
