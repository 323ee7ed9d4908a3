"""NRRD reader: SimpleITK checks the header, then the voxels in their stored type, first index fastest (x first).

Plain and gzip files are read slice by slice. Other encodings, and files that skip lines or bytes, are read whole by
SimpleITK.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
from isal import igzip

from medheb.core.errors import MedhebError
from medheb.imaging.stored import StoredVolume, kept_dtype, usable
from medheb.imaging.streams import GET_AGAIN, check_room, first_line, read_blocks
from medheb.imaging.volume import MAX_VOLUME_BYTES, Affine, Array, check_declared

MAGIC = b"NRRD000"
LPS_TO_RAS = np.diag([-1.0, -1.0, 1.0, 1.0])
HEADER_BYTES = 1 << 20
PLAIN_ENCODINGS = {"raw": False, "gzip": True, "gz": True}
ORDERS: dict[str, Literal["<", ">"]] = {"little": "<", "big": ">"}
# A header may name other files as its data; a download that is checked file by file has no use for it.
ELSEWHERE = re.compile(rb"^data ?file:", re.MULTILINE | re.IGNORECASE)
# SimpleITK's names of the types of one real number.
DTYPES = {
    "8-bit signed integer": np.int8,
    "8-bit unsigned integer": np.uint8,
    "16-bit signed integer": np.int16,
    "16-bit unsigned integer": np.uint16,
    "32-bit signed integer": np.int32,
    "32-bit unsigned integer": np.uint32,
    "64-bit signed integer": np.int64,
    "64-bit unsigned integer": np.uint64,
    "32-bit float": np.float32,
    "64-bit float": np.float64,
}


def _header(path: Path) -> Any:
    """SimpleITK's reader after it has read the header."""
    import SimpleITK  # half a second, so only where it is needed

    try:
        with path.open("rb") as stream:
            head = stream.read(HEADER_BYTES)
    except FileNotFoundError as error:
        raise MedhebError(
            path, "does not exist", "Fetch the source again, or correct the path in its manifest"
        ) from error
    except OSError as error:
        raise MedhebError(path, f"cannot be read ({error.strerror})", "Give a file that this user may read") from error
    if not head.startswith(MAGIC):
        raise MedhebError(path, "is not a NRRD volume", GET_AGAIN)
    if ELSEWHERE.search(head.split(b"\n\n", 1)[0].replace(b"\r", b"")):
        raise MedhebError(path, "keeps its voxels in another file", "Give a NRRD file that holds its own voxels")
    reader = SimpleITK.ImageFileReader()
    reader.SetImageIO("NrrdImageIO")
    reader.SetFileName(str(path))
    try:
        reader.ReadImageInformation()
    except RuntimeError as error:
        raise MedhebError(path, f"has an unreadable NRRD header ({_last_line(error)})", GET_AGAIN) from error
    return reader


def _last_line(error: RuntimeError) -> str:
    """ITK's own words; the lines before name its source files."""
    return str(error).strip().splitlines()[-1] if str(error).strip() else first_line(error)


@dataclass(frozen=True)
class _Data:
    """Where and how the voxels lie in a file."""

    start: int
    packed: bool
    order: Literal["<", ">"]

    def open(self, path: Path) -> IO[bytes]:
        """The file, and of a packed one the unpacked voxels."""
        stream: IO[bytes] = path.open("rb")
        if self.packed:
            stream.seek(self.start)
            unpacked = igzip.IGzipFile(fileobj=stream, mode="rb")
            unpacked.myfileobj = stream  # closed with it
            stream = unpacked
        return stream


def _fields(header: bytes) -> dict[str, str]:
    """Names without blanks and values of a header's fields, in lower case."""
    return {
        key.strip().lower().replace(" ", ""): value.strip().lower()
        for key, found, value in (line.partition(": ") for line in header.decode("latin-1").split("\n"))
        if found
    }


def _stated_sizes(path: Path, sizes: Sequence[float]) -> tuple[float, ...]:
    """``sizes`` as ITK gives them, but NaN where the file says so: ITK makes 1 mm of an unknown size."""
    with path.open("rb") as stream:
        stated = _fields(stream.read(HEADER_BYTES).partition(b"\n\n")[0]).get("spacings", "").split()
    unknown = [word == "nan" for word in stated] or [False] * len(sizes)
    return tuple(math.nan if missing else float(size) for size, missing in zip(sizes, unknown, strict=True))


def _data_of(path: Path) -> _Data | None:
    """Place of the voxels, ``None`` where SimpleITK has to find them."""
    with path.open("rb") as stream:
        header, end, _ = stream.read(HEADER_BYTES).partition(b"\n\n")
    fields = _fields(header)
    encoding, order = fields.get("encoding", ""), fields.get("endian", "little")
    skips = {fields.get(name, "0") for name in ("lineskip", "byteskip")}
    if not end or b"\r" in header or encoding not in PLAIN_ENCODINGS or skips != {"0"} or order not in ORDERS:
        return None
    return _Data(len(header) + len(end), PLAIN_ENCODINGS[encoding], ORDERS[order])


def _planes(
    path: Path, shape: tuple[int, ...], stored: np.dtype[Any], kept: np.dtype[Any], indices: Sequence[int]
) -> Iterator[Array]:
    """Slices across the last axis, each (I, J)."""
    data = _data_of(path)
    if data is None:
        yield from _planes_of_whole(path, kept, indices)
        return
    start, packed = (0, True) if data.packed else (data.start, False)
    dtype, opener = stored.newbyteorder(data.order), partial(data.open, path)
    for block in read_blocks(path, start, (shape[1], shape[0]), dtype, indices, opener, seekable=not packed):
        yield block.T.astype(kept)


def _planes_of_whole(path: Path, kept: np.dtype[Any], indices: Sequence[int]) -> Iterator[Array]:
    """The same, by SimpleITK, which reads the whole file in its stored type."""
    import SimpleITK

    reader = _header(path)
    try:
        image = reader.Execute()
    except RuntimeError as error:
        raise MedhebError(path, f"ends or breaks inside its voxels ({_last_line(error)})", GET_AGAIN) from error
    # SimpleITK shows (K, J, I); the view shares memory with the image, so both stay alive until the end.
    view = SimpleITK.GetArrayViewFromImage(image)
    for index in indices:
        yield view[index].T.astype(kept)


def open_nrrd(path: Path, max_bytes: int = MAX_VOLUME_BYTES) -> StoredVolume:
    """Read and check the header of a three-dimensional NRRD file.

    Raises:
        MedhebError: missing, unreadable, not NRRD, not three-dimensional, more than one number per voxel, or
            larger than ``max_bytes`` or than the file can hold.
    """
    import SimpleITK

    reader = _header(path)
    shape = tuple(int(length) for length in reader.GetSize())
    kind = SimpleITK.GetPixelIDValueAsString(reader.GetPixelID())
    if kind not in DTYPES:
        raise MedhebError(path, f"holds voxels of the kind {kind}", "Give a volume with one real number per voxel")
    stored = np.dtype(DTYPES[kind])
    check_room(path, check_declared(str(path), shape, stored, max_bytes), packed=True)
    x, y, z = _stated_sizes(path, reader.GetSpacing())
    kept = kept_dtype(stored)
    return StoredVolume(
        where=str(path),
        shape=(shape[0], shape[1], shape[2]),
        dtype=kept,
        axis=2,
        read=partial(_planes, path, shape, stored, kept),
        spacing=(x, y, z),
        affine=usable(_affine(reader)),
        oriented=reader.HasMetaDataKey("NRRD_space"),
    )


def _affine(reader: Any) -> Affine:
    """Index to RAS millimetres; ITK's coordinates are LPS, hence two sign changes."""
    affine: Affine = np.eye(4)
    affine[:3, :3] = np.array(reader.GetDirection()).reshape(3, 3) * np.array(reader.GetSpacing())
    affine[:3, 3] = reader.GetOrigin()
    turned: Affine = LPS_TO_RAS @ affine
    return turned
