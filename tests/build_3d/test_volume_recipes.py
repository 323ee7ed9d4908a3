"""Sources of NIfTI and NRRD volumes: places, facts, protocols, and the same result on every road."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import make_volumes as make
import numpy as np
import pytest
from making import faults, root
from PIL import Image

from medheb.build.inventory import BuiltFile, Inventory
from medheb.core.digests import merkle_root
from medheb.imaging.sampling import uniform_indices

ROOM = Path(__file__).resolve().parent
# Slices and lists only: an X-ray may move by a level with the CPU.
DIGESTS = {
    "brats_men release": "4ed2e2ca3697",
    "brats_men corrected": "bd8d6ac27590",
    "brats_ped release": "d21650997d4a",
    "brats_ped corrected": "07549c0961ce",
    "cirrmri600 release": "c17254eef83d",
    "cirrmri600 corrected": "f89907ea2021",
    "ct_rate release": "88e459752312",
    "ct_rate corrected": "0a4cc9bcdc61",
    "han_seg release": "efa38a8cae9b",
    "han_seg corrected": "5ae0bd186c9f",
    "radgenome_chest_ct release": "78d259d3d15b",
    "radgenome_chest_ct corrected": "78d259d3d15b",
    "synthrad2023 release": "a9324a29e878",
    "synthrad2023 corrected": "dcfa40367f21",
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    top = tmp_path_factory.mktemp("sources")
    for dataset, lay in make.LAYS.items():
        (top / dataset).mkdir()
        lay(top / dataset)
    return top


def slices(inventory: Inventory, folder: str) -> list[BuiltFile]:
    return [file for file in inventory.of_kind("slice") if file.path.startswith(f"{folder}/")]


@pytest.mark.parametrize("protocol", ["release", "corrected"])
@pytest.mark.parametrize("dataset", make.LAYS)
def test_pixels_are_the_recorded_ones(files: Path, tmp_path: Path, dataset: str, protocol: str) -> None:
    inventory = make.build(dataset, files / dataset, tmp_path, protocol)
    content = {file.path: file.content for file in inventory.files if file.facts["kind"] in {"slice", "selection"}}
    assert merkle_root(content)[:12] == DIGESTS[f"{dataset} {protocol}"]


def test_file_order_workers_and_hash_seed_do_not_matter(files: Path, tmp_path: Path) -> None:
    ours = {dataset: root(make.build(dataset, files / dataset, tmp_path / "ours")) for dataset in make.LAYS}
    make.backwards(files, tmp_path / "copy")
    command = [sys.executable, str(ROOM / "make_volumes.py"), str(tmp_path / "copy"), str(tmp_path / "theirs")]
    environment = os.environ | {"PYTHONHASHSEED": "7", "TZ": "Asia/Tokyo", "LC_ALL": "C"}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    assert json.loads(done.stdout) == ours


def test_ct_rate_places_and_facts(files: Path, tmp_path: Path) -> None:
    inventory = make.build("ct_rate", files, tmp_path)
    case = slices(inventory, "valid_fixed_sliced/valid_1_b")
    assert [file.facts["slice"] for file in case] == uniform_indices(0, 20, 64)
    assert case[0].path.endswith("/slice_000.png")
    assert case[0].facts == {
        "axis_codes": "LPS",
        "case": "valid_1_b",
        "chest": True,
        "group": "valid_1",
        "height": 32,
        "kind": "slice",
        "label": "Lung nodule",
        "member": "valid_fixed/valid_1/valid_1_b/valid_1_b_1.nii.gz",
        "modality": "CT",
        "mode": "L",
        "slice": 0,
        "slices": 21,
        "slot": 0,
        "split": "valid",
        "transform": "as stored: rows along the first axis, columns along the second",
        "width": 28,
        "window": "-600/1500",
    }
    (xray, *_) = inventory.of_kind("xray")
    assert xray.path == "valid_fixed_drr/valid_1_a/drr_ap.png"
    assert (xray.facts["projector"], xray.facts["case"]) == ("release", "valid_1_a")
    assert slices(inventory, "valid_fixed_sliced/valid_2_a")[0].facts["chest"] is False


def test_ct_rate_corrected_leaves_out_what_is_no_chest_and_shows_as_a_radiologist_does(
    files: Path, tmp_path: Path
) -> None:
    inventory = make.build("ct_rate", files / "ct_rate", tmp_path, "corrected")
    (fault,) = faults(inventory)
    assert "valid_2_a_1.nii.gz: shows no chest, says metadata/no_chest_valid.txt" in fault
    folder = tmp_path / "3D_Images" / "CT_RATE"
    picture = np.asarray(Image.open(folder / "valid_fixed_sliced" / "valid_1_a" / "slice_010.png")).astype(int)
    assert picture.shape == (28, 32)
    assert picture[20, 15] > picture[5, 15] - 5, "spine at the bottom"
    assert picture[8:12, 18].mean() > picture[8:12, 13].mean(), "heart on the right, where the patient's left is"
    (xray, *_) = inventory.of_kind("xray")
    assert xray.facts["projector"] == "cone"
    assert json.loads(str(xray.facts["projection"]))["geometry"]["view"] == "AP"


def test_ct_rate_projector_is_recorded_and_changes_only_the_xrays(files: Path, tmp_path: Path) -> None:
    published = make.build("ct_rate", files / "ct_rate", tmp_path / "a")
    cone = make.build("ct_rate", files / "ct_rate", tmp_path / "b", "release", "cone")
    assert slices(cone, "valid_fixed_sliced") == slices(published, "valid_fixed_sliced")
    assert {file.facts["projector"] for file in cone.of_kind("xray")} == {"cone"}
    assert {file.content for file in cone.of_kind("xray")}.isdisjoint(
        file.content for file in published.of_kind("xray")
    )


@pytest.mark.parametrize("codes", ["RAS", "PIR", "SAL", "LIP"])
def test_corrected_ct_is_the_same_whatever_the_stored_order(tmp_path: Path, codes: str) -> None:
    make.ct_rate(tmp_path / "lps")
    straight = make.build("ct_rate", tmp_path / "lps", tmp_path / "a", "corrected")
    make.ct_rate(tmp_path / "turned")
    for path in sorted((tmp_path / "turned").rglob("*_1.nii.gz")):
        make.reorder(path, codes)
    turned = make.build("ct_rate", tmp_path / "turned", tmp_path / "b", "corrected")
    assert root(turned) == root(straight)
    assert {file.facts["axis_codes"] for file in turned.of_kind("slice")} == {codes}


def test_radgenome_mirrors_folders_and_ignores_its_header(files: Path, tmp_path: Path) -> None:
    inventory = make.build("radgenome_chest_ct", files / "radgenome_chest_ct", tmp_path, "corrected")
    case = slices(inventory, "valid_preprocessed_sliced/valid_1/valid_1a")
    assert len(case) == 64
    picture = Image.open(tmp_path / "3D_Images" / "RadGen_CT" / case[0].path)
    assert picture.size == (28, 32), "rows along the first axis"
    assert "header's orientation is not the scanner's" in str(case[0].facts["transform"])
    assert case[0].facts["group"] == "valid_1"


def test_brats_men_takes_the_test_cases_and_says_what_became_of_the_replacements(files: Path, tmp_path: Path) -> None:
    first = "BraTS-MEN-00001-000"
    published = make.build("brats_men", files / "brats_men", tmp_path / "a")
    corrected = make.build("brats_men", files / "brats_men", tmp_path / "b", "corrected")
    assert {file.path.split("/")[1] for file in slices(published, "BraTS-MEN-Test")} == {first, "BraTS-MEN-00002-000"}
    assert {file.facts["fix_v4"] for file in slices(published, f"BraTS-MEN-Test/{first}")} == {"not applied"}
    assert {file.facts["fix_v4"] for file in slices(corrected, f"BraTS-MEN-Test/{first}")} == {"applied"}
    assert "FIX-V4" in str(slices(corrected, f"BraTS-MEN-Test/{first}")[0].facts["member"])
    assert "replacements of the archive FIX-V4, by cases: applied 1, none 1" in corrected.notes
    listed = (tmp_path / "a" / "3D_Images" / "BraTS_MEN" / "selection" / "test.txt").read_text().split()
    assert listed == [first, "BraTS-MEN-00002-000"]


def test_brats_men_without_the_split_builds_all(files: Path, tmp_path: Path) -> None:
    make.brats_men(tmp_path / "in")
    (tmp_path / "in" / "train_val_test_split.json").unlink()
    inventory = make.build("brats_men", tmp_path / "in", tmp_path / "out")
    assert len(inventory.of_kind("slice")) == 3 * 64
    assert "the copy lacks the reports' split, so all cases are built and count as test" in inventory.notes


def test_images_built_into_the_source_are_no_cases(tmp_path: Path) -> None:
    make.brats_men(tmp_path)
    first = make.build("brats_men", tmp_path, tmp_path)
    again = make.build("brats_men", tmp_path, tmp_path)
    assert not again.refusals
    assert again.files == first.files


def test_slices_of_the_published_script_beside_the_volumes_are_no_cases(tmp_path: Path) -> None:
    make.brats_men(tmp_path / "in")
    case = tmp_path / "in" / "Train_slides" / "t1n" / "BraTS-MEN-00001-000"
    case.mkdir(parents=True)
    (case / "slice_000.png").write_bytes(b"a picture")
    assert not make.build("brats_men", tmp_path / "in", tmp_path / "out").refusals


def test_brats_ped_shows_the_same_levels_of_both_under_corrected(files: Path, tmp_path: Path) -> None:
    def levels(inventory: Inventory, modality: str) -> list[object]:
        return [file.facts["slice"] for file in slices(inventory, f"val/{modality}/BraTS-PED-00002-000")]

    published = make.build("brats_ped", files / "brats_ped", tmp_path / "a")
    corrected = make.build("brats_ped", files / "brats_ped", tmp_path / "b", "corrected")
    assert levels(published, "t1n") != levels(published, "t2w")
    assert levels(corrected, "t1n") == levels(corrected, "t2w") == uniform_indices(0, 69, 64)
    assert slices(published, "train/t1n/BraTS-PED-00001-000")[0].facts["split"] == "train"


def test_cirrmri_healthy_persons_labels_and_splits(files: Path, tmp_path: Path) -> None:
    published = make.build("cirrmri600", files / "cirrmri600", tmp_path / "a")
    corrected = make.build("cirrmri600", files / "cirrmri600", tmp_path / "b", "corrected")
    (healthy, *_) = slices(published, "Cirrhosis_T1_slide/test/healthy_1")
    assert healthy.facts["label"] == "No liver cirrhosis"
    assert slices(published, "Cirrhosis_T1_slide/test/1")[0].facts["label"] == "Severe liver cirrhosis"
    assert not slices(published, "Cirrhosis_T2_slide/test/healthy_1"), "the T2 table lists no healthy person"
    assert len(slices(corrected, "Cirrhosis_T2_slide/test/healthy_1")) == 64
    assert slices(published, "Cirrhosis_T1_slide/train/2")[0].facts["split"] == "train"
    assert slices(corrected, "Cirrhosis_T1_slide/train/2")[0].facts["split"] == "valid", "T2 has the person there"
    assert "4 masks that lie beside the volumes were not read" in published.notes
    cross = tmp_path / "a" / "3D_Images" / "CirrMRI600_Cross" / "Cirrhosis_T2_slide" / "test" / "1" / "slice_063.png"
    assert len(np.unique(np.asarray(Image.open(cross)))) > 2, "no mask"


def test_two_modalities_of_a_case_are_two_series(files: Path, tmp_path: Path) -> None:
    for dataset, folders in (("han_seg", ("CT_slides", "MRI_slides")), ("synthrad2023", ("images/ct", "images/mri"))):
        inventory = make.build(dataset, files / dataset, tmp_path)
        for folder in folders:
            found = slices(inventory, folder)
            assert len({file.facts["case"] for file in found}) * 64 == len(found) > 0
        studies = {file.facts["study"]: file.facts["split"] for file in inventory.of_kind("slice")}
        assert set(studies.values()) <= {"train", "test"}
        assert any("the split is ours" in note for note in inventory.notes)


def test_windows_are_recorded(files: Path, tmp_path: Path) -> None:
    inventory = make.build("synthrad2023", files / "synthrad2023", tmp_path)
    assert slices(inventory, "images/ct/1BA001")[0].facts["window"] == "40/80"
    assert slices(inventory, "images/ct/1PA001")[0].facts["window"] == "35/350"
    assert str(slices(inventory, "images/mri/1PA001")[0].facts["window"]).startswith("percentiles 1-99.5: ")
