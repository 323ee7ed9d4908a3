"""Figures of DICOM to PNG: ``python benchmarks/radiograph.py``. One line each, as in ``run.py``.

A chest radiograph of 2500 x 3000 in JPEG 2000 (lossless, as VinDr-CXR has it, and lossy 15 : 1), from the file to the
PNG on disk, against OpenJPEG alone on the same stream in the same run.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import openjpeg
import pydicom
from pydicom import uid
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.encaps import generate_frames
from run import show

from medheb.imaging.png import write_picture
from medheb.imaging.radiograph_dicom import read_radiograph

ROWS, COLUMNS, BITS = 3000, 2500, 12
LOSSY = 15
REPEATS = 5


def chest() -> np.ndarray:
    """Smooth shadows with the noise of a detector, 12 bit."""
    y, x = np.mgrid[0:ROWS, 0:COLUMNS].astype(np.float32)
    shadows = 1800 + 900 * np.cos(x / 420) * np.cos(y / 510) + 300 * np.sin(x / 37) * np.sin(y / 61)
    noise = np.random.default_rng(0).normal(0, 12, shadows.shape)
    picture: np.ndarray = np.clip(shadows + noise, 0, (1 << BITS) - 1).astype(np.uint16)
    return picture


def write_dicom(path: Path, ratio: int | None) -> bytes:
    """A DICOM file of the picture, lossless or compressed by ``ratio``; returns its compressed stream."""
    made = Dataset()
    made.file_meta = FileMetaDataset()
    made.file_meta.TransferSyntaxUID = uid.ExplicitVRLittleEndian
    made.SOPClassUID, made.SOPInstanceUID = uid.DigitalXRayImageStorageForPresentation, "1.2.3"
    made.Modality, made.PhotometricInterpretation, made.SamplesPerPixel = "DX", "MONOCHROME1", 1
    made.Rows, made.Columns, made.PixelRepresentation = ROWS, COLUMNS, 0
    made.BitsAllocated, made.BitsStored, made.HighBit = 16, BITS, BITS - 1
    made.WindowCenter, made.WindowWidth = "1900", "2600"
    made.RescaleSlope, made.RescaleIntercept, made.PixelPaddingValue = "1", "0", 0
    made.add_new("PixelData", "OW", chest().tobytes())
    syntax, options = (uid.JPEG2000Lossless, {}) if ratio is None else (uid.JPEG2000, {"j2k_cr": [ratio]})
    made.compress(syntax, generate_instance_uid=False, **options)
    made.save_as(path, enforce_file_format=True)
    stream: bytes = next(generate_frames(made.PixelData, number_of_frames=1))
    return stream


def to_png(path: Path, png: Path) -> None:
    """All that the build does with a file."""
    write_picture(png, read_radiograph(path).picture)


def fastest(works: list[Callable[[], object]]) -> list[float]:
    """Seconds of the fastest of a few tries of each; in turn, so that a busy moment meets all of them."""
    seconds: list[list[float]] = [[] for _ in works]
    for _ in range(REPEATS):
        for work, taken in zip(works, seconds, strict=True):
            started = time.process_time()
            work()
            taken.append(time.process_time() - started)
    return [min(taken) for taken in seconds]


def bench_radiograph() -> None:
    """Processor seconds of file to PNG and their ratio to the decoder's own; less is better, 1 is the bound."""
    for kind, ratio in (("lossless", None), ("lossy", LOSSY)):
        with tempfile.TemporaryDirectory() as folder:
            path, png = Path(folder) / "chest.dicom", Path(folder) / "chest.png"
            stream = write_dicom(path, ratio)
            if not np.array_equal(openjpeg.decode(stream), pydicom.dcmread(path).pixel_array):
                sys.exit("the decoders disagree")
            decoder, render, ours = fastest(
                [
                    partial(openjpeg.decode, stream),
                    partial(read_radiograph, path),
                    partial(to_png, path, png),
                ]
            )
            show(
                f"radiograph_{kind}",
                seconds=ours,
                decoder_seconds=decoder,
                times_decoder=ours / decoder,
                times_decoder_without_png=render / decoder,
                png_mb=png.stat().st_size / 1e6,
            )


if __name__ == "__main__":
    bench_radiograph()
