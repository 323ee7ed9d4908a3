"""NRRD reader through SimpleITK: header first, then the voxels in their stored type, first index fastest (x first)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from medheb.core.errors import MedhebError
from medheb.imaging.stored import StoredVolume, kept_dtype, usable
from medheb.imaging.streams import GET_AGAIN, check_room, first_line
from medheb.imaging.volume import MAX_VOLUME_BYTES, Affine, Array, check_declared

MAGIC = b"NRRD000"
LPS_TO_RAS = np.diag([-1.0, -1.0, 1.0, 1.0])
HEADER_BYTES = 1 << 20
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


def _planes(path: Path, kept: np.dtype[np.generic], indices: Sequence[int]) -> Iterator[Array]:
    """Slices across the last axis, each (I, J). The file is read whole in its stored type."""
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
    x, y, z = (float(length) for length in reader.GetSpacing())
    kept = kept_dtype(stored)
    return StoredVolume(
        where=str(path),
        shape=(shape[0], shape[1], shape[2]),
        dtype=kept,
        axis=2,
        read=partial(_planes, path, kept),
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
