"""MRNet: layout, labels, odd tables, damaged cases."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from make_stacks import MARKS, stack
from make_stacks import mrnet as lay
from making import built, faults, root

from medheb.build.inventory import Fact, Inventory
from medheb.core.errors import MedhebError


def labels(inventory: Inventory) -> dict[Fact, Fact]:
    return {file.facts["case"]: file.facts.get("label") for file in inventory.of_kind("slice")}


def test_ten_slices_of_each_stack_at_the_cards_place(tmp_path: Path) -> None:
    lay(tmp_path / "in")
    inventory = built("mrnet", tmp_path / "in", tmp_path / "out")
    case = [file for file in inventory.of_kind("slice") if file.facts["case"] == "1131"]
    assert len(case) == 8 + 10 + 10
    coronal = [file for file in case if file.facts["view"] == "coronal"]
    assert [file.facts["slice"] for file in coronal] == [0, 1, 3, 5, 7, 8, 10, 12, 14, 16]
    assert coronal[2].path == "valid_images/coronal/1131/slice_02_orig_003.png"
    assert (tmp_path / "out" / "3D_Images" / "MRNet" / coronal[2].path).is_file()
    assert {file.facts["split"] for file in case} == {"test"}
    assert coronal[0].facts["window"] == "stored 8-bit values"
    assert "stacks with fewer than 10 slices, given whole: 5" in inventory.notes


def test_label_rule(tmp_path: Path) -> None:
    lay(tmp_path)
    inventory = built("mrnet", tmp_path, tmp_path / "out")
    assert labels(inventory) == {
        "1130": "healthy",
        "1131": "other diseases",
        "1132": "ACL tear",
        "1133": "meniscal tear",
        "1134": None,
    }
    assert "test cases without a label, which no label task can use: 1" in inventory.notes
    table = (tmp_path / "out" / "3D_Images" / "MRNet" / "selection" / "test.csv").read_text().splitlines()
    assert table[0] == "case,label"
    assert table[-1] == "1134,"


def test_redivis_names_and_headers_give_the_same(tmp_path: Path) -> None:
    lay(tmp_path / "a")
    lay(tmp_path / "b" / "kaggle", name="{part}_{finding}.csv", redivis=True)
    first = built("mrnet", tmp_path / "a", tmp_path / "out_a")
    assert built("mrnet", tmp_path / "b", tmp_path / "out_b") == first


def test_same_for_any_order_of_files_workers_and_protocol(tmp_path: Path) -> None:
    lay(tmp_path / "a")
    lay(tmp_path / "b", tuple(reversed(MARKS)))
    first = built("mrnet", tmp_path / "a", tmp_path / "out_a", "release")
    second = built("mrnet", tmp_path / "b", tmp_path / "out_b", workers=2)  # new processes have another hash seed
    assert root(first) == root(second) == "0e047e7a31abd5ed"


def test_values_that_are_not_8_bit(tmp_path: Path) -> None:
    folder = lay(tmp_path, ["1130"])
    values = stack(3, 1, "int16") * 100
    values[1] //= 10
    np.save(folder / "valid" / "axial" / "1130.npy", values)
    release = built("mrnet", tmp_path, tmp_path / "r", "release")
    corrected = built("mrnet", tmp_path, tmp_path / "c")
    windows = [
        {file.facts["window"] for file in made.of_kind("slice") if file.facts["view"] == "axial"}
        for made in (release, corrected)
    ]
    assert windows == [{"minimum to maximum of each slice"}, {"minimum to maximum of the stack"}]
    assert root(release) != root(corrected)


def test_bad_cases_are_named_and_the_others_stay(tmp_path: Path) -> None:
    folder = lay(tmp_path)
    axial = folder / "valid" / "axial"
    axial.joinpath("1130.npy").write_bytes(axial.joinpath("1130.npy").read_bytes()[:-20])
    axial.joinpath("1131.npy").unlink()
    np.save(axial / "1132.npy", np.zeros((4, 4), np.uint8))
    np.save(axial / "1133.npy", np.zeros((4, 4, 4), np.uint8))
    inventory = built("mrnet", tmp_path, tmp_path / "out")
    assert set(labels(inventory)) == {"1134"}
    found = faults(inventory)
    assert any("1130.npy" in text and "more than it can hold" in text for text in found)
    assert any("axial/1131.npy: is missing, though other stacks of the case are there" in text for text in found)
    assert any("1132.npy: has shape (4, 4), not slices x rows x columns" in text for text in found)
    assert any("1133.npy: holds the one value 0 everywhere" in text for text in found)


def test_release_keeps_what_the_published_script_keeps(tmp_path: Path) -> None:
    folder = lay(tmp_path, ["1130"])
    (folder / "valid" / "axial" / "1130.npy").write_bytes(b"no array")
    np.save(folder / "valid" / "sagittal" / "1131.npy", np.arange(48, dtype=np.uint8).reshape(3, 4, 4))
    np.save(folder / "valid" / "coronal" / "1130.npy", np.full((3, 4, 4), 7, np.int16))
    inventory = built("mrnet", tmp_path, tmp_path / "out", "release")
    assert {file.facts["view"] for file in inventory.of_kind("slice")} == {"coronal", "sagittal"}
    assert any("1130.npy: is not a NumPy array" in text for text in faults(inventory))
    assert "stacks that cases lack: 3" in inventory.notes
    partly = {Path(refusal.where).parts[-2]: refusal.lost for refusal in inventory.refusals if refusal.lost}
    assert partly == {"axial": "axial stack", "coronal": "coronal stack"}


def test_a_case_of_which_nothing_was_built_lacks_no_single_stack(tmp_path: Path) -> None:
    folder = lay(tmp_path / "in", ["1130", "1131"])
    for plane in ("coronal", "sagittal"):
        (folder / "valid" / plane / "1131.npy").unlink()
    (folder / "valid" / "axial" / "1131.npy").write_bytes(b"junk")
    inventory = built("mrnet", tmp_path / "in", tmp_path / "out", "release")
    assert [(Path(refusal.where).parts[-2:], refusal.lost) for refusal in inventory.refusals] == [
        (("axial", "1131.npy"), None),
        (("coronal", "1131.npy"), None),
        (("sagittal", "1131.npy"), None),
    ]


@pytest.mark.parametrize(
    ("rows", "fault"),
    [
        ("1130,0\n1131,2\n", "row 2: is not a case number and 0 or 1"),
        ("id,label\n1130,0\n", "row 1: is not a case number and 0 or 1"),
        ("1130,0\n1130,1\n", "row 2: names a case again"),
        ("1130,0,1\n", "row 1: is not a case number and 0 or 1"),
    ],
)
def test_bad_tables_are_refused(tmp_path: Path, rows: str, fault: str) -> None:
    folder = lay(tmp_path, ["1130"])
    (folder / "valid-acl.csv").write_text(rows)
    with pytest.raises(MedhebError, match=fault):
        built("mrnet", tmp_path, tmp_path / "out")


def test_two_tables_of_one_finding_are_refused(tmp_path: Path) -> None:
    folder = lay(tmp_path, ["1130"])
    (folder / "valid_acl.csv").write_text("1130,0\n")
    with pytest.raises(MedhebError, match=r"holds both valid-acl\.csv and valid_acl\.csv"):
        built("mrnet", tmp_path, tmp_path / "out")


def test_contradicting_marks_leave_the_pictures_without_a_label(tmp_path: Path) -> None:
    folder = lay(tmp_path, ["1130"])
    (folder / "valid-acl.csv").write_text("1130,1\n")
    inventory = built("mrnet", tmp_path, tmp_path / "out")
    assert labels(inventory) == {"1130": None}
    assert any("1130.npy: has a tear but is not abnormal" in text for text in faults(inventory))


def test_a_case_that_a_table_lacks(tmp_path: Path) -> None:
    folder = lay(tmp_path, ["1130", "1131"])
    (folder / "valid-acl.csv").write_text("1130,0\n")
    inventory = built("mrnet", tmp_path, tmp_path / "out")
    assert any("1131.npy: has no row in the table of acl" in text for text in faults(inventory))
    assert labels(inventory) == {"1130": "healthy", "1131": None}


def test_a_folder_that_is_not_mrnet(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    with pytest.raises(MedhebError, match="holds no valid/axial or"):
        built("mrnet", tmp_path / "in", tmp_path / "out")
