"""NIfTI reader: header first through nibabel, then voxels slice by slice in one pass, never as float64."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
from nibabel.filebasedimages import ImageFileError
from nibabel.spatialimages import HeaderDataError
from nibabel.volumeutils import apply_read_scaling

from medheb.core.errors import MedhebError
from medheb.imaging.stored import StoredVolume, kept_dtype, usable
from medheb.imaging.streams import (
    GET_AGAIN,
    READ_FAULTS,
    check_room,
    first_line,
    is_gzip,
    open_bytes,
    read_blocks,
    take,
)
from medheb.imaging.volume import MAX_VOLUME_BYTES, Array, Volume, check_declared

SUFFIXES = (".nii", ".nii.gz")
LABEL_ENTRY = re.compile(r'<Label\b[^>]*\bKey="(\d+)"[^>]*>\s*(?:<!\[CDATA\[)?\s*([^\]<]*?)\s*(?:\]\]>)?\s*</Label>')


def _open(path: Path) -> Any:
    """The lazily loaded image; no voxel is read."""
    if not path.name.endswith(SUFFIXES):
        raise MedhebError(path, "is not named like a NIfTI volume", f"Allowed endings: {', '.join(SUFFIXES)}")
    try:
        with path.open("rb"):
            pass  # nibabel reports a file that may not be read as one of unknown format
        image = nibabel.load(path)
    except FileNotFoundError as error:
        raise MedhebError(
            path, "does not exist", "Fetch the source again, or correct the path in its manifest"
        ) from error
    except PermissionError as error:
        raise MedhebError(path, "may not be read by this user", "Give read permission on the file") from error
    except (ImageFileError, HeaderDataError, *READ_FAULTS) as error:
        raise MedhebError(path, f"is not a readable NIfTI volume ({first_line(error)})", GET_AGAIN) from error
    if not isinstance(image, nibabel.Nifti1Image):
        raise MedhebError(path, f"is a {type(image).__name__}, not a NIfTI volume", GET_AGAIN)
    return image


def _planes(
    path: Path,
    offset: int,
    shape: tuple[int, ...],
    stored: np.dtype[Any],
    scale: tuple[float, float],
    packed: bool,
    indices: Sequence[int],
) -> Iterator[Array]:
    """Slices across the last axis, each (I, J), scaled once."""
    kept = np.float32 if scale != (1, 0) else kept_dtype(stored)
    # The file's first axis runs fastest, so a slice is stored as (J, I).
    blocks = read_blocks(
        path, offset, (shape[1], shape[0]), stored, indices, partial(open_bytes, path, packed), seekable=not packed
    )
    for block in blocks:
        # In float64, as nibabel does it, but one slice at a time.
        scaled = apply_read_scaling(block, *(np.float64(number) for number in scale))
        yield scaled.astype(kept, copy=False).T


def _stated_sizes(path: Path, header: Any, packed: bool) -> tuple[float, ...]:
    """Voxel sizes as they stand in the file, without sign: nibabel reads a 0 as 1 mm, and only logs it."""
    with open_bytes(path, packed) as stream:
        raw = type(header)(take(stream, header.sizeof_hdr), check=False)
    return tuple(abs(float(length)) for length in raw.get_zooms()[:3])


def open_nifti(path: Path, max_bytes: int = MAX_VOLUME_BYTES, trailing_one: bool = False) -> StoredVolume:
    """Read and check the header of a three-dimensional NIfTI file.

    Slices come as stored, with the header's slope and intercept applied once. Stored integers of up to 32 bits
    without scaling keep their type; everything else becomes float32, slice by slice.

    Args:
        path: ``.nii`` or ``.nii.gz``.
        max_bytes: most that the header may declare.
        trailing_one: accept a fourth axis of length 1 and drop it.

    Raises:
        MedhebError: missing, unreadable, not NIfTI, not three-dimensional, colour, larger than ``max_bytes`` or
            than the file can hold.
    """
    image = _open(path)
    header = image.header
    stored = header.get_data_dtype()
    shape = tuple(int(length) for length in header.get_data_shape())
    if trailing_one and len(shape) == 4 and shape[3] == 1:
        shape = shape[:3]
    packed = is_gzip(path)
    check_room(path, check_declared(str(path), shape, stored, max_bytes), packed)
    scale = (float(image.dataobj.slope), float(image.dataobj.inter))
    x, y, z = _stated_sizes(path, header, packed)
    return StoredVolume(
        where=str(path),
        shape=(shape[0], shape[1], shape[2]),
        dtype=np.dtype(np.float32) if scale != (1, 0) else kept_dtype(stored),
        axis=2,
        read=partial(_planes, path, int(image.dataobj.offset), shape, stored, scale, packed),
        spacing=(x, y, z),
        affine=usable(image.affine),
        oriented=bool(header["qform_code"] > 0 or header["sform_code"] > 0),
        # Without a matrix of its own the file's affine is made of these sizes.
        sized=bool(header["sform_code"] > 0) or 0 not in (x, y, z),
    )


def read_nifti(path: Path, max_bytes: int = MAX_VOLUME_BYTES) -> Volume:
    """Read a three-dimensional NIfTI file in RAS order.

    Raises:
        MedhebError: as :func:`open_nifti`; no usable orientation; cut off.
    """
    return open_nifti(path, max_bytes).canonical()


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
