"""CheXpert Plus: labels and reports joined by path, valid before train, PNG or DICOM."""

from __future__ import annotations

from pathlib import Path

import make_xrays as make
import pytest

from medheb.core.errors import MedhebError


def test_valid_comes_first_and_lists_are_joined_by_path(tmp_path: Path) -> None:
    make.put_chexpert(tmp_path / "in")
    inventory = make.build("chexpert_plus", tmp_path, tmp_path / "out", test_rows=3)
    folder = tmp_path / "out" / "2D_Images" / "chexpert_plus"
    labelled = make.rows(folder / "selection" / "labels.jsonl")
    assert [row["part"] for row in labelled] == ["valid", "train"], "one label, none unsure"
    assert {row["label"] for row in labelled} == {"Edema"}
    reported = make.rows(folder / "reports" / "test.jsonl")
    assert [row["part"] for row in reported] == ["valid", "train", "train"]
    assert reported[0]["picture"] == "png/valid/patient0/study1/view1_frontal.png"
    assert reported[0]["findings"] == 'findings,\n"of" 0'
    pictures = {file.path: file.facts for file in inventory.of_kind("xray")}
    assert set(pictures) == {row["picture"] for row in [*labelled, *reported]}
    assert {facts["split"] for facts in pictures.values()} == {"test"}
    assert make.digests(inventory, "xray")["png/valid/patient0/study1/view1_frontal.png"] == "6db19cdd1fc0"


def test_only_the_valid_part_and_dicom(tmp_path: Path) -> None:
    make.put_chexpert(tmp_path / "in")
    root = tmp_path / "in"
    (root / "PNG").rename(tmp_path / "png")
    for number in range(2):
        path = root / "DICOM" / f"valid/patient{number}/study1/view1_frontal.dcm"
        make.put_dicom(path, make.grey(number).astype("uint16") * 7)
    inventory = make.build("chexpert_plus", root, tmp_path / "out")
    assert len(inventory.of_kind("xray")) == 2
    assert inventory.of_kind("xray")[0].facts["contrast"] == "smallest to largest"
    assert "no pictures of train in the folder: the test is drawn from the rest" in inventory.notes
    (root / "DICOM").rename(tmp_path / "dicom")
    with pytest.raises(MedhebError, match="has its table, but no pictures"):
        make.build("chexpert_plus", root, tmp_path / "out")


def test_bad_rows_lose_themselves_only(tmp_path: Path) -> None:
    make.put_chexpert(tmp_path / "in")
    labels = tmp_path / "in" / "chexbert_labels" / "impression_fixed.json"
    labels.write_text(labels.read_text() + 'broken\n{"Edema": 1}\n{"path_to_image": "x", "Edema": "yes"}\n')
    table = tmp_path / "in" / "df_chexpert_plus_240401.csv"
    table.write_text(table.read_text() + "valid/../../x.jpg,,Frontal,p,r,f,i,valid\n")
    (tmp_path / "in" / "PNG" / "PNG" / "valid" / "patient0" / "study1" / "view1_frontal.png").write_bytes(b"\0" * 50)
    (tmp_path / "in" / "PNG" / "PNG" / "train" / "patient2" / "study1" / "view1_frontal.png").unlink()
    inventory = make.build("chexpert_plus", tmp_path / "in", tmp_path / "out")
    assert len(inventory.of_kind("xray")) == 4
    assert make.faults(inventory) == [
        "df_chexpert_plus_240401.csv, line 24 has a path that cannot be one of this source",
        "df_chexpert_plus_240401.csv, line 8 has a picture that is not in the folder",
        "impression_fixed.json, line 13 is no object with path_to_image",
        "impression_fixed.json, line 14 is no object with path_to_image",
        "impression_fixed.json, line 15 has a value that is none of 1, 0, -1 and null",
        "view1_frontal.png holds zero bytes only (50)",
    ]
