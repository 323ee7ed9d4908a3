"""Small DICOM files for tests: any window, encoding and fault."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any

import imagecodecs
import numpy as np
import pydicom
from PIL import Image
from pydicom import uid
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.encaps import encapsulate

ROWS, COLUMNS = 72, 66
SECRET = "Roe^Jane"


def ramp(bits: int = 12, signed: bool = False) -> np.ndarray:
    """Every part of the range of ``bits``, smooth with a little noise, (72, 66)."""
    y, x = np.mgrid[0:ROWS, 0:COLUMNS]
    wave = (np.sin(x / 9) * np.cos(y / 11) + 1) / 2 * ((1 << bits) - 2)
    values = np.clip(wave + np.random.default_rng(bits).integers(-3, 4, wave.shape), 0, (1 << bits) - 1).astype(
        np.int64
    )
    if signed:
        values -= 1 << (bits - 1)
    kind = "i" if signed else "u"
    stored: np.ndarray = values.astype(f"{kind}{1 if bits <= 8 else 2}")
    return stored


def dataset(values: np.ndarray, bits: int | None = None, **elements: Any) -> Dataset:
    """A data set of explicit little endian whose pixels are ``values``; ``None`` takes an element out."""
    made = Dataset()
    made.file_meta = FileMetaDataset()
    made.file_meta.TransferSyntaxUID = uid.ExplicitVRLittleEndian
    made.Modality = "DX"
    made.PatientName, made.PatientID = SECRET, "4711"
    made.Rows, made.Columns = values.shape[:2]
    made.SamplesPerPixel = 3 if values.ndim == 3 else 1
    made.PhotometricInterpretation = "RGB" if values.ndim == 3 else "MONOCHROME2"
    if values.ndim == 3:
        made.PlanarConfiguration = 0
    made.BitsAllocated = 8 * values.dtype.itemsize
    made.BitsStored = bits or made.BitsAllocated
    made.HighBit = made.BitsStored - 1
    made.PixelRepresentation = int(values.dtype.kind == "i")
    made.add_new("PixelData", "OW" if made.BitsAllocated > 8 else "OB", values.tobytes())
    for name, value in elements.items():
        if value is None:
            delattr(made, name)
        else:
            setattr(made, name, value)
    return made


def table(entries: list[int], first: int, bits: int) -> list[Dataset]:
    """A look-up table sequence."""
    item = Dataset()
    item.add_new("LUTDescriptor", "SS" if first < 0 else "US", [len(entries), first, bits])
    item.add_new("LUTData", "US", entries)
    item.ModalityLUTType = "US"
    return [item]


def encapsulated(made: Dataset, stream: bytes | bytearray, syntax: uid.UID) -> Dataset:
    """The data set with its pixels replaced by a compressed stream."""
    made.add_new("PixelData", "OB", encapsulate([bytes(stream)]))
    made["PixelData"].is_undefined_length = True
    made.file_meta.TransferSyntaxUID = syntax
    return made


def compressed(values: np.ndarray, syntax: uid.UID, bits: int | None = None, **elements: Any) -> Dataset:
    """As :func:`dataset`, in a compressed transfer syntax."""
    made = dataset(values, bits, **elements)
    unsigned = np.ascontiguousarray(values).view(f"u{values.dtype.itemsize}")
    if bits and values.dtype.kind == "i" and syntax != uid.JPEGLSLossless:  # written with 16 bits here
        unsigned = unsigned & ((1 << bits) - 1)
    if syntax in (uid.JPEGLossless, uid.JPEGLosslessSV1):
        return encapsulated(made, imagecodecs.ljpeg_encode(unsigned, bitspersample=made.BitsStored), syntax)
    if syntax == uid.JPEGLSLossless:
        return encapsulated(made, imagecodecs.jpegls_encode(unsigned, out=4 * unsigned.nbytes + 1000), syntax)
    if syntax == uid.JPEGExtended12Bit:
        return encapsulated(made, imagecodecs.jpeg8_encode(unsigned, level=95, bitspersample=12), syntax)
    if syntax == uid.JPEGBaseline8Bit:
        jpeg = BytesIO()
        Image.fromarray(unsigned).save(jpeg, "JPEG", quality=95)
        return encapsulated(made, jpeg.getvalue(), syntax)
    made.SOPClassUID, made.SOPInstanceUID = (
        uid.DigitalXRayImageStorageForPresentation,
        uid.generate_uid(entropy_srcs=["a"]),
    )
    made.compress(syntax, generate_instance_uid=False)
    return made


def written(path: Path, made: Dataset) -> Path:
    """Write a data set as the file it would be, with preamble, faults and all."""
    syntax = made.file_meta.get("TransferSyntaxUID", uid.ExplicitVRLittleEndian)
    plain = uid.ExplicitVRLittleEndian if syntax not in uid.AllTransferSyntaxes else syntax
    body = BytesIO()
    if not hasattr(made, "preamble"):
        made.preamble = bytes(128)
    pydicom.dcmwrite(body, made, implicit_vr=plain.is_implicit_VR, little_endian=plain.is_little_endian)
    path.write_bytes(body.getvalue())
    return path
