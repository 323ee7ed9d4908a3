"""Real files of many kinds: each is decoded, or refused with a sentence that says what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from medheb.core.errors import MedhebError
from medheb.imaging.picture_modes import to_array
from medheb.imaging.pictures import read_picture
from medheb.imaging.radiograph_dicom import read_radiograph

SAMPLES = Path(__file__).resolve().parents[3] / "shared" / "samples" / "2d"
# Shape of the picture, or the words of the refusal. DICOM files of other modalities are first refused as
# radiographs, then decoded with every modality allowed.
PICTURES: dict[str, tuple[int, ...] | str] = {
    "16bit.cropped.tif": (64, 64),
    "ISIC_0000000.jpg": (767, 1022, 3),
    "ISIC_0000003.jpg": (767, 1022, 3),
    "RCM_tile_with_exif.png": (1024, 1024),
    "cell.png": (660, 550),
    "hopper_orientation_6.jpg": (128, 128, 3),
    "ihc.png": (512, 512, 3),
    "image_with_exif_including_orientation.jpg": (450, 600, 3),
    "microaneurysms.png": (102, 102),
    "pil_sample_cmyk.jpg": (100, 100, 3),
    "retina.jpg": (1411, 1411, 3),
    "truncated.jpg": "is a picture whose end is missing",
}
RADIOGRAPHS: dict[str, tuple[int, ...] | str] = {
    "RG1_J2KI.dcm": (1955, 1841),
    "RG3_J2KI.dcm": (1760, 1760),
    "meta_missing_tsyntax.dcm": "does not say how many rows and columns it has",
}
OTHER_MODALITIES: dict[str, tuple[int, ...] | str] = {
    "CTImage.dcm_JPEGLSLosslessTransferSyntax_1.2.840.10008.1.2.4.80.dcm": (512, 512),
    "CTImage.dcm_RLELosslessTransferSyntax_1.2.840.10008.1.2.5.dcm": (512, 512),
    "CT_small.dcm": (128, 128),
    "J2K_pixelrep_mismatch.dcm": (512, 512),
    "JPEGLossless_1s_1f_i_16_16_bad.dcm": (512, 512),
    "MR_truncated.dcm": "is cut off within its pixels",
    "examples_rgb_color.dcm": (240, 320, 3),
    "no-pixel-data.dcm": "is a DICOM file without pixels",
}
TEXTS = {"2_fold_split.csv", "ori_pqal.json", "test_ground_truth.json", "README.md"}

pytestmark = pytest.mark.skipif(not SAMPLES.is_dir(), reason="the real samples do not lie beside the repository")


def test_every_sample_is_looked_at() -> None:
    known = {*PICTURES, *RADIOGRAPHS, *OTHER_MODALITIES, *TEXTS}
    assert {path.name for path in SAMPLES.iterdir()} == known


@pytest.mark.parametrize(("name", "outcome"), PICTURES.items())
def test_pictures(name: str, outcome: tuple[int, ...] | str) -> None:
    if isinstance(outcome, str):
        with pytest.raises(MedhebError, match=outcome) as caught:
            read_picture(SAMPLES / name)
        assert str(SAMPLES / name) in str(caught.value)
        assert caught.value.remedy
    else:
        assert to_array(read_picture(SAMPLES / name).image).shape == outcome


@pytest.mark.parametrize(("name", "outcome"), {**RADIOGRAPHS, **OTHER_MODALITIES}.items())
def test_dicom_files(name: str, outcome: tuple[int, ...] | str) -> None:
    if name in OTHER_MODALITIES:
        with pytest.raises(MedhebError, match=r"is of modality (CT|MR|US|SR)\. Accepted: CR, ") as caught:
            read_radiograph(SAMPLES / name)
        assert caught.value.remedy
    if isinstance(outcome, str):
        with pytest.raises(MedhebError, match=outcome) as caught:
            read_radiograph(SAMPLES / name, modalities=None)
        assert caught.value.remedy
    else:
        picture = read_radiograph(SAMPLES / name, modalities=None).picture
        assert (picture.shape, picture.dtype.name) == (outcome, "uint8")
        assert len(set(picture[::7, ::7].ravel().tolist())) > 50


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_texts_are_neither(name: str) -> None:
    with pytest.raises(MedhebError, match="is not a picture, or its first bytes are damaged"):
        read_picture(SAMPLES / name)
    with pytest.raises(MedhebError, match="is not a DICOM file, or its header is damaged"):
        read_radiograph(SAMPLES / name)


def test_the_two_readers_point_to_each_other() -> None:
    with pytest.raises(MedhebError, match="is a DICOM file, not a plain picture"):
        read_picture(SAMPLES / "RG1_J2KI.dcm")
    with pytest.raises(MedhebError, match="is not a DICOM file"):
        read_radiograph(SAMPLES / "ihc.png")
