"""One DICOM picture: header and stored pixel values, whatever the file's own faults and compression.

Decoders: pydicom itself (uncompressed, RLE), Pillow (8 bit JPEG), OpenJPEG through pylibjpeg (JPEG 2000) and
imagecodecs (JPEG-LS, lossless and 12 bit JPEG). One decoder a transfer syntax, so that no machine silently takes
another one.
"""

from __future__ import annotations

import logging
import struct
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import pydicom
from pydicom import config, uid
from pydicom.encaps import generate_frames
from pydicom.errors import BytesLengthException, InvalidDicomError
from pydicom.pixels import get_decoder

from medheb.core.errors import MedhebError
from medheb.imaging import dicom_plugin
from medheb.imaging.codestreams import look_at
from medheb.imaging.volume import Array

MAX_PIXELS = 80_000_000
ITEM = b"\xfe\xff\x00\xe0"
GET_AGAIN = "Fetch the file again; if it stays so, leave it out and report it to the publisher"
PLUGINS = {
    **dict.fromkeys((*uid.UncompressedTransferSyntaxes, uid.DeflatedExplicitVRLittleEndian), ""),
    **dict.fromkeys(dicom_plugin.SYNTAXES, dicom_plugin.NAME),
    **dict.fromkeys(uid.JPEG2000TransferSyntaxes, "pylibjpeg"),
    uid.RLELossless: "pydicom",
    uid.JPEGBaseline8Bit: "pillow",
}
# What pydicom and the decoders raise on damaged input, from their sources and from fuzzing.
READ_ERRORS = (
    InvalidDicomError,
    BytesLengthException,
    OSError,
    EOFError,
    AttributeError,
    RuntimeError,
    ValueError,
    TypeError,
    LookupError,
    ArithmeticError,
    NotImplementedError,
    struct.error,
    zlib.error,
)


@dataclass(frozen=True)
class StoredPixels:
    """Header and pixel values as stored.

    ``values`` has the shape (H, W) for grey, in an integer or float type, and (H, W, 3) for colour, RGB, uint8 or
    uint16. ``notes`` are fixed phrases about what had to be mended.
    """

    header: pydicom.Dataset
    values: Array
    syntax: uid.UID
    notes: tuple[str, ...]


@contextmanager
def quiet() -> Iterator[None]:
    """No warnings of pydicom about values it can live with (illegal UIDs, odd lengths); faults still raise."""
    logger = logging.getLogger("pydicom")
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        with warnings.catch_warnings(), config.disable_value_validation():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(before)


# Tag (7FE0,0010) of explicit little endian files with its type; compressed pixels are always stored so.
PIXELS_BEGIN = (b"\xe0\x7f\x10\x00OB", b"\xe0\x7f\x10\x00OW")


def read_header(path: Path) -> pydicom.Dataset:
    """The data set of a DICOM file, pixels not yet decoded; also of one without the 128 bytes in front.

    Raises:
        MedhebError: missing, empty, or not DICOM.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError as error:
        raise MedhebError(path, "is missing", GET_AGAIN) from error
    except OSError as error:
        raise MedhebError(path, f"cannot be read ({error.strerror})", "Mend the permissions or the disk") from error
    if not content:
        raise MedhebError(path, "is empty (0 bytes)", GET_AGAIN)
    bare = content[128:132] != b"DICM"
    try:
        header = pydicom.dcmread(BytesIO(content), force=bare)
        list(header.elements())
        if bare and "Rows" not in header:
            raise InvalidDicomError("no preamble, no rows")
    except READ_ERRORS as error:
        raise MedhebError(path, "is not a DICOM file, or its header is damaged", GET_AGAIN) from error
    if "PixelData" not in header and any(mark in content for mark in PIXELS_BEGIN):
        # The reader ends quietly where compressed pixels break off.
        raise MedhebError(path, "is cut off within its pixels", GET_AGAIN)
    return header


def _first_frame(header: pydicom.Dataset) -> bytes | None:
    """The compressed picture; None if the pixels are not compressed."""
    data = header.get("PixelData") or b""
    if data[:4] != ITEM or not header["PixelData"].is_undefined_length:
        return None
    try:
        return next(generate_frames(data, number_of_frames=1), b"")
    except READ_ERRORS:
        return b""


def transfer_syntax(header: pydicom.Dataset, path: Path) -> tuple[uid.UID, list[str]]:
    """How the pixels are encoded: as the file says, else found out from the pixel data itself.

    Returns:
        The transfer syntax, and a note if it was found out.

    Raises:
        MedhebError: nothing fits, or a compressed stream that has another size than the header or no end.
    """
    named = header.file_meta.get("TransferSyntaxUID") if hasattr(header, "file_meta") else None
    stream = _first_frame(header)
    seen = None if stream is None else look_at(stream)
    if seen is not None and (not seen.ended or seen.size not in {None, (header.Rows, header.Columns)}):
        size = "" if seen.size is None else f", {seen.size[1]} x {seen.size[0]}"
        fault = f"has pixels that cannot be decoded: a stream{size}, cut off or not of the size that the header says"
        raise MedhebError(path, fault, GET_AGAIN)
    if named is not None and named in PLUGINS and (stream is not None) == named.is_encapsulated:
        return named, []
    if stream is not None:
        found = None if seen is None else seen.syntax
    elif named is None or not named.is_transfer_syntax:
        found = _plain_syntax(header)
    else:
        found = None
    if found is None:
        name = named.name if named is not None and named in uid.UID_dictionary else "unknown"
        fault = f"has pixels whose encoding no decoder here reads (transfer syntax: {name})"
        raise MedhebError(path, fault, "Convert the file to explicit little endian")
    return found, ["transfer syntax missing or wrong, found out from the pixels"]


def _plain_syntax(header: pydicom.Dataset) -> uid.UID:
    implicit, little = header.original_encoding
    if implicit:
        return uid.ImplicitVRLittleEndian
    return uid.ExplicitVRLittleEndian if little else uid.ExplicitVRBigEndian


def _declared(header: pydicom.Dataset, path: Path, max_pixels: int) -> tuple[int, int, int]:
    """Rows, columns and samples a pixel, checked before anything is decoded."""
    if not any(header.get(name) for name in ("PixelData", "FloatPixelData", "DoubleFloatPixelData")):
        raise MedhebError(path, "is a DICOM file without pixels", GET_AGAIN)
    try:
        rows, columns = int(header["Rows"].value), int(header["Columns"].value)
        samples, frames = int(header.get("SamplesPerPixel") or 1), int(header.get("NumberOfFrames") or 1)
    except (KeyError, TypeError, ValueError) as error:
        raise MedhebError(path, "does not say how many rows and columns it has", GET_AGAIN) from error
    if rows < 1 or columns < 1 or samples not in {1, 3}:
        raise MedhebError(path, f"declares {columns} x {rows} pixels of {samples} samples", GET_AGAIN)
    if rows * columns > max_pixels:
        fault = f"declares too many pixels: {columns} x {rows}, allowed are {max_pixels:,}"
        raise MedhebError(path, fault, "Take it out if it is no real picture")
    if frames > 1:
        raise MedhebError(path, f"is a film of {frames} frames, not one picture", "Give one picture a file")
    return rows, columns, samples


def _complete(header: pydicom.Dataset) -> list[str]:
    """Fill what follows from the rest, or what anonymisers drop. Returns a note a filled fact."""
    notes = []
    if header.get("PhotometricInterpretation") is None:
        header.PhotometricInterpretation = "RGB" if header.get("SamplesPerPixel") == 3 else "MONOCHROME2"
        notes.append("photometric interpretation not given")
    if header.get("SamplesPerPixel") is None:
        header.SamplesPerPixel = 1
    if header.get("BitsStored") is None and header.get("BitsAllocated") is not None:
        header.BitsStored = header.BitsAllocated
        notes.append("bits stored not given")
    if header.get("PixelRepresentation") is None:
        header.PixelRepresentation = 0
    if header.get("SamplesPerPixel") == 3 and header.get("PlanarConfiguration") is None:
        header.PlanarConfiguration = 0
    return notes


def _check_length(header: pydicom.Dataset, path: Path, values: int) -> None:
    """Refuse uncompressed pixels that end too early, whatever the byte order of the file.

    Raises:
        MedhebError: there are fewer bytes than ``values`` take.
    """
    bits, halved = int(header.get("BitsAllocated") or 0), header.PhotometricInterpretation == "YBR_FULL_422"
    wanted = (values * bits + 7) // 8 * (2 if halved else 3) // 3
    if "PixelData" in header and len(header.PixelData) < wanted:
        fault = f"is cut off within its pixels: {len(header.PixelData):,} of {wanted:,} bytes"
        raise MedhebError(path, fault, GET_AGAIN)


def decode(header: pydicom.Dataset, path: Path, max_pixels: int = MAX_PIXELS) -> StoredPixels:
    """The pixel values of a header from :func:`read_header`, colours as RGB.

    Raises:
        MedhebError: no pixels, several frames, an unknown encoding, a damaged or short stream, or too many pixels.
    """
    rows, columns, samples = _declared(header, path, max_pixels)
    notes = _complete(header)
    syntax, found = transfer_syntax(header, path)
    if PLUGINS[syntax] == dicom_plugin.NAME:
        dicom_plugin.register(syntax)
    if not syntax.is_encapsulated:
        _check_length(header, path, rows * columns * samples)
    if not hasattr(header, "file_meta"):
        header.file_meta = pydicom.dataset.FileMetaDataset()
    header.file_meta.TransferSyntaxUID = syntax
    options: dict[str, Any] = {"decoding_plugin": PLUGINS[syntax]} if PLUGINS[syntax] else {}
    try:
        with quiet():
            values, _ = get_decoder(syntax).as_array(header, as_rgb=True, **options)
            if header.PhotometricInterpretation == "PALETTE COLOR":
                values = pydicom.pixels.apply_color_lut(values, header)
    except READ_ERRORS as error:
        fault = f"has pixels that cannot be decoded ({syntax.name})"
        raise MedhebError(path, fault, GET_AGAIN) from error
    if values.shape[:2] != (rows, columns) or values.ndim != (3 if samples == 3 else values.ndim):
        raise MedhebError(path, f"decodes to {values.shape}, not to its declared size", GET_AGAIN)
    return StoredPixels(header, values, syntax, (*notes, *found))
