"""Scans that tests make themselves."""

from __future__ import annotations

from pathlib import Path

import nibabel
import numpy as np
import pydicom
from pydicom.dataset import FileDataset, FileMetaDataset
from pydicom.uid import CTImageStorage, ExplicitVRLittleEndian, generate_uid

SERIES = generate_uid(entropy_srcs=["medheb test series"])


def numbered(shape: tuple[int, int, int], dtype: str = "int16") -> np.ndarray:
    """Every voxel holds its own number."""
    return np.arange(np.prod(shape)).reshape(shape).astype(dtype)


def save_nifti(path: Path, array: np.ndarray, affine: np.ndarray | None = None) -> Path:
    nibabel.save(nibabel.Nifti1Image(array, np.eye(4) if affine is None else affine), path)
    return path


def save_dicom_slice(path: Path, pixels: np.ndarray, position: tuple[float, float, float], **changes: object) -> None:
    meta = FileMetaDataset()
    meta.MediaStorageSOPClassUID = CTImageStorage
    meta.MediaStorageSOPInstanceUID = generate_uid(entropy_srcs=[path.name])
    meta.TransferSyntaxUID = ExplicitVRLittleEndian
    slice_ = FileDataset(str(path), {}, file_meta=meta, preamble=b"\0" * 128)
    slice_.SOPClassUID = meta.MediaStorageSOPClassUID
    slice_.SOPInstanceUID = meta.MediaStorageSOPInstanceUID
    slice_.SeriesInstanceUID = SERIES
    slice_.Rows, slice_.Columns = pixels.shape
    slice_.PixelSpacing = [2.0, 1.0]
    slice_.ImageOrientationPatient = [1, 0, 0, 0, 1, 0]
    slice_.ImagePositionPatient = list(position)
    slice_.SamplesPerPixel = 1
    slice_.PhotometricInterpretation = "MONOCHROME2"
    slice_.BitsAllocated, slice_.BitsStored, slice_.HighBit = 16, 12, 11
    slice_.PixelRepresentation = 0
    slice_.RescaleSlope, slice_.RescaleIntercept = 1, -1024
    slice_.PixelData = pixels.astype("<u2").tobytes()
    for name, value in changes.items():
        setattr(slice_, name, value)
    pydicom.dcmwrite(path, slice_, enforce_file_format=True)


def save_series(folder: Path, slices: int = 4, rows: int = 3, columns: int = 5) -> np.ndarray:
    """A series whose file names run against its positions. Returns stored values, shape (slice, row, column)."""
    folder.mkdir()
    stack = numbered((slices, rows, columns), "uint16")
    for index in range(slices):
        save_dicom_slice(folder / f"image_{slices - index}", stack[index], (10.0, 20.0, 30.0 + 2.5 * index))
    return stack
