"""NIfTI reader: header first, then voxels slice by slice, never as float64."""

from __future__ import annotations

import re
import zlib
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
from nibabel.filebasedimages import ImageFileError
from nibabel.spatialimages import HeaderDataError

from medheb.core.errors import MedhebError
from medheb.imaging.volume import MAX_VOLUME_BYTES, Volume, canonical, check_declared

SUFFIXES = (".nii", ".nii.gz")
# Deflate cannot shrink zeros by more than 1032 : 1, so a larger claim is a lie about the content.
MAX_GZIP_RATIO = 1032
HEADER_ROOM = 1 << 20
GET_AGAIN = "Delete it and fetch the source again"
LABEL_ENTRY = re.compile(r'<Label\b[^>]*\bKey="(\d+)"[^>]*>\s*(?:<!\[CDATA\[)?\s*([^\]<]*?)\s*(?:\]\]>)?\s*</Label>')


def _open(path: Path) -> Any:
    """The lazily loaded image; no voxel is read."""
    if not path.name.endswith(SUFFIXES):
        raise MedhebError(path, "is not named like a NIfTI volume", f"Allowed endings: {', '.join(SUFFIXES)}")
    if not path.is_file():
        raise MedhebError(path, "does not exist", "Fetch the source again, or correct the path in its manifest")
    try:
        image = nibabel.load(path, keep_file_open=True)
    except (
        ImageFileError,
        HeaderDataError,
        EOFError,
        OSError,
        ValueError,
        zlib.error,
    ) as error:
        raise MedhebError(path, f"is not a readable NIfTI volume ({_first_line(error)})", GET_AGAIN) from error
    if not isinstance(image, nibabel.Nifti1Image):
        raise MedhebError(path, f"is a {type(image).__name__}, not a NIfTI volume", GET_AGAIN)
    return image


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def read_nifti(path: Path, max_bytes: int = MAX_VOLUME_BYTES) -> Volume:
    """Read a three-dimensional NIfTI file in RAS order.

    Stored integers of up to 32 bits without scaling keep their type; everything else becomes float32.

    Raises:
        MedhebError: missing, not NIfTI, not three-dimensional, colour, larger than ``max_bytes`` or than the
            file can hold, or cut off.
    """
    image = _open(path)
    header = image.header
    stored = header.get_data_dtype()
    shape = tuple(int(length) for length in header.get_data_shape())
    declared = check_declared(str(path), shape, stored, max_bytes)
    ratio = MAX_GZIP_RATIO if path.name.endswith(".gz") else 1
    if declared > path.stat().st_size * ratio + (HEADER_ROOM if ratio > 1 else 0):
        raise MedhebError(path, f"declares {declared} bytes of voxels, more than it can hold", GET_AGAIN)
    slope, intercept = image.dataobj.slope, image.dataobj.inter
    plain = slope == 1 and intercept == 0 and stored.kind in "iu" and stored.itemsize <= 4
    array = np.empty(shape, dtype=stored.newbyteorder("=") if plain else np.float32, order="F")
    try:
        for index in range(shape[2]):
            array[:, :, index] = image.dataobj[:, :, index]
    except (EOFError, OSError, ValueError, zlib.error) as error:
        raise MedhebError(path, f"ends or breaks at slice {index} of {shape[2]}", GET_AGAIN) from error
    return canonical(array, np.asarray(image.affine, dtype=np.float64), str(path))


def read_label_names(path: Path) -> dict[int, str]:
    """Label table in the header extension of a label map (Connectome Workbench XML), value to name.

    Raises:
        MedhebError: no such table, or a value that occurs twice.
    """
    names: dict[int, str] = {}
    for extension in _open(path).header.extensions:
        content = extension.get_content()
        text = content.decode("utf-8", errors="replace") if isinstance(content, bytes) else str(content)
        for value, name in LABEL_ENTRY.findall(text):
            if int(value) in names:
                raise MedhebError(path, f"names label {value} twice in its header", GET_AGAIN)
            names[int(value)] = name
    if not names:
        raise MedhebError(path, "has no label names in its header", "Name the masks one by one in the manifest")
    return names
