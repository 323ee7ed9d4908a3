"""The closed form of the published CT -> X-ray script."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
from scipy import ndimage

from medheb.core.errors import MedhebError
from medheb.imaging.drr.body_mask import body_mask
from medheb.imaging.drr.release import ReleaseProjection, project, resize

GOLDEN = Path(__file__).resolve().parents[3] / "shared" / "golden"
SQUARE = np.ones((5, 5), dtype=bool)


@pytest.mark.parametrize("seed", range(24))
def test_body_mask_is_closing_then_opening(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = tuple(rng.integers(1, 200, 2))
    plane = np.where(rng.random(shape) < rng.random(), 0, -1000).astype(np.int16)
    wanted = plane > -700
    wanted = ndimage.binary_dilation(wanted, SQUARE, border_value=0)
    wanted = ndimage.binary_erosion(wanted, SQUARE, border_value=1)
    wanted = ndimage.binary_erosion(wanted, SQUARE, border_value=1)
    wanted = ndimage.binary_dilation(wanted, SQUARE, border_value=0)
    assert np.array_equal(body_mask(plane), wanted)
    assert np.array_equal(body_mask(plane.T), wanted.T)


def test_threshold_is_strict() -> None:
    assert body_mask(np.full((9, 9), -700)).sum() == 0
    assert body_mask(np.full((9, 9), -699)).sum() == 81


def test_resize_is_bilinear_with_half_pixel_centres() -> None:
    assert resize(np.array([[0, 4]], dtype=np.float32), 1, 4).tolist() == [[0, 1, 3, 4]]
    picture = np.random.default_rng(0).random((7, 11)).astype(np.float32)
    assert np.array_equal(resize(picture, 7, 11), picture)
    rows, columns = (np.arange(18) + 0.5) * 7 / 18 - 0.5, (np.arange(5) + 0.5) * 11 / 5 - 0.5
    grid = np.meshgrid(rows, columns, indexing="ij")
    wanted = ndimage.map_coordinates(picture.astype(np.float64), grid, order=1, mode="nearest")
    assert np.abs(resize(picture, 18, 5) - wanted).max() < 1e-6


@pytest.mark.parametrize("zooms", [(1.0, 0.7, 1.0), (0.75, 0.7, 1.5), (0.9, 0.7, 0.6)])
def test_order_of_slices_memory_layout_and_type_do_not_matter(zooms: tuple[float, float, float]) -> None:
    rng = np.random.default_rng(3)
    array = rng.integers(-1100, 1400, (24, 20, 12)).astype(np.int16)
    picture = project(array, zooms)
    for other in (np.asfortranarray(array), *(array.astype(kind) for kind in (np.int32, np.int64, np.float32, float))):
        projection = ReleaseProjection((24, 20, 12), zooms)
        for index in rng.permutation(12):
            projection.add(int(index), other[:, :, index])
        assert np.array_equal(projection.picture(), picture)


def test_closed_form_on_a_block() -> None:
    array = np.full((40, 30, 40), -1000, dtype=np.int16)
    array[10:30, 5:25, 10:30] = 0  # 20 voxels of water in front of air
    array[10:30, 5:25, 25:30] = 1000
    picture = project(array, (1.0, 2.0, 1.0))
    # Cropped to the block with 8 before and 7 after it; bone above, white; water between.
    assert picture.shape == (8 + 20 + 7, 8 + 20 + 7)
    assert picture[8:13, 8:28].min() == 255
    water = (1 - np.exp(-0.0025 * 40)) / (1 - np.exp(-0.005 * 40))
    assert set(picture[13:28, 8:28].ravel()) == {int(water * 255)}
    assert picture[0].max() == 0


def test_constant_and_one_slice_volumes() -> None:
    assert set(project(np.full((6, 5, 4), -1000, dtype=np.int16), (1, 1, 1)).ravel()) == {255}
    assert project(np.zeros((6, 5, 1), dtype=np.int16), (1, 1, 5)).dtype == np.uint8


def test_slices_must_fit_and_come_once() -> None:
    projection = ReleaseProjection((6, 5, 2), (1, 1, 1), "case_1.nii.gz")
    with pytest.raises(ValueError, match="shape"):
        projection.add(0, np.zeros((5, 6), dtype=np.int16))
    projection.add(0, np.zeros((6, 5), dtype=np.int16))
    with pytest.raises(ValueError, match="given twice"):
        projection.add(0, np.zeros((6, 5), dtype=np.int16))
    with pytest.raises(ValueError, match="1 of 2 slices are missing"):
        projection.picture()


def test_voxels_that_are_not_numbers() -> None:
    array = np.zeros((6, 5, 2), dtype=np.float32)
    array[3, 3, 1] = np.nan
    with pytest.raises(MedhebError, match=r"case_1\.nii\.gz: holds voxels that are not numbers"):
        project(array, (1, 1, 1), "case_1.nii.gz")


@pytest.mark.skipif(not GOLDEN.is_dir(), reason="the folder of golden outputs is not beside the repository")
def test_golden_pictures(tmp_path: Path) -> None:
    import subprocess
    import sys

    import nibabel

    facts = json.loads((GOLDEN / "expected_half.json").read_text())["scripts"]["ct2xray"]["outputs"]["images"]
    command = [sys.executable, str(GOLDEN / "make_inputs.py"), "--out", str(tmp_path), "--only", "ct_rate"]
    subprocess.run(command, check=True, capture_output=True)
    assert len(facts) >= 4
    for name, (mode, width, height, digest) in facts.items():
        case = name.split("/")[2]
        (path,) = tmp_path.rglob(f"{case}_1.nii.gz")
        image = nibabel.load(path)
        x, y, z = (float(mm) for mm in image.header.get_zooms()[:3])
        picture = project(np.asarray(image.dataobj), (x, y, z), str(path))
        head = f"{mode}|{width}|{height}|".encode()
        assert picture.shape == (height, width), case
        assert hashlib.sha256(head + picture.tobytes()).hexdigest() == digest, case
