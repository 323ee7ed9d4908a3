"""DICOM series reader: all headers first, then pixels file by file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pydicom

from medheb.core.errors import MedhebError
from medheb.imaging.dicom_pixels import PLUGINS, READ_ERRORS, decode, quiet, read_header
from medheb.imaging.stored import StoredVolume
from medheb.imaging.volume import MAX_VOLUME_BYTES, Affine, Array, Volume, check_declared

MAX_FILES = 10_000
POSITION_TOLERANCE_MM = 0.05
GET_AGAIN = "Delete the folder and fetch the source again"
NEEDED = ("Rows", "Columns", "PixelSpacing", "ImagePositionPatient", "ImageOrientationPatient", "BitsAllocated")


@dataclass(frozen=True)
class _Slice:
    """What the header of one file says."""

    path: Path
    series: str
    rows: int
    columns: int
    spacing: tuple[float, ...]
    orientation: tuple[float, ...]
    position: tuple[float, ...]
    slope: float
    intercept: float
    lowest: int
    highest: int


def _stated(header: pydicom.Dataset, name: str) -> bool:
    element = header.get_item(name)
    return element is not None and element.value not in (None, b"", "")


def _numbers(
    header: pydicom.Dataset, path: Path, name: str, count: int, default: float | None = None
) -> tuple[float, ...]:
    """The finite numbers of an element.

    Raises:
        MedhebError: something else, or another number of them.
    """
    try:
        stated = header.get(name, default)
        values = [stated] if count == 1 else stated
        numbers = tuple(float(value) for value in values)
    except READ_ERRORS:
        numbers = ()
    if len(numbers) != count or not np.isfinite(numbers).all():
        raise MedhebError(path, f"does not give {count} finite number{'s' * (count > 1)} as {name}", GET_AGAIN)
    return numbers


def _read_header(path: Path) -> _Slice:
    try:
        with quiet():
            header = pydicom.dcmread(path, stop_before_pixels=True)
    except PermissionError as error:
        raise MedhebError(path, "may not be read by this user", "Give read permission on the file") from error
    except READ_ERRORS as error:
        raise MedhebError(path, "is not a DICOM file", "Keep only the files of one series in the folder") from error
    try:
        with quiet():  # values are decoded when they are asked for
            return _slice_of(header, path)
    except READ_ERRORS as error:
        raise MedhebError(path, "has a damaged header", GET_AGAIN) from error


def _slice_of(header: pydicom.Dataset, path: Path) -> _Slice:
    missing = [name for name in NEEDED if not _stated(header, name)]
    if missing:
        raise MedhebError(path, f"lacks {missing[0]}", "Give a series of axial images with positions")
    syntax = header.file_meta.TransferSyntaxUID
    if syntax not in PLUGINS:
        raise MedhebError(path, f"has transfer syntax {syntax.name}", "Convert the series to explicit little endian")
    if int(header.get("SamplesPerPixel", 1)) != 1 or int(header.get("NumberOfFrames", 1)) != 1:
        raise MedhebError(path, "is a colour or multi-frame image", "Give a series with one grey image a file")
    if header.get("PhotometricInterpretation") != "MONOCHROME2":
        raise MedhebError(
            path, f"has photometric interpretation {header.get('PhotometricInterpretation')}", "Allowed: MONOCHROME2"
        )
    bits = int(header.get("BitsStored", header.BitsAllocated))
    signed = int(header.get("PixelRepresentation", 0)) == 1
    spacing = _numbers(header, path, "PixelSpacing", 2)
    if min(spacing) <= 0:
        raise MedhebError(path, f"says that its pixels are {spacing[0]:g} x {spacing[1]:g} mm large", GET_AGAIN)
    slope = _numbers(header, path, "RescaleSlope", 1, default=1)[0]
    if slope == 0:
        raise MedhebError(path, "gives 0 as RescaleSlope, which leaves one value", GET_AGAIN)
    return _Slice(
        path=path,
        series=str(header.get("SeriesInstanceUID", "")),
        rows=int(header.Rows),
        columns=int(header.Columns),
        spacing=spacing,
        orientation=_numbers(header, path, "ImageOrientationPatient", 6),
        position=_numbers(header, path, "ImagePositionPatient", 3),
        slope=slope,
        intercept=_numbers(header, path, "RescaleIntercept", 1, default=0)[0],
        lowest=-(1 << (bits - 1)) if signed else 0,
        highest=(1 << (bits - 1)) - 1 if signed else (1 << bits) - 1,
    )


def _check_uniform(slices: list[_Slice]) -> None:
    first = slices[0]
    for other in slices[1:]:
        if (other.rows, other.columns) != (first.rows, first.columns):
            raise MedhebError(
                other.path,
                f"is {other.columns} x {other.rows}, but {first.path.name} is {first.columns} x {first.rows}",
                "Keep only the files of one series in the folder",
            )
        if other.series != first.series:
            raise MedhebError(other.path, "belongs to another series", "Keep only the files of one series")
        if not np.allclose(other.orientation + other.spacing, first.orientation + first.spacing, atol=1e-3):
            raise MedhebError(other.path, "has another direction or pixel size", "Keep only the files of one series")


def _affine(slices: list[_Slice], distances: list[float]) -> Affine:
    """Index (column, row, slice) to RAS millimetres. DICOM coordinates are LPS, hence two sign changes."""
    first, last = slices[0], slices[-1]
    affine = np.eye(4)
    affine[:3, 0] = np.array(first.orientation[:3]) * first.spacing[1]
    affine[:3, 1] = np.array(first.orientation[3:]) * first.spacing[0]
    affine[:3, 2] = (np.array(last.position) - np.array(first.position)) / (len(distances) - 1)
    affine[:3, 3] = first.position
    turned: Affine = np.diag([-1.0, -1.0, 1.0, 1.0]) @ affine
    return turned


def _check_even(slices: list[_Slice], distances: list[float], folder: Path) -> None:
    gaps = np.diff(distances)
    usual = float(np.median(gaps))
    if distances[-1] - distances[0] < POSITION_TOLERANCE_MM:
        raise MedhebError(folder, "has all its images at one place, or a damaged ImageOrientationPatient", GET_AGAIN)
    for position, gap in enumerate(gaps):
        if abs(gap - usual) > POSITION_TOLERANCE_MM:
            name = slices[position].path.name
            fault = "two images at one place" if gap < POSITION_TOLERANCE_MM else "a missing or displaced image"
            raise MedhebError(
                folder, f"has {fault} after {name} (step {gap:.2f} mm, usually {usual:.2f} mm)", GET_AGAIN
            )


def _planes(slices: list[_Slice], dtype: np.dtype[Any], indices: Sequence[int]) -> Iterator[Array]:
    """Slices, each (column, row), rescaled once."""
    for index in indices:
        entry = slices[index]
        pixels = decode(read_header(entry.path), entry.path).values
        if dtype.kind == "f":
            plane = pixels.astype(np.float32) * np.float32(entry.slope) + np.float32(entry.intercept)
        else:
            plane = (pixels.astype(np.int32) + np.int32(entry.intercept)).astype(dtype)
        yield plane.T


def open_dicom_series(folder: Path, max_bytes: int = MAX_VOLUME_BYTES) -> StoredVolume:
    """Read and check the headers of a folder that holds exactly one series of single-frame grey images.

    Slices are sorted by their position along the slice normal; file names do not matter. The array's axes are
    column, row, slice. With slope 1 and a whole intercept slices are int16 (int32 where the range asks for it), else
    float32.

    Raises:
        MedhebError: no folder or too few files, a file that is not DICOM, files of different size or series,
            a gap, an unknown encoding, or more than ``max_bytes``.
    """
    try:
        paths = sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    except (FileNotFoundError, NotADirectoryError) as error:
        remedy = "Fetch the source again, or correct the path in its manifest"
        raise MedhebError(folder, "is not a folder", remedy) from error
    except OSError as error:
        raise MedhebError(folder, f"cannot be listed ({error.strerror})", "Give read permission on it") from error
    if not 2 <= len(paths) <= MAX_FILES:
        raise MedhebError(folder, f"holds {len(paths)} files", f"Allowed: 2 to {MAX_FILES} images of one series")
    slices = [_read_header(path) for path in paths]
    _check_uniform(slices)
    first = slices[0]
    normal = np.cross(first.orientation[:3], first.orientation[3:])
    slices.sort(key=lambda entry: float(np.dot(normal, entry.position)))
    distances = [float(np.dot(normal, entry.position)) for entry in slices]
    _check_even(slices, distances, folder)
    dtype, affine = _dtype(slices), _affine(slices, distances)
    shape = (first.columns, first.rows, len(slices))
    check_declared(str(folder), shape, dtype, max_bytes)
    return StoredVolume(
        where=str(folder),
        shape=shape,
        dtype=dtype,
        axis=2,
        read=partial(_planes, slices, dtype),
        spacing=(first.spacing[1], first.spacing[0], float(np.linalg.norm(affine[:3, 2]))),
        affine=affine,
    )


def _dtype(slices: list[_Slice]) -> np.dtype[Any]:
    """Type that holds every value that the slices can take after rescaling."""
    if not all(entry.slope == 1 and entry.intercept == int(entry.intercept) for entry in slices):
        return np.dtype(np.float32)
    lowest = min(entry.lowest + entry.intercept for entry in slices)
    highest = max(entry.highest + entry.intercept for entry in slices)
    narrow = lowest >= np.iinfo(np.int16).min and highest <= np.iinfo(np.int16).max
    return np.dtype(np.int16 if narrow else np.int32)


def read_dicom_series(folder: Path, max_bytes: int = MAX_VOLUME_BYTES) -> Volume:
    """Read a series in RAS order; see :func:`open_dicom_series`.

    Raises:
        MedhebError: as there; pixels that cannot be decoded.
    """
    return open_dicom_series(folder, max_bytes).canonical()
