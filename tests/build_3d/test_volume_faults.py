"""Bad volumes: each is refused by a sentence that names case and file, and the other cases are built."""

from __future__ import annotations

import gzip
import io
import os
import re
import struct
from collections.abc import Callable
from pathlib import Path

import make_volumes as make
import nibabel
import numpy as np
import pytest
from making import faults

from medheb.build.inventory import Inventory
from medheb.core.errors import MedhebError

BAD = "valid_1_b"


@pytest.fixture
def ct(tmp_path: Path) -> Path:
    make.ct_rate(tmp_path / "in")
    return tmp_path / "in"


def scan(files: Path, name: str = BAD) -> Path:
    return files / "dataset" / "valid_fixed" / name[:7] / name / f"{name}_1.nii.gz"


def built(files: Path, protocol: str = "corrected", dataset: str = "ct_rate") -> Inventory:
    return make.build(dataset, files, files.parent / f"out_{protocol}", protocol, "release")


def not_a_volume(path: Path) -> None:
    path.write_bytes(b"no volume")


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def cut_inside_the_header(path: Path) -> None:
    path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes())[:200]))


def colour(path: Path) -> None:
    pixels = np.zeros((8, 8, 4), dtype=[("R", "u1"), ("G", "u1"), ("B", "u1")])
    nibabel.save(nibabel.Nifti1Image(pixels, make.LPS), path)


def four_dimensional(path: Path) -> None:
    make.save(path, np.stack([make.chest(4)] * 2, axis=3))


def flat(path: Path) -> None:
    make.save(path, make.chest(4)[:, :, 0])


def never_rescaled(path: Path) -> None:
    make.save(path, make.chest() + np.int16(1024))


def rescaled_twice(path: Path) -> None:
    make.save(path, make.chest() - np.int16(1024))


def rescaled_twice_by_other_scanners(path: Path) -> None:
    make.save(path, make.chest() - np.int16(8192))


def missing(path: Path) -> None:
    path.unlink()


FAULTS: dict[Callable[[Path], None], str] = {
    not_a_volume: "is not a readable NIfTI volume",
    cut: "ends or breaks at slice",
    cut_inside_the_header: "is not a readable NIfTI volume",
    colour: "holds voxels of no single real number, such as colour",
    four_dimensional: r"is 4-dimensional \(32, 28, 4, 2\)",
    flat: r"is 2-dimensional \(32, 28\)",
    never_rescaled: "is not in HU: its rescale intercept of -1024 was never applied",
    rescaled_twice: "is not in HU: its rescale intercept of -1024 was applied twice",
    rescaled_twice_by_other_scanners: "is not in HU: its rescale intercept of -8192 was applied twice",
    missing: "is missing. Complete the copy",
}


@pytest.mark.parametrize("protocol", ["release", "corrected"])
@pytest.mark.parametrize("spoil", FAULTS, ids=lambda spoil: spoil.__name__)
def test_a_bad_scan_is_named_and_the_others_are_built(ct: Path, protocol: str, spoil: Callable[[Path], None]) -> None:
    spoil(scan(ct))
    inventory = built(ct, protocol)
    assert {file.facts["case"] for file in inventory.of_kind("slice")} >= {"valid_1_a"}
    assert not [file.path for file in inventory.files if BAD in file.path], "nothing half is left"
    (fault,) = [text for text in faults(inventory) if "shows no chest" not in text]
    assert re.search(f"{BAD}_1.nii.gz: {FAULTS[spoil]}", fault), fault


def test_a_scan_of_air_is_kept_as_published_and_refused_else(ct: Path) -> None:
    make.save(scan(ct), np.full((8, 8, 4), -1024, np.int16))
    published = built(ct, "release")
    assert not faults(published)
    assert any(f"{BAD}_1.nii.gz: holds the one value -1024 everywhere. Give a CT" in text for text in faults(built(ct)))
    make.save(scan(ct), np.where(make.chest(4) > 0, -1010, -1000).astype(np.int16))
    assert any(f"{BAD}_1.nii.gz: shows air alone: 100.0% of its voxels" in text for text in faults(built(ct)))


def state_size(path: Path, size: float, matrix: bool) -> None:
    """Write a voxel size into the header, with or without an orientation matrix beside it."""
    make.save(path, make.chest(64))
    content = bytearray(gzip.decompress(path.read_bytes()))
    content[80:84] = struct.pack("<f", size)
    if not matrix:
        content[254:256] = struct.pack("<h", 0)  # sform_code; qform_code stays
        content[252:254] = struct.pack("<h", 1)
    path.write_bytes(gzip.compress(bytes(content)))


@pytest.mark.parametrize("size", [0.0, float("nan"), float("inf")])
@pytest.mark.parametrize("matrix", [True, False])
@pytest.mark.parametrize(
    ("protocol", "projector"), [("release", "release"), ("corrected", "release"), ("corrected", "cone")]
)
def test_a_voxel_size_that_is_none(ct: Path, size: float, matrix: bool, protocol: str, projector: str) -> None:
    """It costs the X-ray alone, by name; where the matrix gives another, cone needs no other."""
    state_size(scan(ct), size, matrix)
    inventory = make.build("ct_rate", ct, ct.parent / "out", protocol, projector)  # type: ignore[arg-type]
    case = [file for file in inventory.files if file.facts.get("case") == BAD]
    texts = [text for text in faults(inventory) if BAD in text]
    if (projector, matrix) == ("cone", True) or (protocol, size) == ("release", 0):
        assert (len(case), texts) == (65, [])
    else:
        assert len(case) == 64, "the slices are whole"
        (text,) = texts
        words = f"says that its voxels are {size:g} x 1 x 2 mm large. Get a copy with a whole header"
        assert f"{BAD}_1.nii.gz: {words}" in text
    odd = [remark.oddity for remark in inventory.remarks if BAD in remark.where]
    words = f"says that its voxels are {size:g} x 1 x 2 mm large"
    assert odd.count(words) == (0 if matrix or size == 0 else 1) + ((protocol, size) == ("release", 0))


def test_a_voxel_size_that_asks_for_an_endless_xray(ct: Path) -> None:
    state_size(scan(ct), 1e-6, True)
    inventory = make.build("ct_rate", ct, ct.parent / "out")
    (text,) = [text for text in faults(inventory) if BAD in text]
    assert re.search(rf"{BAD}_1\.nii\.gz: asks for an X-ray of 32 x 1\d+ pixels: its voxels are 1e-06 x 2 mm", text)


def test_unreadable_permissions(ct: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rights are taken away in the calls, not on the disk: tests may run as a user who may read everything."""
    opened, listed = io.open, os.scandir

    def locked_file(path: object, *rest: object, **named: object) -> object:
        if str(path).endswith(f"{BAD}_1.nii.gz"):
            raise PermissionError(13, "Permission denied", str(path))
        return opened(path, *rest, **named)  # type: ignore[call-overload]

    def locked_folder(path: object = ".") -> object:
        if str(path).endswith("valid_2"):
            raise PermissionError(13, "Permission denied", str(path))
        return listed(path)  # type: ignore[call-overload]

    monkeypatch.setattr(io, "open", locked_file)
    monkeypatch.setattr(os, "scandir", locked_folder)
    monkeypatch.setattr(os, "listdir", lambda path=".": [entry.name for entry in locked_folder(path)])  # type: ignore[attr-defined]
    texts = faults(built(ct, "release"))
    assert any(f"{BAD}_1.nii.gz: may not be read by this user. Give read permission" in text for text in texts)
    assert any("valid_2: cannot be listed (Permission denied). Mend its permissions" in text for text in texts)
    assert len(texts) == 2


@pytest.mark.parametrize("protocol", ["release", "corrected"])
def test_a_damaged_orientation_matrix_is_tolerated_and_recorded(ct: Path, protocol: str) -> None:
    image = nibabel.load(scan(ct))
    image.header.set_sform(np.full((4, 4), np.nan), 1)
    image.header.set_qform(None, 0)
    content = image.header.binaryblock + bytes(4) + np.asarray(image.dataobj).tobytes(order="F")
    scan(ct).write_bytes(gzip.compress(content))
    inventory = make.build("ct_rate", ct, ct.parent / "out", protocol)
    case = [file for file in inventory.files if file.facts.get("case") == BAD]
    assert len(case) == 65, "64 slices and an X-ray"
    assert {file.facts["axis_codes"] for file in case} == {"damaged"}
    assert any(note.startswith("1 of ") and "without usable orientation" in note for note in inventory.notes)
    if protocol == "corrected":
        assert case[-1].facts["transform"] == "LPS (assumed) to LPS, transposed for display"


def test_no_orientation(ct: Path, tmp_path: Path) -> None:
    make.save(scan(ct), make.chest(), None)
    case = [file for file in built(ct, "release").of_kind("slice") if file.facts["case"] == BAD]
    assert {file.facts["axis_codes"] for file in case} == {"not stated"}
    make.synthrad2023(tmp_path / "pairs")
    make.save(tmp_path / "pairs" / "Task1" / "brain" / "1BA001" / "mr.nii.gz", make.head(66), None)
    assert not faults(built(tmp_path / "pairs", "release", "synthrad2023")), "cut as stored"
    (fault,) = faults(built(tmp_path / "pairs", "corrected", "synthrad2023"))
    assert "1BA001/mr.nii.gz: does not say how it lies" in fault


def test_a_sheared_grid_is_recorded_and_has_no_physical_xray(ct: Path) -> None:
    sheared = make.LPS.copy()
    sheared[1, 2] = 0.6
    make.save(scan(ct), make.chest(), sheared)
    inventory = make.build("ct_rate", ct, ct.parent / "out", "corrected")
    case = [file for file in inventory.files if file.facts.get("case") == BAD]
    assert len(case) == 64, "slices are not touched by it"
    assert {file.facts["sheared"] for file in case} == {True}
    assert any(f"{BAD}_1.nii.gz: has a sheared grid" in text for text in faults(inventory))
    assert any("have a sheared grid" in note for note in inventory.notes)


def test_fewer_slices_than_pictures_repeat_and_are_counted(ct: Path) -> None:
    inventory = built(ct, "release")
    case = [file for file in inventory.of_kind("slice") if file.facts["case"] == "valid_1_a"]
    assert len(case) == 64
    assert len({file.facts["slice"] for file in case}) == len({file.content for file in case}) == 20
    assert "3 of 3 volumes have fewer slices than pictures, so that some show the same slice" in inventory.notes


def test_two_files_that_claim_one_scan(ct: Path) -> None:
    make.save(ct / "dataset" / "valid_fixed" / "copy" / BAD / f"{BAD}_1.nii.gz", make.chest())
    inventory = built(ct, "release")
    (fault,) = faults(inventory)
    assert "holds more than one file for valid_1_b" in fault
    assert re.search(rf"copy/{BAD}/{BAD}_1\.nii\.gz", fault), fault
    assert re.search(rf"valid_1/{BAD}/{BAD}_1\.nii\.gz", fault), fault
    assert BAD not in {file.facts["case"] for file in inventory.of_kind("slice")}


def test_two_volumes_of_one_output_folder(tmp_path: Path) -> None:
    make.radgenome(tmp_path / "in")
    make.save(tmp_path / "in" / "dataset" / "valid_preprocessed" / "valid_1" / "valid_1a" / "b_1.nii.gz", make.chest())
    for protocol in ("release", "corrected"):
        (fault,) = faults(built(tmp_path / "in", protocol, "radgenome_chest_ct"))
        assert "holds more than one file for the scan of valid_1/valid_1a: b_1.nii.gz and valid_1_a_1.nii.gz" in fault


def test_two_t1_files_of_one_case(tmp_path: Path) -> None:
    make.brats_ped(tmp_path / "in")
    case = tmp_path / "in" / f"{make.PED}ValidationData" / "BraTS-PED-00002-000"
    make.save(case / "again-t1n.nii.gz", make.head())
    assert not faults(built(tmp_path / "in", "release", "brats_ped")), "the last by name is not taken, as published"
    (fault,) = faults(built(tmp_path / "in", "corrected", "brats_ped"))
    assert "holds more than one file for BraTS-PED-00002-000-t1n.nii.gz" in fault


def test_a_missing_modality_does_not_keep_back_the_other(tmp_path: Path) -> None:
    make.synthrad2023(tmp_path / "in")
    (tmp_path / "in" / "Task1" / "pelvis" / "1PA001" / "ct.nii.gz").unlink()
    inventory = built(tmp_path / "in", "corrected", "synthrad2023")
    (fault,) = faults(inventory)
    assert "pelvis/1PA001/ct.nii.gz: is missing" in fault
    assert "1PA001 MR" in {file.facts["case"] for file in inventory.of_kind("slice")}


def test_masks_in_the_place_of_volumes(tmp_path: Path) -> None:
    make.cirrmri600(tmp_path / "in")
    patient = tmp_path / "in" / "Cirrhosis_T1_3D" / "test_images" / "1.nii.gz"
    make.save(patient, (make.head(40) > 0).astype(np.int16))
    (fault,) = faults(built(tmp_path / "in", "corrected", "cirrmri600"))
    assert "test_images/1.nii.gz: holds one value in all voxels above 0, as a mask does" in fault


def test_volumes_that_the_tables_list_and_the_copy_lacks(tmp_path: Path) -> None:
    make.cirrmri600(tmp_path / "in")
    (tmp_path / "in" / "Cirrhosis_T2_3D" / "train_images" / "2.nii.gz").unlink()
    (fault,) = faults(built(tmp_path / "in", "release", "cirrmri600"))
    assert "Cirrhosis_T2_slide_folders.csv: lists 2, which the copy does not hold" in fault


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("folder_name,split\n1,exam\n", "names the split 'exam'"),
        ("folder_name,split\n1,test\n1,train\n", "puts 1 into a second split"),
        ("name,split\n1,test\n", "has no column folder_name"),
    ],
)
def test_a_wrong_table_of_splits(tmp_path: Path, text: str, message: str) -> None:
    make.cirrmri600(tmp_path / "in")
    (tmp_path / "in" / "Cirrhosis_T1_slide_folders.csv").write_text(text)
    with pytest.raises(MedhebError, match=message):
        built(tmp_path / "in", "release", "cirrmri600")


def test_scans_that_the_table_lists_and_the_copy_lacks(ct: Path) -> None:
    table = "VolumeName,Rows\nvalid_1_a_1.nii.gz,512\nvalid_9_a_1.nii.gz,512\nvalid_9_a_2.nii.gz,512\n"
    (ct / "dataset" / "metadata" / "validation_metadata.csv").write_text(table)
    (fault,) = faults(built(ct, "release"))
    assert "valid_fixed/valid_9/valid_9_a/valid_9_a_1.nii.gz: is missing, though the table of volumes" in fault


def test_a_damaged_table_of_labels_is_named_once(ct: Path) -> None:
    (ct / "dataset" / "multi_abnormality_labels" / "valid_predicted_labels.csv").write_text("Volume,Emphysema\nx,1\n")
    with pytest.raises(MedhebError, match=r"valid_predicted_labels\.csv: has no column VolumeName"):
        built(ct, "release")


def test_a_folder_of_another_source(tmp_path: Path) -> None:
    make.han_seg(tmp_path / "in")
    with pytest.raises(MedhebError, match="holds no train_fixed or valid_fixed, not even 6 folders down"):
        built(tmp_path / "in", "release")


SAMPLES = Path(__file__).resolve().parents[3] / "shared" / "samples" / "3d"
REAL = {
    "derived/ctrate_fixed_like.nii.gz": None,
    "totalseg_example_ct_sm.nii.gz": None,
    "niivue_shear.nii.gz": None,
    "derived/ctrate_v1_like.nii.gz": "is not in HU: its rescale intercept of -1024 was never applied",
    "derived/truncated.nii.gz": "ends or breaks at slice",
    "nibabel_example4d.nii.gz": "is 4-dimensional",
    "riimango_little.nii.gz": "is 4-dimensional",
    "riimango_with_extension.nii.gz": "is 4-dimensional",
    "riimango_not-nifti.nii": "is not a readable NIfTI volume",
}


@pytest.mark.skipif(not SAMPLES.is_dir(), reason=f"no real samples at {SAMPLES}")
@pytest.mark.parametrize("sample", REAL)
def test_real_volumes_as_a_scan(ct: Path, sample: str) -> None:
    content = (SAMPLES / sample).read_bytes()
    scan(ct).write_bytes(content if sample.endswith(".gz") else gzip.compress(content))
    for protocol in ("release", "corrected"):
        inventory = built(ct, protocol)
        texts = [text for text in faults(inventory) if f"{BAD}_1.nii.gz" in text]
        built_slices = sum(file.facts["case"] == BAD for file in inventory.of_kind("slice"))
        words = REAL[sample]
        if words is None:
            assert built_slices == 64
        else:
            assert built_slices == 0
            assert any(words in text for text in texts), texts
