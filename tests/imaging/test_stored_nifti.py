"""NIfTI as stored: order, types, scaling, one pass, selected slices, and every fault by name."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import nibabel
import numpy as np
import pytest
from make_scans import numbered, save_nifti

from medheb.core.errors import MedhebError
from medheb.imaging import nifti
from medheb.imaging.nifti import open_nifti

SAMPLES = Path(__file__).resolve().parents[3] / "shared" / "samples" / "3d"
needs_samples = pytest.mark.skipif(not SAMPLES.is_dir(), reason=f"no sample volumes at {SAMPLES}")


def as_nibabel(path: Path) -> np.ndarray:
    return np.asarray(nibabel.load(path).dataobj)


@pytest.mark.parametrize("name", ["a.nii", "a.nii.gz"])
@pytest.mark.parametrize("affine", [np.diag([-1.0, -2.0, 3.0, 1.0]), np.array(np.eye(4)[[2, 0, 1, 3]])])
def test_slices_come_as_stored_whatever_the_orientation(tmp_path: Path, name: str, affine: np.ndarray) -> None:
    array = numbered((3, 4, 5))
    volume = open_nifti(save_nifti(tmp_path / name, array, affine))
    assert (volume.shape, volume.count, volume.dtype) == ((3, 4, 5), 5, np.int16)
    assert np.array_equal(volume.array(), array)
    assert volume.array().dtype == np.int16
    for index, plane in volume.slices():
        assert np.array_equal(plane, array[:, :, index])
    assert np.allclose(volume.affine, affine)


def test_header_facts(tmp_path: Path) -> None:
    volume = open_nifti(save_nifti(tmp_path / "a.nii.gz", numbered((3, 4, 5)), np.diag([-0.5, -0.75, 2.0, 1.0])))
    assert volume.spacing == (0.5, 0.75, 2.0)
    assert volume.axis_codes == "LPS"
    assert volume.where == str(tmp_path / "a.nii.gz")
    assert volume.canonical().array.shape == (3, 4, 5)


@pytest.mark.parametrize("name", ["a.nii", "a.nii.gz"])
def test_chosen_slices_come_once_in_order_in_one_pass(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    array = numbered((3, 4, 9))
    volume = open_nifti(save_nifti(tmp_path / name, array))
    opened = []
    monkeypatch.setattr(nifti, "open_bytes", lambda *given: opened.append(given) or original(*given))
    found = list(volume.slices([7, 2, 2, 0, 7]))
    assert [index for index, _ in found] == [0, 2, 7]
    assert all(np.array_equal(plane, array[:, :, index]) for index, plane in found)
    assert len(opened) == 1
    assert list(volume.slices([])) == []


original = nifti.open_bytes


def test_slices_outside_are_a_programming_error(tmp_path: Path) -> None:
    volume = open_nifti(save_nifti(tmp_path / "a.nii", numbered((2, 2, 3))))
    with pytest.raises(ValueError, match="has slices 0 to 2, not 1 to 3"):
        volume.slices([1, 3])


@pytest.mark.parametrize("stored", ["uint8", "int16", "float32", "int32", "float64"])
@pytest.mark.parametrize("scale", [(1.0, -1024.0), (0.3, 0.0), (7.1098, -1024.0)])
def test_slope_and_intercept_are_applied_once_as_nibabel_does(
    tmp_path: Path, stored: str, scale: tuple[float, float]
) -> None:
    image = nibabel.Nifti1Image(numbered((3, 4, 5), stored), np.eye(4))
    image.header.set_slope_inter(*scale)
    nibabel.save(image, tmp_path / "a.nii.gz")
    volume = open_nifti(tmp_path / "a.nii.gz")
    assert volume.dtype == np.float32
    assert np.array_equal(volume.array(), as_nibabel(tmp_path / "a.nii.gz").astype(np.float32))


@pytest.mark.parametrize(("stored", "kept"), [("uint16", "uint16"), ("int64", "float32"), ("float64", "float32")])
@pytest.mark.parametrize("order", ["<", ">"])
def test_types_and_byte_orders(tmp_path: Path, stored: str, kept: str, order: str) -> None:
    header = nibabel.Nifti1Header(endianness=order)
    header.set_data_dtype(np.dtype(stored).newbyteorder(order))
    array = numbered((3, 4, 5), stored)
    nibabel.save(nibabel.Nifti1Image(array, np.eye(4), header), tmp_path / "a.nii.gz")
    volume = open_nifti(tmp_path / "a.nii.gz")
    assert volume.dtype == kept
    assert volume.dtype.isnative
    assert np.array_equal(volume.array(), array)


def test_a_gzip_file_is_known_by_its_content(tmp_path: Path) -> None:
    save_nifti(tmp_path / "a.nii", numbered((3, 4, 5)))
    path = (tmp_path / "a.nii").rename(tmp_path / "plain.nii.gz")
    with pytest.raises(MedhebError, match=r"plain.nii.gz: is not a readable NIfTI volume"):
        open_nifti(path)


def damaged(tmp_path: Path, **fields: object) -> Path:
    image = nibabel.Nifti1Image(numbered((3, 4, 5)), np.diag([-2.0, -2.0, 3.0, 1.0]))
    nibabel.save(image, tmp_path / "a.nii")
    content = bytearray((tmp_path / "a.nii").read_bytes())
    header = nibabel.Nifti1Header(bytes(content[:348]), check=False)
    for name, value in fields.items():
        header[name] = value
    content[:348] = header.binaryblock
    (tmp_path / "a.nii").write_bytes(content)
    return tmp_path / "a.nii"


@pytest.mark.parametrize(
    "fields",
    [
        {"srow_x": [np.nan] * 4},
        {"srow_y": [0, 0, 0, 0]},
        {"sform_code": 0, "qform_code": 1, "qoffset_x": np.nan},
        {"sform_code": 0, "qform_code": 1, "quatern_b": np.nan},
    ],
)
def test_a_damaged_affine_stops_orientation_but_not_slices(tmp_path: Path, fields: dict[str, object]) -> None:
    volume = open_nifti(damaged(tmp_path, **fields))
    assert volume.affine is None
    assert volume.axis_codes is None
    assert volume.spacing == (2, 2, 3)
    assert np.array_equal(volume.array(), numbered((3, 4, 5)))
    with pytest.raises(MedhebError, match=r"a.nii: has a damaged orientation matrix\. Get an undamaged copy"):
        volume.canonical()


@pytest.mark.parametrize("size", [0, np.nan, np.inf])
def test_a_stated_voxel_size_is_handed_on_as_it_stands(tmp_path: Path, size: float) -> None:
    """nibabel makes 1 mm of 0; an orientation matrix of its own is not touched by it, one that is made of it is."""
    pixdim = [1, 2, 2, size, 1, 1, 1, 1]
    volume = open_nifti(damaged(tmp_path, pixdim=pixdim))
    assert np.array_equal(volume.spacing, (2, 2, size), equal_nan=True)
    assert volume.canonical().spacing == (2, 2, 3)
    volume = open_nifti(damaged(tmp_path, pixdim=pixdim, sform_code=0, qform_code=1))
    assert volume.axis_codes == ("LPS" if size == 0 else None), "directions are known without it"
    with pytest.raises(MedhebError, match=rf"a.nii: says that its voxels are 2 x 2 x {size:g} mm large\. Get an"):
        volume.canonical()


def test_a_file_without_orientation_says_so(tmp_path: Path) -> None:
    volume = open_nifti(damaged(tmp_path, sform_code=0, qform_code=0))
    assert volume.axis_codes is None
    assert not volume.oriented
    with pytest.raises(MedhebError, match=r"a.nii: does not say how it is oriented"):
        volume.canonical()
    assumed = volume.canonical(accept_assumed=True)
    assert assumed.shape == (3, 4, 5)


def test_a_fourth_axis_of_one_is_dropped_only_on_request(tmp_path: Path) -> None:
    array = numbered((3, 4, 5))
    path = save_nifti(tmp_path / "a.nii.gz", array[..., None])
    with pytest.raises(MedhebError, match=r"is 4-dimensional \(3, 4, 5, 1\)"):
        open_nifti(path)
    assert np.array_equal(open_nifti(path, trailing_one=True).array(), array)
    many = save_nifti(tmp_path / "b.nii.gz", np.stack([array, array], axis=3))
    with pytest.raises(MedhebError, match=r"is 4-dimensional \(3, 4, 5, 2\)"):
        open_nifti(many, trailing_one=True)


def test_fewer_than_three_dimensions(tmp_path: Path) -> None:
    with pytest.raises(MedhebError, match=r"a.nii: is 2-dimensional \(3, 4\)\. Give one three-dimensional"):
        open_nifti(save_nifti(tmp_path / "a.nii", numbered((3, 4, 1))[:, :, 0]))


def noisy(tmp_path: Path) -> Path:
    return save_nifti(tmp_path / "a.nii.gz", np.random.default_rng(0).integers(0, 999, (20, 20, 20)).astype("int16"))


def test_a_cut_file_names_the_slice_where_it_ends(tmp_path: Path) -> None:
    path = noisy(tmp_path)
    path.write_bytes(path.read_bytes()[:-3000])
    volume = open_nifti(path)
    assert len(list(volume.slices([0, 5]))) == 2
    with pytest.raises(MedhebError, match=r"a.nii.gz: ends or breaks at slice \d+ or soon .*fetch the source again"):
        list(volume.slices())


def test_a_wrong_checksum_is_noticed(tmp_path: Path) -> None:
    path = noisy(tmp_path)
    content = bytearray(path.read_bytes())
    content[-8] ^= 1
    path.write_bytes(content)
    with pytest.raises(MedhebError, match=r"a.nii.gz: ends or breaks at slice .*CRC check failed"):
        list(open_nifti(path).slices())


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = noisy(tmp_path)

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(nibabel, "load", refuse)
    with pytest.raises(MedhebError, match=r"a.nii.gz: may not be read by this user\. Give read permission"):
        open_nifti(path)


PEAK = """
import sys
from pathlib import Path
from medheb.imaging.foreground import foreground_of
from medheb.imaging.nifti import open_nifti
volume = open_nifti(Path(sys.argv[1]))
foreground_of(plane for _, plane in volume.slices()).grey_range(0.5, 99.5)
lines = Path("/proc/self/status").read_text().splitlines()
print(next(line.split()[1] for line in lines if line.startswith("VmHWM")))
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from Linux's /proc")
def test_memory_does_not_grow_with_the_number_of_slices(tmp_path: Path) -> None:
    peaks = []
    for slices in (4, 160):
        path = save_nifti(tmp_path / f"{slices}.nii.gz", np.zeros((512, 512, slices), dtype=np.int16))
        run = subprocess.run([sys.executable, "-c", PEAK, path], check=True, capture_output=True, text=True)
        peaks.append(int(run.stdout) / 1024)
    assert peaks[1] < peaks[0] + 20, peaks  # the volume alone has 80 MB


@needs_samples
@pytest.mark.parametrize(
    "name",
    [
        "totalseg_example_ct_sm.nii.gz",
        "niivue_shear.nii.gz",
        "niivue_space_PIR.nii.gz",
        "niivue_minimal.nii.gz",
        "riimango_little.nii.gz",
        "derived/ctrate_v1_like.nii.gz",
    ],
)
def test_real_volumes_equal_what_nibabel_reads(name: str) -> None:
    theirs = as_nibabel(SAMPLES / name).astype(np.float32)
    ours = open_nifti(SAMPLES / name, trailing_one=True).array()
    assert np.array_equal(ours.astype(np.float32), theirs.reshape(ours.shape))


@needs_samples
def test_real_orientations() -> None:
    codes = {name: open_nifti(SAMPLES / f"niivue_space_{name}.nii.gz").axis_codes for name in ("RAS", "LPS", "PIR")}
    assert codes == {"RAS": "RAS", "LPS": "LPS", "PIR": "PIR"}
    assert open_nifti(SAMPLES / "niivue_minimal.nii.gz").axis_codes is None
