"""Bytes of plain and gzip files, read forward in large pieces."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
from isal import igzip

from medheb.core.errors import MedhebError
from medheb.imaging.volume import Array

GZIP_MAGIC = b"\x1f\x8b"
# Deflate cannot shrink zeros by more than 1032 : 1, so a larger claim is a lie about the content.
MAX_DEFLATE_RATIO = 1032
HEADER_ROOM = 1 << 20
SKIP_BYTES = 1 << 20
GET_AGAIN = "Delete it and fetch the source again"
READ_FAULTS = (OSError, EOFError, ValueError, zlib.error, zipfile.BadZipFile)


def is_gzip(path: Path) -> bool:
    """Whether a file starts like gzip, whatever its name says."""
    with path.open("rb") as stream:
        return stream.read(2) == GZIP_MAGIC


def check_room(path: Path, declared: int, packed: bool) -> None:
    """Check that a file is large enough for the bytes it declares.

    Raises:
        MedhebError: it cannot hold them.
    """
    size = path.stat().st_size
    if declared > (size * MAX_DEFLATE_RATIO + HEADER_ROOM if packed else size):
        raise MedhebError(path, f"declares {declared} bytes of voxels, more than it can hold", GET_AGAIN)


def open_bytes(path: Path, packed: bool) -> IO[bytes]:
    """Open a file for reading forward; ISA-L unpacks gzip several times as fast as zlib."""
    stream: IO[bytes] = igzip.open(path, "rb") if packed else path.open("rb")
    return stream


def take(stream: IO[bytes], count: int) -> bytes:
    """The next ``count`` bytes.

    Raises:
        EOFError: the stream ends first.
    """
    content = stream.read(count)
    if len(content) != count:
        raise EOFError(f"the data end {count - len(content)} bytes early")
    return content


def skip(stream: IO[bytes], count: int) -> None:
    """Read and forget ``count`` bytes.

    Raises:
        EOFError: the stream ends first.
    """
    while count > 0:
        count -= len(take(stream, min(count, SKIP_BYTES)))


def read_blocks(
    where: str | Path,
    offset: int,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    indices: Sequence[int],
    opener: Callable[[], IO[bytes]],
    seekable: bool,
) -> Iterator[Array]:
    """Equal blocks that lie one behind the other in a stream of bytes, by number.

    Args:
        where: file named in errors.
        offset: bytes before block 0, from where the opener leaves the stream.
        shape: of one block, in C order.
        dtype: of the stored values.
        indices: increasing block numbers.
        opener: opens the stream.
        seekable: whether the stream can jump; otherwise what lies between is read and forgotten.

    Yields:
        Read-only arrays of the stored type.

    Raises:
        MedhebError: the stream ends early or cannot be unpacked.
    """
    block_bytes = dtype.itemsize * int(np.prod(shape, dtype=np.int64))
    index, position = -1, 0
    try:
        with opener() as stream:
            for index in indices:
                start = offset + index * block_bytes
                if seekable:
                    stream.seek(start)
                else:
                    skip(stream, start - position)
                content = take(stream, block_bytes)
                position = start + block_bytes
                yield np.frombuffer(content, dtype=dtype).reshape(shape)
            if not seekable:
                # One byte further a sound file ends, and only there gzip compares its checksum.
                stream.read(1)
    except READ_FAULTS as error:
        fault = f"ends or breaks at slice {index} or soon after ({first_line(error)})"
        raise MedhebError(where, fault, GET_AGAIN) from error


def first_line(error: BaseException) -> str:
    """First line of an error's text, or its name."""
    return (str(error).splitlines() or [type(error).__name__])[0]
