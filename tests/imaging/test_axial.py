"""Slices in stored and in display order, volumes gathered on the way, and mistakes of rescaling."""

from __future__ import annotations

from itertools import permutations, product
from pathlib import Path

import nibabel
import numpy as np
import pytest

from medheb.core.errors import MedhebError
from medheb.imaging.axial import AxialSlices, affine_of, is_sheared
from medheb.imaging.gathered import GatheredVolume
from medheb.imaging.hounsfield import HounsfieldCheck
from medheb.imaging.nifti import open_nifti, read_nifti
from medheb.imaging.stored import StoredVolume

LPS = np.diag([-0.5, -0.75, 2.0, 1.0])
ORDERS = ["".join(letters) for axes in permutations(("RL", "AP", "IS")) for letters in product(*axes)]
VALUES = np.random.Generator(np.random.PCG64(0)).integers(-1000, 1000, (6, 5, 7)).astype(np.int16)


def stored(folder: Path, codes: str = "LPS", affine: np.ndarray | None = LPS) -> StoredVolume:
    """One volume, the same in the body whatever the order it is stored in."""
    image = nibabel.Nifti1Image(VALUES, affine)
    if affine is None:
        image.header.set_zooms((0.5, 0.75, 2.0))
    else:
        orientations = nibabel.orientations
        wanted = orientations.axcodes2ornt(codes)
        image = image.as_reoriented(orientations.ornt_transform(orientations.io_orientation(affine), wanted))
    path = folder / f"{codes}.nii.gz"
    nibabel.save(image, path)
    return open_nifti(path)


def test_all_48_orders_show_the_same(tmp_path: Path) -> None:
    assert len(ORDERS) == 48
    for codes in ORDERS:
        slices = AxialSlices(stored(tmp_path, codes), displayed=True)
        assert slices.count == 7
        shown = dict(slices.planes())
        assert sorted(shown) == list(range(7))
        for number, plane in shown.items():
            assert (plane == VALUES[:, :, number].T).all(), codes


@pytest.mark.parametrize("codes", ["LPS", "RAI", "PSL"])
@pytest.mark.parametrize("keep", [False, True])
def test_wanted_slices_only_and_each_stored_slice_once(tmp_path: Path, codes: str, keep: bool) -> None:
    volume = stored(tmp_path, codes)
    slices = AxialSlices(volume, displayed=True, keep=keep)
    whole = volume.array()
    seen: dict[int, np.ndarray] = {}
    shown = dict(slices.planes([5, 0, 5], seen.__setitem__))
    assert sorted(shown) == [0, 5]
    assert (shown[5] == VALUES[:, :, 5].T).all()
    assert sorted(seen) == list(range(volume.count))
    assert all((plane == whole[:, :, index]).all() for index, plane in seen.items())
    assert sorted(dict(slices.planes([3]))) == [3], "a second pass"


def test_as_stored_nothing_is_turned(tmp_path: Path) -> None:
    volume = stored(tmp_path, "ASR")
    slices = AxialSlices(volume)
    assert slices.count == 6
    assert all((plane == volume.array()[:, :, number]).all() for number, plane in slices.planes())
    assert slices.transform.startswith("as stored")


def test_without_orientation_only_an_assumption_helps(tmp_path: Path) -> None:
    volume = stored(tmp_path, affine=None)
    with pytest.raises(MedhebError, match="does not say how it lies"):
        AxialSlices(volume, displayed=True)
    with pytest.raises(MedhebError, match="does not say how it is oriented"):
        affine_of(volume, None)
    slices = AxialSlices(volume, displayed=True, assumed="LPS")
    assert slices.transform == "LPS (assumed) to LPS, transposed for display"
    assert (dict(slices.planes())[2] == VALUES[:, :, 2].T).all()
    affine, codes = affine_of(volume, "LPS")
    assert codes == "LPS"
    assert np.allclose(affine, LPS)


def gathered(volume: StoredVolume, max_bytes: int = 10**6) -> GatheredVolume:
    collected = GatheredVolume(volume, max_bytes=max_bytes)
    for index, plane in volume.slices():
        collected.add(index, plane)
    return collected


@pytest.mark.parametrize("codes", ["LPS", "RAS", "SPL"])
def test_a_gathered_volume_is_the_one_that_the_reader_gives(tmp_path: Path, codes: str) -> None:
    volume = stored(tmp_path, codes)
    ours, theirs = gathered(volume).volume(), read_nifti(Path(volume.where))
    assert (ours.array == theirs.array).all()
    assert ours.array.dtype == np.int16
    assert np.allclose(ours.affine, theirs.affine)


def test_a_large_volume_is_averaged_in_blocks_about_the_same_centre(tmp_path: Path) -> None:
    volume = stored(tmp_path)
    whole = gathered(volume)
    halved = gathered(volume, max_bytes=3 * 2 * 7 * 2)
    assert (whole.block, halved.block) == (1, 2)
    ours = halved.volume()
    assert ours.shape == (3, 2, 7)
    assert np.allclose(ours.spacing, (1.0, 1.5, 2.0))
    blocks = VALUES[:, :4].reshape(3, 2, 2, 2, 7).astype(float).mean(axis=(1, 3))
    assert np.abs(ours.array[::-1, ::-1] - blocks).max() <= 0.5
    first = VALUES[:2, :2, 0]
    centre = LPS @ [0.5, 0.5, 0, 1]
    placed = np.argwhere(np.isclose(ours.array, np.rint(first.mean())))
    assert any(np.allclose(ours.affine @ [*place, 1], centre) for place in placed)


def test_shear_is_seen_and_rotation_is_none() -> None:
    angle = np.radians(20)
    turned = np.eye(4)
    turned[:2, :2] = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
    assert not is_sheared(turned @ np.diag([0.5, 0.5, 3, 1]))
    tilted = np.diag([0.5, 0.5, 3.0, 1.0])
    tilted[1, 2] = 0.4
    assert is_sheared(tilted)


def chest(shift: int) -> np.ndarray:
    plane = np.full((40, 40), -1000 + shift, dtype=np.int16)
    plane[10:30, 10:30] = 40 + shift
    return plane


@pytest.mark.parametrize(
    ("plane", "words"),
    [
        (chest(0), None),
        (chest(1024), "-1024 was never applied"),
        (chest(-1024), "-1024 was applied twice"),
        (chest(-8192), "-8192 was applied twice"),
        (chest(8192).astype(np.float32), "-8192 was never applied"),
        (np.full((40, 40), -1024, np.int16), None),
        (np.full((40, 40), np.nan, np.float32), None),
        (chest(300), None),
    ],
)
def test_a_mistake_is_named_only_where_an_intercept_explains_it(plane: np.ndarray, words: str | None) -> None:
    check = HounsfieldCheck()
    check.add(plane)
    mistake = check.mistake([-1024, -8192])
    assert mistake is None if words is None else words in str(mistake)


def test_padding_outside_the_field_of_view_is_no_mistake() -> None:
    check = HounsfieldCheck()
    plane = chest(0)
    plane[:5] = -8192
    check.add(plane)
    assert check.fault() is None


def test_no_number_at_all_is_a_fault() -> None:
    check = HounsfieldCheck()
    check.add(np.full((4, 4), np.nan, np.float32))
    assert check.fault() == "holds no voxel that is a number"
