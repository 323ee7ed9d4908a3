"""Members of ZIP archives through the fast reader: the same bytes, and damage is noticed."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest

from medheb.core.errors import MedhebError
from medheb.imaging.arrays import open_npz
from medheb.imaging.zip_members import open_member

CONTENT = bytes(range(256)) * 4000 + b"end"


def archive(path: Path, packing: int, content: bytes = CONTENT) -> zipfile.ZipInfo:
    with zipfile.ZipFile(path, "w", packing) as made:
        made.writestr("before", b"x" * 1000)
        made.writestr("member", content)
    with zipfile.ZipFile(path) as made:
        return made.getinfo("member")


@pytest.mark.parametrize("packing", [zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED, zipfile.ZIP_LZMA])
@pytest.mark.parametrize("piece", [1, 7, 4096, 1 << 20, -1])
def test_the_same_bytes_in_pieces_of_any_size(tmp_path: Path, packing: int, piece: int) -> None:
    content = CONTENT if piece > 7 or piece < 0 else CONTENT[-3000:]
    info = archive(tmp_path / "a.zip", packing, content)
    with open_member(tmp_path / "a.zip", info) as stream:
        found = b""
        while part := stream.read(piece):
            found += part
            assert piece < 0 or len(part) <= piece
        assert stream.read(10) == b""
    assert found == content


def test_a_wrong_checksum_and_an_early_end(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    info = archive(path, zipfile.ZIP_DEFLATED)
    info.CRC ^= 1
    with open_member(path, info) as stream, pytest.raises(zipfile.BadZipFile, match="Bad CRC-32 for file 'member'"):
        stream.read()
    info.CRC ^= 1
    info.compress_size -= 5
    with open_member(path, info) as stream, pytest.raises(EOFError, match="the packed data end early"):
        stream.read(len(CONTENT) + 1)
    info.header_offset += 3
    with pytest.raises(zipfile.BadZipFile, match="Bad magic number"):
        open_member(path, info)


def test_a_damaged_array_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez_compressed(path, a=np.random.default_rng(0).integers(0, 255, (50, 100, 100), np.uint8))
    content = bytearray(path.read_bytes())
    content[len(content) // 2 : len(content) // 2 + 40] = bytes(40)
    path.write_bytes(content)
    with pytest.raises(MedhebError, match=r"a\.npz: a\.npy: ends or breaks at slice \d+"):
        for _ in open_npz(path)["a"].slices():
            pass
