"""NumPy files: one array (``.npy``) or members of an archive (``.npz``), never pickled objects, read piece by piece.

Values keep their stored type, float64 included: what is done to a slice before it becomes a picture depends on it.
"""

from __future__ import annotations

import tokenize
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy

from medheb.core.errors import MedhebError
from medheb.imaging.stored import StoredSlices
from medheb.imaging.streams import GET_AGAIN, MAX_DEFLATE_RATIO, READ_FAULTS, first_line, open_bytes, read_blocks
from medheb.imaging.volume import MAX_VOLUME_BYTES, Array
from medheb.imaging.zip_members import open_member

# All volumes of a data set in one member: far more than one scan, read one by one.
MAX_MEMBER_BYTES = 64 * 1024**3
# Of NumPy for damaged headers, and of zipfile for encrypted members and rare compressions.
FAULTS = (*READ_FAULTS, tokenize.TokenError, SyntaxError, RuntimeError)


def _header(stream: IO[bytes], where: str) -> tuple[tuple[int, ...], np.dtype[Any], bool]:
    """Shape, type and whether the first index runs fastest; the stream then stands at the first value.

    Raises:
        MedhebError: not a NumPy array, or one of objects.
    """
    try:
        version = npy.read_magic(stream)
        if version == (1, 0):
            shape, fortran, dtype = npy.read_array_header_1_0(stream)
        elif version == (2, 0):
            shape, fortran, dtype = npy.read_array_header_2_0(stream)
        else:
            raise ValueError(f"format version {version}")
    except FAULTS as error:
        raise MedhebError(where, f"is not a NumPy array ({first_line(error)})", GET_AGAIN) from error
    if dtype.hasobject:
        raise MedhebError(where, "holds pickled objects, which could run code", "Give an array of plain numbers")
    return shape, dtype, fortran


def _check(where: str, shape: tuple[int, ...], dtype: np.dtype[Any], max_bytes: int, room: int) -> None:
    if dtype.kind not in "biuf":
        raise MedhebError(where, f"holds {dtype} values", "Give an array of plain numbers")
    if not shape or min(shape) < 1:
        raise MedhebError(where, f"has the empty shape {shape}", GET_AGAIN)
    declared = dtype.itemsize
    for length in shape:
        declared *= length
    if declared > max_bytes:
        raise MedhebError(
            where,
            f"declares {declared} bytes, more than the cap of {max_bytes}",
            "Check the file; no known source needs more",
        )
    if declared > room:
        raise MedhebError(where, f"declares {declared} bytes, more than it can hold", GET_AGAIN)


@dataclass(frozen=True)
class _Values:
    """Where the values of one array lie."""

    where: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    fortran: bool
    opener: Callable[[], IO[bytes]]
    offset: int
    seekable: bool

    def entries(self, indices: Sequence[int]) -> Iterator[Array]:
        """Entries along the first axis, one after the other."""
        blocks = partial(
            read_blocks, self.where, self.offset, dtype=self.dtype, opener=self.opener, seekable=self.seekable
        )
        if self.fortran and len(self.shape) > 1:
            # The first index runs fastest, so every entry is spread over the whole array.
            [whole] = blocks(self.shape[::-1], indices=[0])
            entries: Iterator[Array] = (np.ascontiguousarray(whole.T[index]) for index in indices)
        else:
            entries = blocks(self.shape[1:], indices=indices)
        for entry in entries:
            yield entry.astype(self.dtype.newbyteorder("="), copy=False)

    def stored(self) -> StoredSlices:
        """The array as others see it."""
        return StoredSlices(self.where, self.shape, self.dtype.newbyteorder("="), axis=0, read=self.entries)


def open_npy(path: Path, max_bytes: int = MAX_VOLUME_BYTES) -> StoredSlices:
    """Read and check the header of a ``.npy`` file; its slices are the entries along the first axis.

    Raises:
        MedhebError: missing, unreadable, not a NumPy array, pickled objects, no plain numbers, larger than
            ``max_bytes`` or than the file.
    """
    with _opened(path) as stream:
        shape, dtype, fortran = _header(stream, str(path))
        start = stream.tell()
    _check(str(path), shape, dtype, max_bytes, path.stat().st_size - start)
    return _Values(str(path), shape, dtype, fortran, partial(open_bytes, path, False), start, True).stored()


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    """The file as a stream.

    Raises:
        MedhebError: missing or unreadable.
    """
    try:
        stream = path.open("rb")
    except FileNotFoundError as error:
        raise MedhebError(
            path, "does not exist", "Fetch the source again, or correct the path in its manifest"
        ) from error
    except OSError as error:
        raise MedhebError(path, f"cannot be read ({error.strerror})", "Give a file that this user may read") from error
    with stream:
        yield stream


def open_npz(path: Path, max_bytes: int = MAX_MEMBER_BYTES) -> dict[str, StoredSlices]:
    """Read and check the headers of all arrays in a ``.npz`` archive, by name; the file's own name does not matter.

    Raises:
        MedhebError: missing, unreadable, not an archive, or a member as in :func:`open_npy`.
    """
    with _opened(path) as stream:
        try:
            archive = zipfile.ZipFile(stream)
        except FAULTS as error:
            raise MedhebError(path, f"is not a NumPy archive ({first_line(error)})", GET_AGAIN) from error
        members = {}
        for info in archive.infolist():
            name = info.filename.removesuffix(".npy")
            if info.filename == name:
                continue
            if name in members:
                raise MedhebError(path, f"holds the array {name} twice", GET_AGAIN)
            members[name] = _member(path, archive, info, max_bytes)
    if not members:
        raise MedhebError(path, "holds no NumPy array", GET_AGAIN)
    return members


def _member(path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo, max_bytes: int) -> StoredSlices:
    where = f"{path}: {info.filename}"
    try:
        with archive.open(info) as stream:
            shape, dtype, fortran = _header(stream, where)
    except FAULTS as error:
        raise MedhebError(where, f"cannot be unpacked ({first_line(error)})", GET_AGAIN) from error
    _check(where, shape, dtype, max_bytes, min(info.file_size, info.compress_size * MAX_DEFLATE_RATIO))

    def opener() -> IO[bytes]:
        stream = open_member(path, info)
        _header(stream, where)
        return stream

    return _Values(where, shape, dtype, fortran, opener, 0, False).stored()
