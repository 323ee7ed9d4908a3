"""Planes of stored volumes against the whole volume in closest-RAS order."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations, product
from pathlib import Path

import nibabel
import numpy as np
import pytest

from medheb.core.errors import MedhebError
from medheb.imaging.nifti import open_nifti, read_nifti
from medheb.imaging.planes import AXIAL, CORONAL, SAGITTAL, body_planes, turn_of

SHAPE = (5, 6, 7)
ORDERS = [(axes, signs) for axes in permutations(range(3)) for signs in product((1, -1), repeat=3)]


def write(path: Path, affine: np.ndarray, code: int = 1) -> Path:
    values = np.random.Generator(np.random.PCG64(3)).integers(-900, 900, SHAPE).astype(np.int16)
    image = nibabel.Nifti1Image(values, affine)
    image.set_sform(affine, code)
    image.set_qform(affine, code)
    nibabel.save(image, path)
    return path


@pytest.mark.parametrize(("axes", "signs"), ORDERS)
def test_every_axis_order_gives_the_planes_of_the_canonical_volume(
    tmp_path: Path, axes: tuple[int, ...], signs: tuple[int, ...]
) -> None:
    affine = np.zeros((4, 4))
    affine[3, 3] = 1
    for stored, (axis, sign) in enumerate(zip(axes, signs, strict=True)):
        affine[axis, stored] = sign * (0.5 + stored)
    path = write(tmp_path / "v.nii", affine)
    whole = read_nifti(path).array
    volume = open_nifti(path)
    turn = turn_of(volume)
    assert turn.shape(volume) == whole.shape
    seen: list[int] = []
    planes = body_planes(
        volume, turn, {SAGITTAL: [0, 3, 3], CORONAL: [4, 1], AXIAL: [2]}, lambda p: seen.append(p.size)
    )
    assert len(seen) == SHAPE[2]
    assert sorted(planes[SAGITTAL]) == [0, 3]
    for axis, found in planes.items():
        for number, plane in found.items():
            assert np.array_equal(plane, whole.take(number, axis=axis))


def test_oblique_volumes_take_the_closest_axes(tmp_path: Path) -> None:
    affine = np.array([[-0.38, 0.06, 0.02, 30], [0.05, -0.39, 0.03, 20], [0.01, 0.04, 0.4, -10], [0, 0, 0, 1.0]])
    volume = open_nifti(write(tmp_path / "v.nii.gz", affine))
    assert turn_of(volume).flipped == (True, True, False)


def test_without_orientation(tmp_path: Path) -> None:
    volume = open_nifti(write(tmp_path / "v.nii", np.eye(4), code=0))
    with pytest.raises(MedhebError, match=r"v\.nii: does not say how it is oriented"):
        turn_of(volume)
    assert turn_of(volume, accept_assumed=True).stored == (0, 1, 2)


def test_damaged_orientation(tmp_path: Path) -> None:
    volume = replace(open_nifti(write(tmp_path / "v.nii", np.eye(4))), affine=None)
    with pytest.raises(MedhebError, match="has a damaged orientation matrix"):
        turn_of(volume, accept_assumed=True)
