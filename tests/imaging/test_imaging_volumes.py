"""Readers and grids: orientation, types, caps, refusals."""

from __future__ import annotations

import gzip
from pathlib import Path

import nibabel
import numpy as np
import pytest
from make_scans import numbered, save_dicom_slice, save_nifti, save_series

from medheb.core.errors import MedhebError
from medheb.imaging.dicom import read_dicom_series
from medheb.imaging.display import axial, coronal
from medheb.imaging.nifti import read_label_names, read_nifti
from medheb.imaging.volume import Volume, canonical, on_grid_of


@pytest.mark.parametrize("codes", ["RAS", "LPS", "LAS", "SPR", "AIL", "PSR"])
def test_nifti_is_turned_to_ras_whatever_order_it_is_stored_in(tmp_path: Path, codes: str) -> None:
    original = numbered((3, 4, 5))
    affine = np.diag([1.0, 2.0, 3.0, 1.0])
    turn = nibabel.orientations.ornt_transform(
        nibabel.orientations.axcodes2ornt("RAS"), nibabel.orientations.axcodes2ornt(codes)
    )
    stored = nibabel.orientations.apply_orientation(original, turn)
    stored_affine = affine @ nibabel.orientations.inv_ornt_aff(turn, original.shape)
    volume = read_nifti(save_nifti(tmp_path / "a.nii.gz", stored, stored_affine))
    assert np.array_equal(volume.array, original)
    assert np.allclose(volume.affine, affine)
    assert volume.spacing == pytest.approx((1.0, 2.0, 3.0))
    assert volume.array.dtype == np.int16


@pytest.mark.parametrize(("stored", "kept"), [("uint8", "uint8"), ("int32", "int32"), ("float64", "float32")])
def test_nifti_never_becomes_float64(tmp_path: Path, stored: str, kept: str) -> None:
    assert read_nifti(save_nifti(tmp_path / "a.nii", numbered((2, 3, 4), stored))).array.dtype == kept


def test_scaled_integers_become_float32_with_slope_and_intercept(tmp_path: Path) -> None:
    image = nibabel.Nifti1Image(numbered((2, 2, 2)), np.eye(4))
    image.header.set_slope_inter(2.0, -5.0)
    nibabel.save(image, tmp_path / "a.nii.gz")
    volume = read_nifti(tmp_path / "a.nii.gz")
    assert volume.array.dtype == np.float32
    assert np.allclose(volume.array, nibabel.load(tmp_path / "a.nii.gz").get_fdata())


def refusal(path: Path, **caps: int) -> str:
    with pytest.raises(MedhebError) as caught:
        read_nifti(path, **caps)
    return str(caught.value)


def test_bad_volumes_are_refused_with_file_and_fault(tmp_path: Path) -> None:
    (tmp_path / "text.nii.gz").write_bytes(b"not a volume")
    (tmp_path / "text.nii").write_bytes(b"x" * 400)
    (tmp_path / "picture.png").write_bytes(b"")
    save_nifti(tmp_path / "four.nii.gz", np.zeros((2, 2, 2, 3), dtype=np.int16))
    colour = np.zeros((2, 2, 2), dtype=[("R", "u1"), ("G", "u1"), ("B", "u1")])
    nibabel.save(nibabel.Nifti1Image(colour, np.eye(4)), tmp_path / "colour.nii.gz")
    save_nifti(tmp_path / "complex.nii.gz", np.zeros((2, 2, 2), dtype=np.complex64))
    save_nifti(tmp_path / "large.nii.gz", np.zeros((20, 20, 20), dtype=np.int16))
    assert "text.nii.gz: is not a readable NIfTI volume" in refusal(tmp_path / "text.nii.gz")
    assert "text.nii: is not a readable NIfTI volume" in refusal(tmp_path / "text.nii")
    assert "picture.png: is not named like a NIfTI volume" in refusal(tmp_path / "picture.png")
    assert "none.nii: does not exist" in refusal(tmp_path / "none.nii")
    assert "four.nii.gz: is 4-dimensional (2, 2, 2, 3)" in refusal(tmp_path / "four.nii.gz")
    assert "such as colour" in refusal(tmp_path / "colour.nii.gz")
    assert "one real number per voxel" in refusal(tmp_path / "complex.nii.gz")
    assert "declares 16000 bytes of voxels, more than the cap of 15999" in refusal(
        tmp_path / "large.nii.gz", max_bytes=15999
    )


def test_cut_gzip_is_refused(tmp_path: Path) -> None:
    path = save_nifti(tmp_path / "a.nii.gz", np.random.default_rng(0).integers(0, 999, (20, 20, 20)).astype("int16"))
    path.write_bytes(path.read_bytes()[:-3000])
    message = refusal(path)
    assert "ends or breaks at slice" in message
    assert "fetch the source again" in message


def test_header_that_claims_gigabytes_is_refused_before_pixels_are_read(tmp_path: Path) -> None:
    header = nibabel.Nifti1Header()
    header.set_data_dtype(np.int16)
    header.set_data_shape((1000, 1000, 1000))
    header["vox_offset"] = 352
    header["magic"] = b"n+1"
    with gzip.open(tmp_path / "bomb.nii.gz", "wb") as stream:
        stream.write(header.binaryblock + b"\0" * 4)
    assert (tmp_path / "bomb.nii.gz").stat().st_size < 400
    assert "declares 2000000000 bytes of voxels, more than it can hold" in refusal(tmp_path / "bomb.nii.gz")


def test_label_names_come_from_the_header(tmp_path: Path) -> None:
    image = nibabel.Nifti1Image(np.zeros((2, 2, 2), dtype=np.uint8), np.eye(4))
    xml = '<L><Label Key="1" Red="0"><![CDATA[spleen]]></Label>\n<Label Key="12" Red="1">rib_left_7</Label></L>'
    image.header.extensions.append(nibabel.nifti1.Nifti1Extension(0, xml.encode()))
    nibabel.save(image, tmp_path / "seg.nii.gz")
    assert read_label_names(tmp_path / "seg.nii.gz") == {1: "spleen", 12: "rib_left_7"}
    with pytest.raises(MedhebError, match="has no label names in its header"):
        read_label_names(save_nifti(tmp_path / "plain.nii.gz", np.zeros((2, 2, 2), dtype=np.uint8)))


def test_dicom_series_is_sorted_by_position_and_turned_to_ras(tmp_path: Path) -> None:
    stack = save_series(tmp_path / "series")
    volume = read_dicom_series(tmp_path / "series")
    assert volume.shape == (5, 3, 4)
    assert volume.array.dtype == np.int16
    # Columns run to the patient's left and rows to the back in the files, so both axes are turned.
    assert np.array_equal(volume.array, stack.transpose(2, 1, 0)[::-1, ::-1].astype(int) - 1024)
    assert volume.spacing == pytest.approx((1.0, 2.0, 2.5))
    assert volume.affine[:3, 3] == pytest.approx([-14.0, -24.0, 30.0])


def test_rescale_slope_gives_float32(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    for index in range(3):
        save_dicom_slice(tmp_path / "s" / f"{index}", np.full((2, 2), 10), (0, 0, index), RescaleSlope=0.5)
    volume = read_dicom_series(tmp_path / "s")
    assert volume.array.dtype == np.float32
    assert volume.array[0, 0, 0] == 5 - 1024


def series_refusal(folder: Path, **caps: int) -> str:
    with pytest.raises(MedhebError) as caught:
        read_dicom_series(folder, **caps)
    return str(caught.value)


def test_bad_series_are_refused_with_file_and_fault(tmp_path: Path) -> None:
    assert "none: is not a folder" in series_refusal(tmp_path / "none")
    (tmp_path / "empty").mkdir()
    assert "empty: holds 0 files" in series_refusal(tmp_path / "empty")
    for name in ("gap", "mixed", "foreign", "junk", "other", "twice", "frames", "inverse", "short"):
        save_series(tmp_path / name, slices=5)
    (tmp_path / "gap" / "image_3").unlink()
    assert "a missing or displaced image after image_4 (step 5.00 mm, usually 2.50 mm)" in series_refusal(
        tmp_path / "gap"
    )
    save_dicom_slice(tmp_path / "mixed" / "image_9", np.zeros((4, 4)), (10, 20, 42.5))
    assert "image_9: is 4 x 4, but image_1 is 5 x 3" in series_refusal(tmp_path / "mixed")
    save_dicom_slice(tmp_path / "foreign" / "image_9", np.zeros((3, 5)), (10, 20, 42.5), SeriesInstanceUID="1.2.3")
    assert "image_9: belongs to another series" in series_refusal(tmp_path / "foreign")
    (tmp_path / "junk" / "readme.txt").write_text("hello")
    assert "readme.txt: is not a DICOM file" in series_refusal(tmp_path / "junk")
    save_dicom_slice(tmp_path / "other" / "image_9", np.zeros((3, 5)), (10, 20, 42.5), PixelSpacing=[1.0, 1.0])
    assert "image_9: has another direction or pixel size" in series_refusal(tmp_path / "other")
    save_dicom_slice(tmp_path / "twice" / "image_9", np.zeros((3, 5)), (10, 20, 30))
    assert "two images at one place" in series_refusal(tmp_path / "twice")
    save_dicom_slice(tmp_path / "frames" / "image_9", np.zeros((3, 5)), (10, 20, 42.5), NumberOfFrames=2)
    assert "image_9: is a colour or multi-frame image" in series_refusal(tmp_path / "frames")
    save_dicom_slice(
        tmp_path / "inverse" / "image_9", np.zeros((3, 5)), (10, 20, 42.5), PhotometricInterpretation="MONOCHROME1"
    )
    assert "has photometric interpretation MONOCHROME1" in series_refusal(tmp_path / "inverse")
    save_dicom_slice(tmp_path / "short" / "image_5", np.zeros((3, 5)), (10, 20, 30), PixelData=b"\0\0")
    assert "image_5: is cut off within its pixels: 2 of 30 bytes" in series_refusal(tmp_path / "short")


def test_series_cap_counts_before_pixels(tmp_path: Path) -> None:
    save_series(tmp_path / "series")
    assert "more than the cap of 100" in series_refusal(tmp_path / "series", max_bytes=100)


def test_singular_affine_is_refused() -> None:
    with pytest.raises(MedhebError, match="cannot be inverted"):
        canonical(np.zeros((2, 2, 2)), np.diag([1.0, 0.0, 1.0, 1.0]), "scan")


def test_mask_is_laid_on_the_grid_of_its_scan() -> None:
    whole = Volume(np.zeros((6, 6, 6)), np.diag([2.0, 2.0, 2.0, 1.0]), "scan")
    affine = np.diag([2.0, 2.0, 2.0, 1.0])
    affine[:3, 3] = [2.0, 4.0, 6.0]
    laid = on_grid_of(Volume(np.ones((2, 2, 2), dtype=np.uint8), affine, "mask"), whole)
    assert laid.sum() == 8
    assert laid[1:3, 2:4, 3:5].all()
    shifted = affine.copy()
    shifted[0, 3] = 3.0
    with pytest.raises(MedhebError, match="mask: lies between the voxels of scan"):
        on_grid_of(Volume(np.ones((2, 2, 2)), shifted, "mask"), whole)
    with pytest.raises(MedhebError, match="mask: reaches out of scan"):
        on_grid_of(Volume(np.ones((6, 2, 2)), affine, "mask"), whole)
    with pytest.raises(MedhebError, match="mask: has another voxel size or direction than scan"):
        on_grid_of(Volume(np.ones((2, 2, 2)), np.eye(4), "mask"), whole)


def test_pictures_show_the_patients_right_on_the_left() -> None:
    array = np.zeros((4, 5, 6), dtype=np.uint8)
    array[3, 4, 5] = 1  # right, front, head
    assert axial(array, 5).shape == (5, 4)
    assert np.argwhere(axial(array, 5)).tolist() == [[0, 0]]
    assert coronal(array, 4).shape == (6, 4)
    assert np.argwhere(coronal(array, 4)).tolist() == [[0, 0]]
