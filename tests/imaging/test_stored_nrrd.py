"""NRRD as stored: x first, spaces turned to RAS, and every fault by name."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from medheb.core.errors import MedhebError
from medheb.imaging.axial import affine_of
from medheb.imaging.nrrd import open_nrrd

ARRAY = np.arange(24, dtype=np.int16).reshape((2, 3, 4), order="F")
SAMPLES = Path(__file__).resolve().parents[3] / "shared" / "samples" / "3d"


def save(path: Path, array: np.ndarray = ARRAY, packed: bool = False, **fields: str) -> Path:
    """A NRRD file of a little-endian array; fields replace or add to the header."""
    kinds = {"i2": "short", "u1": "uchar", "u2": "ushort", "f4": "float", "f8": "double", "i4": "int"}
    content = array.tobytes(order="F")
    header = {
        "type": kinds[array.dtype.str[1:]],
        "dimension": str(array.ndim),
        "space": "left-posterior-superior",
        "sizes": " ".join(map(str, array.shape)),
        "space directions": "(1,0,0) (0,2,0) (0,0,3)",
        "endian": "big" if array.dtype.byteorder == ">" else "little",
        "encoding": "gzip" if packed else "raw",
        "space origin": "(10,20,30)",
    }
    header.update({key.replace("_", " "): value for key, value in fields.items()})
    lines = [f"{key}: {value}" for key, value in header.items() if value]
    path.write_bytes(
        b"NRRD0004\n" + "\n".join(lines).encode() + b"\n\n" + (gzip.compress(content) if packed else content)
    )
    return path


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("dtype", ["<i2", ">i2", "u1", "<u2", "<f4", "<i4"])
def test_first_index_is_x_and_runs_fastest(tmp_path: Path, packed: bool, dtype: str) -> None:
    volume = open_nrrd(save(tmp_path / "a.nrrd", ARRAY.astype(dtype), packed))
    assert volume.shape == (2, 3, 4)
    assert volume.dtype == np.dtype(dtype).newbyteorder("=")
    assert np.array_equal(volume.array(), ARRAY)
    assert [(index, plane.tolist()) for index, plane in volume.slices([3, 1])] == [
        (1, ARRAY[:, :, 1].tolist()),
        (3, ARRAY[:, :, 3].tolist()),
    ]


def test_float64_becomes_float32(tmp_path: Path) -> None:
    volume = open_nrrd(save(tmp_path / "a.nrrd", ARRAY.astype("<f8") / 3))
    assert volume.dtype == np.float32
    assert np.array_equal(volume.array(), (ARRAY / 3).astype(np.float32))


def test_lps_becomes_ras(tmp_path: Path) -> None:
    volume = open_nrrd(save(tmp_path / "a.nrrd"))
    assert volume.axis_codes == "LPS"
    assert volume.spacing == (1, 2, 3)
    assert volume.affine is not None
    assert volume.affine.tolist() == [[-1, 0, 0, -10], [0, -2, 0, -20], [0, 0, 3, 30], [0, 0, 0, 1]]
    assert np.array_equal(volume.canonical().array, ARRAY[::-1, ::-1])


def test_other_spaces_and_axis_orders(tmp_path: Path) -> None:
    path = save(tmp_path / "a.nrrd", space="RAS", space_directions="(0,0,3) (1,0,0) (0,2,0)")
    volume = open_nrrd(path)
    assert (volume.axis_codes, volume.spacing) == ("SRA", (3, 1, 2))
    assert volume.affine is not None
    assert volume.affine[:3, 3].tolist() == [10, 20, 30]


def test_a_file_without_space_says_nothing_of_orientation(tmp_path: Path) -> None:
    volume = open_nrrd(save(tmp_path / "a.nrrd", space="", space_directions="", space_origin="", spacings="1 2 3"))
    assert (volume.axis_codes, volume.spacing) == (None, (1, 2, 3))
    assert np.array_equal(volume.array(), ARRAY)
    with pytest.raises(MedhebError, match=r"a.nrrd: does not say how it is oriented"):
        volume.canonical()


def test_a_voxel_size_that_is_none(tmp_path: Path) -> None:
    bare = {"space": "", "space_directions": "", "space_origin": ""}
    volume = open_nrrd(save(tmp_path / "a.nrrd", space_directions="(1,0,0) (0,2,0) (0,0,0)"))
    with pytest.raises(MedhebError, match=r"a\.nrrd: says that its voxels are 1 x 2 x 0 mm large\. Get an undamaged"):
        volume.canonical()
    unknown = open_nrrd(save(tmp_path / "b.nrrd", spacings="1 2 NaN", **bare))
    assert np.array_equal(unknown.spacing, (1, 2, np.nan), equal_nan=True), "ITK makes 1 mm of it"
    with pytest.raises(MedhebError, match=r"b\.nrrd: says that its voxels are 1 x 2 x nan mm large\. Get a copy"):
        affine_of(unknown, "LPS")
    assert "c.nrrd: has an unreadable NRRD header" in refusal(save(tmp_path / "c.nrrd", spacings="1 2 0", **bare))


def refusal(path: Path, **caps: int) -> str:
    with pytest.raises(MedhebError) as caught:
        open_nrrd(path, **caps).array()
    return str(caught.value)


def test_faults_are_named(tmp_path: Path) -> None:
    (tmp_path / "text.nrrd").write_text("hello")
    assert "text.nrrd: is not a NRRD volume" in refusal(tmp_path / "text.nrrd")
    (tmp_path / "junk.nrrd").write_bytes(b"NRRD0004\nrubbish\n")
    assert "junk.nrrd: has an unreadable NRRD header" in refusal(tmp_path / "junk.nrrd")
    assert "none.nrrd: does not exist" in refusal(tmp_path / "none.nrrd")
    (tmp_path / "folder.nrrd").mkdir()
    assert "folder.nrrd: cannot be read (Is a directory)" in refusal(tmp_path / "folder.nrrd")
    plain = {"space": "", "space_directions": "", "space_origin": ""}
    four = np.zeros((3, 2, 3, 4), dtype=np.uint8)
    assert "is 4-dimensional (3, 2, 3, 4)" in refusal(save(tmp_path / "four.nrrd", four, **plain))
    colour = save(tmp_path / "rgb.nrrd", four, kinds="RGB-color domain domain domain", **plain)
    assert "rgb.nrrd: holds voxels of the kind vector of 8-bit unsigned integer" in refusal(colour)
    two = save(tmp_path / "two.nrrd", np.zeros((3, 2), dtype=np.uint8), **plain)
    assert "is 2-dimensional (3, 2)" in refusal(two)
    assert "more than the cap of 47" in refusal(save(tmp_path / "large.nrrd"), max_bytes=47)


def test_cut_files(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 999, (20, 30, 40)).astype("<i2")
    packed = save(tmp_path / "a.nrrd", noise, packed=True)
    packed.write_bytes(packed.read_bytes()[:-9000])
    assert "a.nrrd: ends or breaks at slice" in refusal(packed)
    assert "Delete it and fetch the source again" in refusal(packed)
    plain = save(tmp_path / "b.nrrd")
    plain.write_bytes(plain.read_bytes()[:-10])
    assert "b.nrrd: ends or breaks at slice" in refusal(plain)


def test_encodings_that_are_read_whole(tmp_path: Path) -> None:
    path = save(tmp_path / "a.nrrd", line_skip="1")
    head, blank, data = path.read_bytes().partition(b"\n\n")
    path.write_bytes(head + blank + b"a line to be skipped\n" + data)
    assert np.array_equal(open_nrrd(path).array(), ARRAY)
    text = save(tmp_path / "text.nrrd", encoding="ascii")
    head, blank, _ = text.read_bytes().partition(b"\n\n")
    text.write_bytes(head + blank + " ".join(map(str, ARRAY.ravel(order="F"))).encode())
    assert np.array_equal(open_nrrd(text).array(), ARRAY)
    path.write_bytes(path.read_bytes()[:-10])
    assert "a.nrrd: ends or breaks inside its voxels" in refusal(path)


def test_a_header_that_claims_gigabytes_is_refused_before_they_are_reserved(tmp_path: Path) -> None:
    path = save(tmp_path / "bomb.nrrd", packed=True, sizes="1000 1000 1000")
    assert "bomb.nrrd: declares 2000000000 bytes of voxels, more than it can hold" in refusal(path)


@pytest.mark.parametrize("line", ["data file: /etc/passwd", "datafile: other.raw"])
def test_a_header_may_not_point_to_another_file(tmp_path: Path, line: str) -> None:
    path = tmp_path / "a.nrrd"
    save(path)
    path.write_bytes(path.read_bytes().replace(b"\n\n", f"\n{line}\n\n".encode(), 1))
    assert "a.nrrd: keeps its voxels in another file" in refusal(path)


@pytest.mark.skipif(not SAMPLES.is_dir(), reason=f"no sample volumes at {SAMPLES}")
def test_a_real_volume_equals_its_nifti_twin() -> None:
    from medheb.imaging.nifti import open_nifti

    nrrd, nifti = open_nrrd(SAMPLES / "niivue_FLAIR.nrrd"), open_nifti(SAMPLES / "niivue_FLAIR.nii.gz")
    assert np.array_equal(nrrd.array(), nifti.array())
    assert nrrd.affine is not None
    assert np.allclose(nrrd.affine, nifti.affine, atol=1e-4)
