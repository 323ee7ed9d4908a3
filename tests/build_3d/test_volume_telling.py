"""What a user is told of cases that are left out, lose a part, or are odd, and where the names are."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import make_volumes as make
import numpy as np
import pytest
from making import faults

from medheb.build.commands import build_folder
from medheb.build.inventory import Inventory, Refusal, Remark, read_header
from medheb.build.source import Projector, ProtocolName
from medheb.build.telling import lines_of, totals
from medheb.core.errors import MedhebError
from medheb.core.status import OK
from medheb.manifest.config import Config
from medheb.manifest.load import Run, load_dataset


def run_of(dataset: str) -> Run:
    """What the command reads of a run."""
    manifest = load_dataset(make.MANIFESTS / f"{dataset}.yaml")
    return cast(Run, SimpleNamespace(config=Config(), datasets={dataset: manifest}))


def told(
    dataset: str, files: Path, capsys: pytest.CaptureFixture[str], protocol: ProtocolName = "release"
) -> list[str]:
    projector: Projector = "release"
    build_folder(run_of(dataset), dataset, files, files.parent / "out", protocol, projector, 1)
    return capsys.readouterr().out.splitlines()


def scan(files: Path, name: str = "valid_1_b") -> Path:
    return files / "dataset" / "valid_fixed" / name[:7] / name / f"{name}_1.nii.gz"


def shear(path: Path) -> None:
    affine = make.LPS.copy()
    affine[1, 2] = 0.6
    make.save(path, make.chest(70), affine)


def test_a_closed_source_tells_kinds_counts_and_where_the_names_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = tmp_path / "in"
    make.ct_rate(files)
    scan(files).write_bytes(b"no volume")
    make.save(scan(files, "valid_2_a"), make.chest() + np.int16(1024))
    lines = told("ct_rate", files, capsys)
    assert (
        "left out: is not a readable NIfTI volume ... (1); is not in HU: its rescale intercept of ... (1)" in lines
    ), lines
    inventory = tmp_path / "out" / "3D_Images" / "CT_RATE" / "ct_rate.inventory.json"
    assert lines[-1] == f"inventory: {inventory}; its terms forbid to name cases here, it names them"
    assert not [line for line in lines if "valid_1" in line or "valid_2" in line]
    assert sorted(Path(refusal.where).name for refusal in read_header(inventory).refusals) == [
        "valid_1_b_1.nii.gz",
        "valid_2_a_1.nii.gz",
    ]


def test_an_open_source_tells_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make.synthrad2023(tmp_path / "in")
    case = tmp_path / "in" / "Task1" / "brain" / "1BA001"
    (case / "ct.nii.gz").unlink()
    make.save(case / "mr.nii.gz", make.head(66, 9), None)
    lines = told("synthrad2023", tmp_path / "in", capsys)
    assert f"left out: {case}/ct.nii.gz: is missing. Complete the copy; the other files are built" in lines
    assert f"odd: {case}/mr.nii.gz: does not say how it lies. Its slices are cut as stored" in lines
    assert lines[-1].endswith("synthrad2023.inventory.json")


def test_a_scan_without_an_xray_is_not_called_lost(tmp_path: Path) -> None:
    make.ct_rate(tmp_path / "in")
    shear(scan(tmp_path / "in"))
    (tmp_path / "in" / "dataset" / "metadata" / "no_chest_valid.txt").unlink()
    inventory = make.build("ct_rate", tmp_path / "in", tmp_path / "out", "corrected")
    (refusal,) = inventory.refusals
    assert refusal.lost == "X-ray"
    assert "cases built without their X-ray: 1; the inventory names each" in inventory.notes
    assert not any("could not be used" in note for note in inventory.notes)
    (line,) = [line for line in lines_of(inventory, named=True) if "valid_1_b" in line and "built" in line]
    assert line.startswith("built without X-ray: ")


def remarks_of(inventory: Inventory, ending: str) -> list[str]:
    return [f"{own.oddity}. {own.done}" for own in inventory.remarks if own.where.endswith(ending)]


def test_odd_volumes_are_listed_by_name_under_both_protocols(tmp_path: Path) -> None:
    files = tmp_path / "in"
    make.ct_rate(files)
    (files / "dataset" / "metadata" / "no_chest_valid.txt").unlink()
    shear(scan(files))
    make.save(scan(files, "valid_2_a"), make.chest(70), None)
    published = make.build("ct_rate", files, tmp_path / "release", "release")
    corrected = make.build("ct_rate", files, tmp_path / "corrected", "corrected")
    for inventory in (published, corrected):
        assert remarks_of(inventory, "valid_1_a_1.nii.gz") == [
            "has fewer slices than pictures, 20 for 64. Some pictures show the same slice"
        ]
        assert remarks_of(inventory, "valid_1_b_1.nii.gz") == [
            "has a sheared grid, as a tilted gantry leaves it. Its slices are cut along the grid"
        ]
        assert "cases or files that were built although odd: 3" in inventory.notes
    assert remarks_of(published, "valid_2_a_1.nii.gz") == ["does not say how it lies. Its slices are cut as stored"]
    assert remarks_of(corrected, "valid_2_a_1.nii.gz") == [
        "does not say how it lies. Its axes are taken to be those of the source's other volumes"
    ]


def test_what_release_builds_and_corrected_refuses_is_listed(tmp_path: Path) -> None:
    make.cirrmri600(tmp_path / "in")
    mask = tmp_path / "in" / "Cirrhosis_T1_3D" / "test_images" / "1.nii.gz"
    make.save(mask, (make.head(70) > 0).astype(np.int16))
    published = make.build("cirrmri600", tmp_path / "in", tmp_path / "out")
    assert remarks_of(published, "T1_3D/test_images/1.nii.gz") == [
        "holds one value in all voxels above 0, as a mask does. Its slices are black, as published"
    ]
    make.ct_rate(tmp_path / "ct")
    make.save(scan(tmp_path / "ct"), np.full((32, 28, 70), -1000, np.int16))
    make.save(scan(tmp_path / "ct", "valid_1_a"), make.chest(70) // 500)
    published = make.build("ct_rate", tmp_path / "ct", tmp_path / "out")
    assert remarks_of(published, "valid_1_b_1.nii.gz") == [
        "holds the one value -1000 everywhere. It is built as published"
    ]
    (remark,) = remarks_of(published, "valid_1_a_1.nii.gz")
    assert re.match(r"is not in HU: 0\.0% of its voxels look like air.*\. It is built as published", remark)


def test_masks_beside_volumes_are_listed_and_never_read(tmp_path: Path) -> None:
    make.cirrmri600(tmp_path / "in")
    for protocol in ("release", "corrected"):
        inventory = make.build("cirrmri600", tmp_path / "in", tmp_path / protocol, protocol)  # type: ignore[arg-type]
        masks = {"/".join(Path(own.where).parts[-2:]) for own in inventory.remarks if "mask" in own.oddity}
        assert masks == {f"{split}_masks/{case}.nii.gz" for split, case in (("test", 1), ("train", 2))}
        assert not [file for file in inventory.of_kind("slice") if "mask" in str(file.facts["member"])]


def listed(out: Path, inventory: Inventory) -> set[str]:
    folder = out / inventory.images / "selection"
    return {line for path in folder.glob("*.txt") for line in path.read_text().split()}


@pytest.mark.parametrize(
    ("dataset", "partner", "whole"),
    [
        ("han_seg", "HaN-Seg/set_1/case_01/case_01_IMG_MR_T1.nrrd", set()),
        ("brats_ped", f"{make.PED}ValidationData/BraTS-PED-00002-000/BraTS-PED-00002-000-t2w.nii.gz", {"00001"}),
        ("synthrad2023", "Task1/pelvis/1PA001/mr.nii.gz", {"1BA001"}),
    ],
)
@pytest.mark.parametrize("protocol", ["release", "corrected"])
def test_lists_of_pairs_hold_whole_pairs(
    dataset: str, partner: str, whole: Sequence[str], protocol: ProtocolName, tmp_path: Path
) -> None:
    make.LAYS[dataset](tmp_path / "in")
    (tmp_path / "in" / partner).write_bytes(b"junk")
    inventory = make.build(dataset, tmp_path / "in", tmp_path / "out", protocol)
    names = {name.removeprefix("BraTS-PED-").removesuffix("-000") for name in listed(tmp_path / "out", inventory)}
    assert names == set(whole)
    assert any(re.match("1 cases lack one of .*, so no list has them", note) for note in inventory.notes)
    assert len(faults(inventory)) == 1


def test_deepdrr_that_does_not_run_here_is_refused_before_anything_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make.ct_rate(tmp_path / "in")
    monkeypatch.setenv("MEDHEB_DEEPDRR_PYTHON", str(tmp_path / "none"))
    with pytest.raises(MedhebError, match=r"^X-ray projector deepdrr: .*none does not start .*\. Install envs/deepdrr"):
        make.build("ct_rate", tmp_path / "in", tmp_path / "out", "corrected", "deepdrr")
    assert not list((tmp_path / "out").rglob("*"))


@pytest.mark.parametrize(
    ("dataset", "inner"),
    [
        ("ct_rate", "dataset/valid_fixed"),
        ("radgenome_chest_ct", "dataset/valid_preprocessed"),
        ("brats_ped", f"{make.PED}ValidationData"),
        ("synthrad2023", "Task1/brain"),
    ],
)
def test_the_folder_of_a_part_will_do(dataset: str, inner: str, tmp_path: Path) -> None:
    """It is the whole source's files of this part: pictures and labels are those of a build from further up."""
    make.LAYS[dataset](tmp_path / "in")
    above = {file.path: file for file in make.build(dataset, tmp_path / "in", tmp_path / "above").of_kind("slice")}
    inside = make.build(dataset, tmp_path / "in" / inner, tmp_path / "out")
    assert inside.of_kind("slice")
    assert all(above[file.path] == file for file in inside.of_kind("slice"))


def test_a_renamed_folder_of_a_part_is_told_what_to_do(tmp_path: Path) -> None:
    make.ct_rate(tmp_path / "in")
    (tmp_path / "in" / "dataset" / "valid_fixed").rename(tmp_path / "scans")
    with pytest.raises(MedhebError, match=r"holds no train_fixed or valid_fixed.* Give the folder of CT-RATE"):
        make.build("ct_rate", tmp_path / "scans", tmp_path / "out")


def test_a_download_that_is_still_packed(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "Task1.zip").write_bytes(b"PK")
    with pytest.raises(MedhebError, match=r"or a parent of it\. Unpack its archives first, such as Task1\.zip"):
        make.build("synthrad2023", tmp_path / "in", tmp_path / "out")


def test_tables_that_the_volumes_host_does_not_have(tmp_path: Path) -> None:
    make.cirrmri600(tmp_path / "in")
    (tmp_path / "in" / "Cirrhosis_T2_slide_folders.csv").unlink()
    with pytest.raises(MedhebError) as caught:
        make.build("cirrmri600", tmp_path / "in", tmp_path / "out")
    assert "holds no Cirrhosis_T2_slide_folders.csv" in caught.value.fault
    assert "comes from the benchmark's own script repository" in caught.value.remedy
    assert "`medheb fetch cirrmri600`" in caught.value.remedy
    assert re.search(r"https://\S+Cirrhosis_T2_slide_folders\.csv", caught.value.remedy)
    assert not list((tmp_path / "out").rglob("*")), "a build that did not begin leaves nothing"


def test_totals_and_lines_are_cut() -> None:
    refusals = [Refusal(where=f"c{number}", fault="is missing", remedy="Get it") for number in range(12)]
    remark = Remark(where="c20", oddity="has 3 slices", done="Built")
    inventory = Inventory(
        dataset="x", images="3D_Images/x", recipe="x", recipe_version=1, status=OK,
        refusals=tuple(refusals), remarks=(remark,),
    )  # fmt: skip
    assert totals(refusals, []) == ["cases, files or rows that could not be used: 12; the inventory names each"]
    named = lines_of(inventory, named=True)
    assert named[9] == "left out: c9: is missing. Get it"
    assert named[10:] == ["left out: ... and 2 more", "odd: c20: has 3 slices. Built"]
    assert lines_of(inventory, named=False) == ["left out: is missing (12)", "odd: another fault: Built (1)"]
