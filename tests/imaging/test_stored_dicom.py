"""DICOM series as stored, in every encoding that sources use."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import imagecodecs
import numpy as np
import pydicom
import pytest
from make_scans import save_dicom_slice, save_series
from pydicom import uid
from pydicom.encaps import encapsulate

from medheb.core.errors import MedhebError
from medheb.imaging.dicom import open_dicom_series


def with_stream(syntax: uid.UID, encode: Callable[[np.ndarray], bytes]) -> Callable[[pydicom.Dataset], None]:
    """Replace the pixels of a data set by one encoded frame."""

    def change(slice_: pydicom.Dataset) -> None:
        slice_.PixelData = encapsulate([encode(slice_.pixel_array)])
        slice_["PixelData"].is_undefined_length = True
        slice_.file_meta.TransferSyntaxUID = syntax

    return change


ENCODINGS: dict[str, Callable[[pydicom.Dataset], None]] = {
    "RLE": lambda slice_: slice_.compress(uid.RLELossless),
    "JPEG 2000": lambda slice_: slice_.compress(uid.JPEG2000Lossless),
    "JPEG-LS": with_stream(uid.JPEGLSLossless, imagecodecs.jpegls_encode),
    "lossless JPEG": with_stream(
        uid.JPEGLosslessSV1, lambda pixels: imagecodecs.ljpeg_encode(pixels, bitspersample=16)
    ),
}


@pytest.mark.parametrize("encoding", list(ENCODINGS))
def test_every_encoding_gives_the_same_slices(tmp_path: Path, encoding: str) -> None:
    folder = tmp_path / "series"
    save_series(folder, slices=3, rows=40, columns=48)
    plain = open_dicom_series(folder).array()
    for path in folder.iterdir():
        slice_ = pydicom.dcmread(path)
        ENCODINGS[encoding](slice_)
        slice_.save_as(path, enforce_file_format=True)
    assert np.array_equal(open_dicom_series(folder).array(), plain)


def test_order_axes_and_spacing(tmp_path: Path) -> None:
    stack = save_series(tmp_path / "series")
    volume = open_dicom_series(tmp_path / "series")
    assert (volume.shape, volume.dtype, volume.axis_codes) == ((5, 3, 4), np.int16, "LPS")
    assert volume.spacing == (1.0, 2.0, 2.5)
    assert np.array_equal(volume.array(), stack.transpose(2, 1, 0).astype(int) - 1024)
    [(index, plane)] = volume.slices([2, 2])
    assert index == 2
    assert np.array_equal(plane, stack[2].T.astype(int) - 1024)


def test_only_the_wanted_slices_are_decoded(tmp_path: Path) -> None:
    save_series(tmp_path / "series", slices=4)
    save_dicom_slice(tmp_path / "series" / "image_4", np.zeros((3, 5)), (10, 20, 30), PixelData=b"\0\0")
    volume = open_dicom_series(tmp_path / "series")
    assert [index for index, _ in volume.slices([1, 3])] == [1, 3]
    with pytest.raises(MedhebError, match="image_4: is cut off within its pixels"):
        volume.array()


def test_mixed_sizes_and_unknown_encodings_are_refused_before_pixels_are_read(tmp_path: Path) -> None:
    save_series(tmp_path / "mixed")
    save_dicom_slice(tmp_path / "mixed" / "image_9", np.zeros((4, 4)), (10, 20, 40))
    with pytest.raises(
        MedhebError, match=r"image_9: is 4 x 4, but image_1 is 5 x 3\. Keep only the files of one series"
    ):
        open_dicom_series(tmp_path / "mixed")
    save_series(tmp_path / "film")
    path = tmp_path / "film" / "image_1"
    slice_ = pydicom.dcmread(path)
    slice_.file_meta.TransferSyntaxUID = uid.MPEG2MPML
    slice_.PixelData = encapsulate([b"\0\0"])
    slice_["PixelData"].is_undefined_length = True
    slice_.save_as(path, enforce_file_format=True)
    with pytest.raises(MedhebError, match="image_1: has transfer syntax MPEG2"):
        open_dicom_series(tmp_path / "film")


def test_a_folder_that_may_not_be_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Path) -> None:
        raise PermissionError(13, "Permission denied")

    save_series(tmp_path / "series")
    monkeypatch.setattr(Path, "iterdir", refuse)
    with pytest.raises(MedhebError, match=r"series: cannot be listed \(Permission denied\)\. Give read permission"):
        open_dicom_series(tmp_path / "series")


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    save_series(tmp_path / "series")
    monkeypatch.setattr(pydicom, "dcmread", refuse)
    with pytest.raises(MedhebError, match=r"image_1: may not be read by this user\. Give read permission"):
        open_dicom_series(tmp_path / "series")


@pytest.mark.parametrize(
    ("name", "value", "fault"),
    [
        ("PixelSpacing", [0, 1], "image_1: says that its pixels are 0 x 1 mm large"),
        ("PixelSpacing", ["inf", 1], "image_1: does not give 2 finite numbers as PixelSpacing"),
        ("PixelSpacing", [1], "image_1: does not give 2 finite numbers as PixelSpacing"),
        ("ImagePositionPatient", [0, 0, "nan"], "image_1: does not give 3 finite numbers as ImagePositionPatient"),
        ("ImageOrientationPatient", ["nan"] * 6, "image_1: does not give 6 finite numbers as ImageOrientationPatient"),
        ("ImageOrientationPatient", [1, 0, 0, 1, 0, 0], "s: has all its images at one place, or a damaged Image"),
        ("ImagePositionPatient", [0, 0, 0], "s: has all its images at one place"),
        ("RescaleSlope", 0, "image_1: gives 0 as RescaleSlope, which leaves one value"),
        ("RescaleSlope", "nan", "image_1: does not give 1 finite number as RescaleSlope"),
        ("RescaleIntercept", "inf", "image_1: does not give 1 finite number as RescaleIntercept"),
    ],
)
@pytest.mark.filterwarnings("ignore:Invalid value for VR DS")
def test_numbers_that_are_none_are_named(tmp_path: Path, name: str, value: object, fault: str) -> None:
    (tmp_path / "s").mkdir()
    for index in (1, 2, 3):
        save_dicom_slice(tmp_path / "s" / f"image_{index}", np.zeros((3, 5)), (0, 0, index), **{name: value})
    with pytest.raises(MedhebError, match=rf"{fault}.*Delete the folder and fetch the source again"):
        open_dicom_series(tmp_path / "s")


def test_numbers_that_cannot_be_decoded_are_named(tmp_path: Path) -> None:
    save_series(tmp_path / "s")
    path = tmp_path / "s" / "image_1"
    path.write_bytes(path.read_bytes().replace(b"DS\x08\x002.0\\1.0 ", b"DS\x08\x00two\\one "))
    with pytest.raises(MedhebError, match="image_1: does not give 2 finite numbers as PixelSpacing"):
        open_dicom_series(tmp_path / "s")
