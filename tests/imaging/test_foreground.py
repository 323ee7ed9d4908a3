"""MR normalisation, per-slice stretch and windows: exact arithmetic, degenerate volumes, equality with NumPy."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from medheb.core.errors import MedhebError
from medheb.imaging.foreground import (
    Foreground,
    cleaned,
    foreground_of,
    nonzero,
    normalised,
    positive,
    widened_range,
)
from medheb.imaging.hounsfield import HounsfieldCheck
from medheb.imaging.windows import stretched, to_uint8, unit_to_uint8, window_range


def planes(volume: np.ndarray) -> list[np.ndarray]:
    return [volume[:, :, index] for index in range(volume.shape[2])]


def published(volume: np.ndarray, lower: float, upper: float) -> np.ndarray:
    """The published rule on a whole volume, step by step."""
    values = volume.astype(np.float32)
    values[~np.isfinite(values)] = 0
    foreground = values[values > 0]
    if foreground.size == 0:
        return np.zeros(values.shape, dtype=np.uint8)
    low, high = np.percentile(foreground, lower), np.percentile(foreground, upper)
    if high <= low:
        low, high = foreground.min(), foreground.max()
    if high <= low:
        return np.zeros(values.shape, dtype=np.uint8)
    scaled = (np.clip(values, low, high) - low) / (high - low) * 255
    return np.clip(scaled, 0, 255).astype(np.uint8)


def ours(volume: np.ndarray, lower: float, upper: float) -> np.ndarray:
    grey = foreground_of(planes(volume)).grey_range(lower, upper)
    return np.stack([normalised(plane, grey) for plane in planes(volume)], axis=2)


def phantom() -> np.ndarray:
    """Tube of signal, 24 x 20 x 90, empty at both ends."""
    i, j, k = np.meshgrid(np.arange(24), np.arange(20), np.arange(90), indexing="ij")
    volume = ((7 * i + 13 * j + 29 * k) % 503).astype(np.int16)
    volume[((i - 12) ** 2 + (j - 10) ** 2 > 81) | (k < 6) | (k >= 84)] = 0
    return volume


@pytest.mark.parametrize(
    ("lower", "low", "digest"),
    [
        (0.5, 3, "c6422769a102911d247f5a92f5bcc99f9463c0129fb5edf97b4b7eb06452cc1f"),
        (1.0, 5, "1fc528d3fd0fece11abbd32fc385109122ecb0789c91b6ad6e528a87d57d6b07"),
    ],
)
@pytest.mark.parametrize("dtype", ["int16", "float32", "int32"])
def test_phantom_as_the_published_scripts_normalise_it(lower: float, low: int, digest: str, dtype: str) -> None:
    volume = phantom().astype(dtype)
    foreground = foreground_of(planes(volume))
    grey = foreground.grey_range(lower, 99.5)
    assert grey is not None
    assert (grey.low, grey.high) == (low, 500)
    assert foreground.informative(0.015) == list(range(6, 84))
    assert hashlib.sha256(ours(volume, lower, 99.5).tobytes()).hexdigest() == digest


volumes = hnp.arrays(
    st.sampled_from([np.int16, np.uint16, np.uint8, np.int8]).map(np.dtype),
    st.tuples(st.integers(1, 6), st.integers(1, 6), st.integers(1, 4)),
)


@given(volumes, st.floats(0, 100))
def test_counted_percentiles_are_those_of_numpy(volume: np.ndarray, percent: float) -> None:
    foreground = foreground_of(planes(volume))
    values = volume[volume > 0].astype(np.float32)
    assert foreground.size == values.size
    if values.size:
        found = foreground.percentiles(percent)[0]
        assert found.dtype == np.float32
        assert found == np.percentile(values, percent)


@given(hnp.arrays(np.float32, (4, 3, 3), elements=st.floats(width=32)), st.sampled_from([0.5, 1.0, 5.0]))
@settings(max_examples=60)
def test_float_volumes_with_anything_in_them(volume: np.ndarray, lower: float) -> None:
    with np.errstate(all="ignore"):
        assert np.array_equal(ours(volume, lower, 99.5), published(volume, lower, 99.5))


@given(volumes)
def test_whole_number_volumes_as_published(volume: np.ndarray) -> None:
    assert np.array_equal(ours(volume, 0.5, 99.5), published(volume, 0.5, 99.5))


def test_large_foreground_needs_exact_places() -> None:
    values = np.random.default_rng(3).gamma(2.0, 200.0, (300, 250, 8)).astype(np.int16)
    foreground = foreground_of(planes(values))
    for percent in (0.5, 1, 37.3, 99.5, 100):
        assert foreground.percentiles(percent)[0] == np.percentile(values[values > 0].astype(np.float32), percent)


@pytest.mark.parametrize(
    "volume",
    [
        np.zeros((4, 4, 3), dtype=np.int16),
        np.full((4, 4, 3), -7, dtype=np.int16),
        np.full((4, 4, 3), 9, dtype=np.float32),
        np.full((4, 4, 3), np.nan, dtype=np.float32),
        np.full((4, 4, 3), np.inf, dtype=np.float32),
    ],
)
def test_volumes_without_a_range_become_black(volume: np.ndarray) -> None:
    assert not ours(volume, 0.5, 99.5).any()
    assert foreground_of(planes(volume)).grey_range(0.5, 99.5) is None


def test_equal_percentiles_fall_back_to_both_ends() -> None:
    volume = np.full((10, 10, 10), 5, dtype=np.int16)
    volume[0, 0, :2] = (1, 9)
    grey = foreground_of(planes(volume)).grey_range(0.5, 99.5)
    assert grey is not None
    assert (grey.low, grey.high) == (1, 9)


def test_share_of_foreground_is_inclusive_and_counts_no_nan() -> None:
    foreground = Foreground(positive)
    for count in (29, 30, 31):
        plane = np.full((50, 40), np.nan, dtype=np.float32)
        plane.flat[:count] = 1
        plane.flat[count] = np.inf
        foreground.add(plane)
    assert foreground.informative(0.015) == [1, 2]


def test_range_widened_at_its_upper_end() -> None:
    volume = np.zeros((10, 10, 11), dtype=np.int16)
    volume[:] = np.arange(-5, 6)
    foreground = foreground_of(planes(volume), nonzero)
    assert foreground.size == 1000
    assert widened_range(foreground, foreground.grey_range(0, 100), 1.2) == (-5, -5 + 10 * 1.2)
    flat = foreground_of(planes(np.full((3, 3, 3), 7.0)), nonzero)
    assert widened_range(flat, flat.grey_range(0.5, 99.5), 1.2) == (7, 7 + 1.2)
    empty = foreground_of(planes(np.zeros((3, 3, 3))), nonzero)
    assert widened_range(empty, empty.grey_range(0.5, 99.5), 1.2) == (0, 1.2)


def test_widened_in_float64_as_published() -> None:
    foreground = foreground_of(planes(np.arange(4, 195, dtype=np.uint8)[:, None, None]), nonzero)
    low, high = widened_range(foreground, foreground.grey_range(0, 100), 1.2)
    assert (low, high) == (4, 232)
    # 76 of 228 is a third: 85 exactly. With an end of 232.00002, as float32 arithmetic gives it, it is cut to 84.
    assert unit_to_uint8(np.array([[80]]), low, high) == 85


def test_no_foreground_has_no_percentiles() -> None:
    with pytest.raises(ValueError, match="no foreground"):
        foreground_of([np.zeros((2, 2))]).percentiles(50)


def test_foreground_of_narrow_integers_does_not_grow_with_the_volume() -> None:
    foreground = Foreground()
    for _ in range(50):
        foreground.add(np.ones((64, 64), dtype=np.int16))
    assert foreground.size == 50 * 64 * 64
    assert not foreground._values


def test_cleaning_leaves_the_reader_s_array_alone() -> None:
    plane = np.array([[1.0, np.nan, np.inf, -np.inf]], dtype=np.float32)
    assert cleaned(plane).tolist() == [[1, 0, 0, 0]]
    assert np.isnan(plane[0, 1])


windows = st.sampled_from([(-600, 1500), (40, 80), (35, 350), (50, 350)])


@given(hnp.arrays(np.float32, 64, elements=st.floats(-4096, 4096, width=32)), windows)
def test_clipping_first_or_last_gives_the_same_pixels(values: np.ndarray, window: tuple[float, float]) -> None:
    low, high = window_range(*window)
    last = np.clip((values - np.float32(low)) / np.float32(high - low) * np.float32(255), 0, 255).astype(np.uint8)
    first = (np.clip(values, low, high) - np.float32(low)) / np.float32(high - low) * np.float32(255)
    assert np.array_equal(last, first.astype(np.uint8))
    assert np.array_equal(last, to_uint8(values, low, high))


@pytest.mark.parametrize(
    ("level", "width", "greys"),
    [
        (-600, 1500, {-1350: 0, -1000: 59, -600: 127, -124: 208, 0: 229, 79: 242, 150: 255, 900: 255}),
        (40, 80, {-1: 0, 0: 0, 1: 3, 40: 127, 79: 251, 80: 255}),
        (35, 350, {-140: 0, -125: 10, -124: 11, -1: 101, 0: 102, 40: 131, 209: 254, 210: 255}),
        (50, 350, {-125: 0, -1: 90, 0: 91, 149: 199, 150: 200, 210: 244, 225: 255}),
    ],
)
def test_windows_at_chosen_values(level: float, width: float, greys: dict[int, int]) -> None:
    found = to_uint8(np.array(list(greys), dtype=np.int16), *window_range(level, width))
    assert dict(zip(greys, found.tolist(), strict=True)) == greys


def test_unit_range_is_clipped_before_the_factor() -> None:
    values = np.array([-1, 0, 5, 10, 11, np.nan], dtype=np.float32)
    assert unit_to_uint8(values, 0, 10).tolist() == [0, 0, 127, 255, 255, 0]
    with pytest.raises(ValueError, match="empty grey value range"):
        unit_to_uint8(values, 1, 1)


def test_stretch_of_one_slice() -> None:
    assert stretched(np.array([[3, 200]], dtype=np.uint8)).tolist() == [[3, 200]]
    assert stretched(np.array([[100, 150, 200]], dtype=np.int16)).tolist() == [[0, 127, 255]]
    assert stretched(np.array([[1.0, 2.0]])).tolist() == [[0, 255]]
    assert stretched(np.full((2, 2), 7, dtype=np.int16)).tolist() == [[0, 0], [0, 0]]
    assert stretched(np.array([[1.0, np.nan, 3.0]])).tolist() == [[0, 0, 0]]


def test_stretch_of_a_range_beyond_16_bits_wraps_as_published() -> None:
    plane = np.array([[-20000, 0, 20000]], dtype=np.int16)
    # The range wraps to -25536; 20000 / -25536 * 255 is -199.7, of which -199 keeps its lowest 8 bits: 57.
    assert stretched(plane).tolist() == [[0, 57, 255]]


def test_stretch_of_an_infinite_slice_is_black_where_nothing_can_be_said() -> None:
    assert stretched(np.array([[0.0, 1.0, np.inf]])).tolist() == [[0, 0, 0]]


def chest(shift: int) -> np.ndarray:
    plane = np.full((40, 40), -1000, dtype=np.int16)
    plane[5:35, 5:35] = 40
    plane[10:30, 10:18] = -850
    plane[18:22, 30:33] = 600
    return plane + np.int16(shift)


def test_hounsfield_units_are_recognised() -> None:
    check = HounsfieldCheck()
    check.add(chest(0))
    assert check.fault() is None
    check.require("scan")


@pytest.mark.parametrize(
    ("shift", "words"), [(1024, "never applied"), (-1024, "applied twice"), (8192, "never applied")]
)
def test_wrong_rescaling_is_refused_with_its_likely_cause(shift: int, words: str) -> None:
    check = HounsfieldCheck()
    for _ in range(3):
        check.add(chest(shift))
    with pytest.raises(MedhebError, match=f"scan.nii.gz: is not in HU.*{words}"):
        check.require("scan.nii.gz")


def test_hounsfield_check_needs_a_slice() -> None:
    with pytest.raises(ValueError, match="no slice"):
        HounsfieldCheck().fault()
