"""DICOM files that somebody cut, in every byte order and encoding: refused as what they are, never drawn in part."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from pydicom import uid
from pydicom.dataset import Dataset, FileMetaDataset

from medheb.core.errors import MedhebError
from medheb.imaging.radiograph_dicom import read_radiograph

ROWS, COLUMNS = 40, 50
PIXEL_BYTES = 2 * ROWS * COLUMNS
PLAIN = (uid.ExplicitVRLittleEndian, uid.ImplicitVRLittleEndian, uid.ExplicitVRBigEndian)
PACKED = (uid.JPEG2000Lossless, uid.RLELossless)


def whole(syntax: uid.UID) -> bytes:
    """A grey picture of 12 bits, its pixels at the end of the file."""
    made = Dataset()
    made.file_meta = FileMetaDataset()
    made.file_meta.TransferSyntaxUID = uid.ExplicitVRLittleEndian if syntax in PACKED else syntax
    made.SOPClassUID, made.SOPInstanceUID = uid.DigitalXRayImageStorageForPresentation, "1.2.3"
    made.Modality, made.PhotometricInterpretation, made.SamplesPerPixel = "DX", "MONOCHROME2", 1
    made.Rows, made.Columns, made.PixelRepresentation = ROWS, COLUMNS, 0
    made.BitsAllocated, made.BitsStored, made.HighBit = 16, 12, 11
    order = ">u2" if syntax == uid.ExplicitVRBigEndian else "<u2"
    made.add_new("PixelData", "OW", np.arange(ROWS * COLUMNS).astype(order).tobytes())
    if syntax in PACKED:
        made.compress(syntax, generate_instance_uid=False)
    stream = BytesIO()
    made.save_as(stream, enforce_file_format=True)
    return stream.getvalue()


def fault_of(folder: Path, content: bytes) -> str:
    """What is said of a file of this content."""
    path = folder / "cut.dicom"
    path.write_bytes(content)
    with pytest.raises(MedhebError) as caught:
        read_radiograph(path)
    assert caught.value.where == str(path) or caught.value.where == path
    assert caught.value.remedy
    return caught.value.fault


@pytest.mark.parametrize("syntax", PLAIN)
@pytest.mark.parametrize("missing", [1, 100, PIXEL_BYTES // 2, PIXEL_BYTES - 2])
def test_plain_pixels(tmp_path: Path, syntax: uid.UID, missing: int) -> None:
    fault = fault_of(tmp_path, whole(syntax)[:-missing])
    assert fault == f"is cut off within its pixels: {PIXEL_BYTES - missing:,} of {PIXEL_BYTES:,} bytes"


@pytest.mark.parametrize("syntax", PACKED)
def test_compressed_pixels(tmp_path: Path, syntax: uid.UID) -> None:
    assert fault_of(tmp_path, whole(syntax)[:-100]) == "is cut off within its pixels"


@pytest.mark.parametrize("missing", [1, 100, 1000])
def test_deflated_files(tmp_path: Path, missing: int) -> None:
    content = whole(uid.DeflatedExplicitVRLittleEndian)
    assert fault_of(tmp_path, content[:-missing]) == "is not a DICOM file, or its header is damaged"


@pytest.mark.parametrize("syntax", PLAIN)
def test_before_the_pixels(tmp_path: Path, syntax: uid.UID) -> None:
    fault = fault_of(tmp_path, whole(syntax)[: -PIXEL_BYTES - 20])
    assert fault in {"is a DICOM file without pixels", "is not a DICOM file, or its header is damaged"}
