"""Windows, sampling, crops, PNG, projection."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medheb.core.digests import pixel_digest, sha256_file
from medheb.core.errors import MedhebError
from medheb.imaging.crops import crop_square, mask_box, square_pixels
from medheb.imaging.drr.release import project
from medheb.imaging.png import encode_png, write_png
from medheb.imaging.sampling import spread, uniform_indices
from medheb.imaging.volume import Volume
from medheb.imaging.windows import percentile_range, to_uint8, window_range


@pytest.mark.parametrize(
    ("level", "width", "digest"),
    [
        (-600, 1500, "3bc52a56a970c7726bc491c65e80dc90c78418f47f76b8d27f1af734b8b7b594"),
        (40, 80, "7f6ed2b7d550019401f8c49386b7a01541a77b0d7323395549b61107532dbb79"),
        (35, 350, "ceada0cbf8db7c27d0171955a3d12b4e87239d2d29bc44f8a8707510d8e0746b"),
        (50, 350, "f9479ab40d3913b43586f903d161b495f355bf717ae6e27c9cccc5e32b7160d7"),
    ],
)
def test_windows_equal_the_published_tables(level: float, width: float, digest: str) -> None:
    greys = to_uint8(np.arange(-2000, 2001), *window_range(level, width))
    assert hashlib.sha256(greys.tobytes()).hexdigest() == digest


def test_grey_values_are_cut_off_not_rounded_and_nan_is_black() -> None:
    values = np.array([0, 40, 1, np.nan, np.inf, -np.inf], dtype=np.float32)
    assert to_uint8(values, 0, 80).tolist() == [0, 127, 3, 0, 255, 0]
    with pytest.raises(ValueError, match="empty grey value range"):
        to_uint8(values, 5, 5)


def test_percentile_range_is_of_positive_voxels() -> None:
    volume = Volume(np.concatenate([np.zeros(1000), np.arange(1, 102)]).reshape(3, -1, 1), np.eye(4), "mr")
    assert percentile_range(volume, 0, 50) == (1.0, 51.0)
    with pytest.raises(MedhebError, match="mr: holds no voxel above 0"):
        percentile_range(Volume(np.zeros((2, 2, 2)), np.eye(4), "mr"), 1, 99)
    with pytest.raises(MedhebError, match="mr: holds the one value 3 everywhere"):
        percentile_range(Volume(np.full((2, 2, 2), 3), np.eye(4), "mr"), 1, 99)


def test_uniform_indices_are_floats_cut_off() -> None:
    indices = uniform_indices(0, 153, 64)
    assert (indices[0], indices[21], indices[-1]) == (0, 50, 153)  # whole-number division would give 51
    assert uniform_indices(4, 6, 5) == [4, 4, 5, 5, 6]
    with pytest.raises(ValueError, match="no 3 indices"):
        uniform_indices(5, 4, 3)


@given(st.integers(0, 500), st.integers(0, 2000), st.integers(1, 100))
def test_uniform_indices_stay_inside_and_in_order(first: int, length: int, count: int) -> None:
    indices = uniform_indices(first, first + length, count)
    assert len(indices) == count
    assert indices == sorted(indices)
    assert first <= indices[0]
    assert indices[-1] <= first + length


@given(st.integers(1, 300), st.integers(1, 50))
def test_spread_has_no_repeats(length: int, count: int) -> None:
    chosen = spread(range(length), count)
    assert len(set(chosen)) == len(chosen) == min(length, count)
    assert chosen == sorted(chosen)


def test_box_of_a_mask_and_refusal_of_an_empty_label() -> None:
    mask = np.zeros((5, 6), dtype=bool)
    mask[1:3, 4] = True
    box = mask_box(mask, "label spleen")
    assert (box.start, box.stop, box.centre) == ((1, 4), (3, 5), (2.0, 4.5))
    with pytest.raises(MedhebError, match="label spleen: is an empty label"):
        mask_box(np.zeros((3, 3), dtype=bool), "label spleen")


def test_crop_without_resampling_is_exact_and_black_outside() -> None:
    picture = np.arange(1, 101, dtype=np.uint8).reshape(10, 10)
    inside = crop_square(picture, (5.0, 4.0), 4.0, (1.0, 1.0), 4)
    assert np.array_equal(inside, picture[3:7, 2:6])
    corner = crop_square(picture, (0.0, 0.0), 4.0, (1.0, 1.0), 4)
    assert np.array_equal(corner[2:, 2:], picture[:2, :2])
    assert not corner[:2].any()
    assert not corner[:, :2].any()


@given(st.floats(0, 12), st.floats(0, 17), st.floats(1, 60))
def test_crop_has_its_size_wherever_it_lies(row: float, column: float, field: float) -> None:
    crop = crop_square(np.full((12, 17), 9, dtype=np.uint8), (row, column), field, (1.5, 0.7), 16)
    assert crop.shape == (16, 16)
    assert crop.max() <= 9


def test_field_of_view_is_in_millimetres() -> None:
    picture = np.zeros((40, 40), dtype=np.uint8)
    picture[10:30, 15:25] = 255  # 20 rows of 1 mm by 10 columns of 2 mm: a square of 20 mm
    crop = crop_square(picture, (20.0, 20.0), 40.0, (1.0, 2.0), 40)
    assert np.argwhere(crop > 127).min(axis=0).tolist() == [10, 10]
    assert np.argwhere(crop > 127).max(axis=0).tolist() == [29, 29]


def test_square_pixels() -> None:
    assert square_pixels(np.zeros((20, 50), dtype=np.uint8), (5.0, 1.0), 100).shape == (100, 50)


def test_png_digests_are_those_of_the_file(tmp_path: Path) -> None:
    picture = np.arange(48, dtype=np.uint8).reshape(6, 8)
    written = write_png(tmp_path / "a.png", picture)
    assert written.sha256 == sha256_file(tmp_path / "a.png")
    assert written.content == pixel_digest((tmp_path / "a.png").read_bytes())
    assert encode_png(picture) == encode_png(picture[::-1][::-1])
    with pytest.raises(ValueError, match="a grey picture is uint8"):
        encode_png(picture.astype(np.int16))
    with pytest.raises(ValueError, match="a grey picture is uint8"):
        encode_png(np.zeros((2, 2, 3), dtype=np.uint8))


def phantom() -> np.ndarray:
    """Cylinder of soft tissue with a box of air, 96 x 90 x 60."""
    x, y, z = np.meshgrid(np.arange(96), np.arange(90), np.arange(60), indexing="ij")
    volume = (((11 * x + 17 * y + 5 * z) % 241) - 80).astype(np.float32)
    volume[(30 * (x - 48)) ** 2 + (40 * (y - 45)) ** 2 >= 1200**2] = -1000
    volume[30:45, 30:60, 10:50] = -850
    return volume


@pytest.mark.parametrize(
    ("spacing", "shape", "total"),
    [((0.8, 0.8, 0.8), (60, 94), 898167), ((0.7, 0.7, 1.5), (129, 94), 1928280)],
)
def test_projection_equals_what_the_published_script_wrote(
    spacing: tuple[float, float, float], shape: tuple[int, int], total: int
) -> None:
    picture = project(phantom(), spacing)
    assert picture.shape == shape
    # One level a pixel is allowed: the published script itself moves that much with the CPU.
    assert abs(int(picture.sum(dtype=np.int64)) - total) <= picture.size


def test_projection_shows_bone_bright_head_up() -> None:
    volume = np.full((40, 30, 40), -1000, dtype=np.int16)
    volume[5:35, 5:25, :] = 0
    volume[15:25, 10:20, 30:] = 1000
    picture = project(volume, (1.0, 1.0, 1.0))
    assert picture[:8].max() > picture[-8:].max()
