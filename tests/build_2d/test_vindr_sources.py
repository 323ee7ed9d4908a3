"""VinDr-CXR and VinDr-Mammo: tables and pictures of both kinds, boxes of several readers, bad rows and bad files."""

from __future__ import annotations

from pathlib import Path

import make_xrays as make
import numpy as np
import pytest
from PIL import Image

from medheb.core.errors import MedhebError

A, N, ILD = "Aortic enlargement", "Nodule/Mass", "ILD"
TRAIN: list[list[object]] = [
    ["tr1", "R1", N, 10, 10, 50, 50],
    ["tr1", "R2", N, 12.9, 12.9, 52.2, 52.2],
    ["tr1", "R3", A, 60, 60, 70, 70],
    ["tr2", "R1", "No finding", "", "", "", ""],
]
TEST: list[list[object]] = [
    ["te1", "", ILD, 0, 0, 5, 5],
    ["te1", "", N, 100, 70, 140, 100],
    ["te2", "", N, 1, 1, 40, 40],
]
RESIZED = ["patient_id", "image_id", "finding_categories", *(f"resized_{name}" for name in make.MAMMO[4:8]), "split"]


def test_official_dicom_becomes_pictures_and_crops(tmp_path: Path) -> None:
    make.put_vindr(tmp_path / "in", TRAIN, TEST)
    inventory = make.build("vindr_cxr", tmp_path / "in", tmp_path / "out")
    assert make.digests(inventory, "crop") == {
        "crop/te1_15_0.png": "9ce9bc7fc650",
        "crop/te1_9_0.png": "c5711173ccab",
        "crop/te2_15_0.png": "c50525705fb7",
        "crop/tr1_0_0.png": "4b8271de973d",
        "crop/tr1_15_0.png": "93bf961ad208",
    }
    files = make.by_path(inventory)
    picture = files["VinDr-CXR-dataset/ai-vinbigdata/test/te1.png"].facts
    assert (picture["label"], picture["bits_stored"], picture["contrast"]) == (
        f"{ILD} | {N}",
        12,
        "smallest to largest",
    )
    assert "VinDr-CXR-dataset/ai-vinbigdata/train/tr2.png" not in files, "no finding, no region"
    crop = files["crop/tr1_15_0.png"].facts
    assert (crop["box"], crop["split"], crop["group"]) == ("10 10 52 52", "train", "tr1")
    assert crop["member"] == "annotations_train.csv, line 2; annotations_train.csv, line 3"
    assert files["crop/te1_15_0.png"].facts["box"] == "92 62 120 90", "cut at the border, then grown inwards"
    folder = tmp_path / "out" / "2D_Images" / "VindrCXR"
    assert [row["label"] for row in make.rows(folder / "selection" / "train.jsonl")] == [A, N]
    assert (folder / "selection" / "labels.csv").read_text().splitlines()[1:] == [f"0,{A}", f"9,{ILD}", f"15,{N}"]


def test_release_takes_the_third_party_s_pictures_as_they_are(tmp_path: Path) -> None:
    make.put_vindr(tmp_path / "in", TRAIN, TEST)
    folder = tmp_path / "in" / "VinDr-CXR-dataset" / "ai-vinbigdata"
    for split, names in (("train", ("tr1",)), ("test", ("te1", "te2"))):
        for place, name in enumerate(names):
            make.put_picture(folder / split / f"{name}.png", make.grey(place).astype(np.uint16) * 200)
    release = make.build("vindr_cxr", tmp_path / "in", tmp_path / "release", "release")
    assert make.digests(release, "crop") == {
        "crop/te1_1_0.png": "8bc6bfda7eb6",
        "crop/te1_2_0.png": "bea6aee8ff14",
        "crop/te2_2_0.png": "cf6e20c6a3dd",
        "crop/tr1_0_0.png": "789e8695d4c0",
        "crop/tr1_2_0.png": "984b9a2d9898",
    }
    with Image.open(tmp_path / "release" / "2D_Images" / "VindrCXR" / "crop" / "te2_2_0.png") as crop:
        assert crop.mode == "I;16"
    for split in ("train", "test"):
        (tmp_path / "in" / split).rename(tmp_path / f"dicom-{split}")
    corrected = make.build("vindr_cxr", tmp_path / "in", tmp_path / "corrected")
    assert "pictures: more than 8 bits, stretched to 8: 3" in corrected.notes
    with Image.open(tmp_path / "corrected" / "2D_Images" / "VindrCXR" / "crop" / "te2_15_0.png") as crop:
        assert crop.mode == "L"


def test_bad_rows_lose_themselves_only(tmp_path: Path) -> None:
    bad: list[list[object]] = [
        ["te1", "", "Gout", 1, 1, 9, 9],
        ["te1", "", N, 5, 5, 5, 9],
        ["te1", "", N, "nan", 5, 5, 9],
        ["te1", "", N, "left", 5, 5, 9],
        ["te1", "", N, 500, 500, 600, 600],
        ["te1", "", N, 50, 40, 10, 20],
        ["../te1", "", N, 1, 1, 9, 9],
        ["te1", "", N, 1, 1, 9, 9, "more", "cells"],
        ["te3", "", N, 9, 9, 9, 9],
    ]
    make.put_vindr(tmp_path / "in", TRAIN, [])
    for name in ("te1", "te2", "te3"):
        make.put_dicom(tmp_path / "in" / "test" / f"{name}.dicom", make.grey(1))
    make.put_table(tmp_path / "in" / "annotations" / "annotations_test.csv", make.VINDR, [*TEST, *bad], delimiter=";")
    table = tmp_path / "in" / "annotations" / "annotations_test.csv"
    table.write_bytes(b"\xef\xbb\xbf" + table.read_bytes().replace(b"\n", b" \r\n"))
    inventory = make.build("vindr_cxr", tmp_path / "in", tmp_path / "out")
    name = "annotations_test.csv, line"
    assert make.faults(inventory) == [
        f"{name} 11 has a name that cannot be a file's: letters, digits, dot, dash and underscore are allowed",
        f"{name} 12 has more cells than the header: 9, not 7",
        f"{name} 13 has a box without area: (9, 9, 9, 9)",
        f"{name} 5 has a finding outside the vocabulary",
        f"{name} 6 has a box without area: (5, 5, 5, 9)",
        f"{name} 7 has a corner that is no pixel position: x1 'nan'",
        f"{name} 8 has a corner that is no number: x1 'left'",
        f"{name} 9 has a box outside of its picture: (500, 500, 600, 600) in 120 x 90",
        "te3 has no box that can be used",
    ]
    swapped = [file for file in inventory.of_kind("crop") if file.facts["box"] == "10 16 50 44"]
    assert len(swapped) == 1, "corners put in order"


def test_bad_files_lose_themselves_only(tmp_path: Path) -> None:
    names = [f"te{number}" for number in range(1, 8)]
    make.put_vindr(tmp_path / "in", TRAIN, [[name, "", N, 1, 1, 40, 40] for name in names])
    folder = tmp_path / "in" / "test"
    make.put_dicom(folder / "te1.dicom", make.grey(1), PixelData=None)
    make.put_dicom(folder / "te2.dicom", make.grey(1), Modality="CT")
    (folder / "te3.dicom").write_bytes((folder / "te3.dicom").read_bytes()[:900])
    (folder / "te4.dicom").write_bytes(b"")
    (folder / "te5.dicom").unlink()
    make.put_picture(folder / "te6.png", make.grey(1))
    (folder / "te6.png").rename(folder / "te6.dicom")
    inventory = make.build("vindr_cxr", tmp_path / "in", tmp_path / "out")
    assert {file.facts["case"] for file in inventory.of_kind("xray")} == {"tr1", "te7"}
    found = make.faults(inventory)
    assert len(found) == 6
    assert found[4] == "te5.dicom is missing"
    assert "is of modality CT" in found[1]


def test_a_picture_in_two_splits(tmp_path: Path) -> None:
    make.put_vindr(tmp_path / "in", [*TRAIN, ["te1", "R1", N, 1, 1, 40, 40]], TEST)
    corrected = make.build("vindr_cxr", tmp_path / "in", tmp_path / "corrected")
    assert make.faults(corrected) == [
        "annotations_test.csv, line 3 has a picture that other rows put into another split or folder"
    ]
    release = make.build("vindr_cxr", tmp_path / "in", tmp_path / "release", "release")
    assert {file.facts["split"] for file in release.files if file.facts.get("case") == "te1"} == {"test"}


def test_a_copy_with_the_test_only(tmp_path: Path) -> None:
    make.put_vindr(tmp_path / "in", TRAIN, TEST)
    (tmp_path / "in" / "train").rename(tmp_path / "elsewhere")
    inventory = make.build("vindr_cxr", tmp_path, tmp_path / "out")
    assert "pictures of split train left out: the folder has no pictures of that split: 1" in inventory.notes
    assert not inventory.refusals
    (tmp_path / "in" / "test").rename(tmp_path / "elsewhere too")
    with pytest.raises(MedhebError, match="has neither folders train and test with DICOM files nor VinDr-CXR-dataset"):
        make.build("vindr_cxr", tmp_path / "in", tmp_path / "out")


def test_mammograms_of_the_official_copy(tmp_path: Path) -> None:
    lines = [
        ["s1", "q", "m1", "['Mass', 'Suspicious Calcification']", 10, 10, 60, 60, "training"],
        ["s1", "q", "m1", "['Mass']", 12, 12, 58, 58, "training"],
        ["s1", "q", "m22", "['No Finding']", "", "", "", "", "training"],
        ["s2", "q", "m333", "['Asymmetry', 'No Finding']", 3, 3, 9, 9, "test"],
        ["s2", "q", "m333", "__import__('os').getcwd()", 3, 3, 9, 9, "test"],
        ["s2", "q", "m333", "['Mass']", 3, 3, 9, 9, "maybe"],
    ]
    make.put_mammo(tmp_path / "in", lines)
    inventory = make.build("vindr_mammo", tmp_path / "in", tmp_path / "out")
    assert make.digests(inventory, "crop") == {
        "crop/m1_4_0.png": "d9fe21b00d7f",
        "crop/m1_8_0.png": "d9fe21b00d7f",
        "crop/m333_1_0.png": "7c4f97f107c7",
    }
    picture = make.by_path(inventory)["images_png/s1/m1.png"].facts
    assert (picture["laterality"], picture["label"]) == ("left", "Mass | Suspicious Calcification")
    assert make.faults(inventory) == [
        "finding_annotations.csv, line 6 has finding categories that are no list of texts",
        "finding_annotations.csv, line 7 has a split that is neither training nor test",
    ]


def test_the_table_is_trusted_more_than_the_header_for_side_and_view(tmp_path: Path) -> None:
    make.put_mammo(tmp_path / "in", [["s1", "q", "m1", "['Mass']", 10, 10, 60, 60, "training"]])
    table = tmp_path / "in" / "finding_annotations.csv"
    header, row = table.read_text().splitlines()
    table.write_text(f"{header},laterality,view_position\n{row},R,MLO\n")
    inventory = make.build("vindr_mammo", tmp_path / "in", tmp_path / "out")
    for file in (make.by_path(inventory)["images_png/s1/m1.png"], *inventory.of_kind("crop")):
        assert (file.facts["laterality"], file.facts["view"]) == ("right", "MLO")


def test_mammograms_of_the_third_party_win_in_release(tmp_path: Path) -> None:
    make.put_mammo(tmp_path / "in", [["s1", "q", "m1", "['Mass']", 10, 10, 60, 60, "training"]])
    table = tmp_path / "in" / "vindr_detection_v1_folds.csv"
    make.put_table(table, RESIZED, [["p7", "m1.png", "['Mass']", 5, 5, 40, 40, "valid"]])
    make.put_picture(tmp_path / "in" / "images_png" / "p7" / "m1.png", make.grey(3))
    release = make.build("vindr_mammo", tmp_path / "in", tmp_path / "release", "release")
    assert {file.path for file in release.of_kind("crop")} == {"crop/m1_0_0.png"}
    assert release.of_kind("crop")[0].facts["split"] == "test", "published: whatever is not training"
    corrected = make.build("vindr_mammo", tmp_path / "in", tmp_path / "corrected")
    assert corrected.of_kind("crop")[0].facts["box"] == "10 10 60 60"
    (tmp_path / "in" / "images").rename(tmp_path / "images")
    (tmp_path / "in" / "images_png").rename(tmp_path / "images_png")
    with pytest.raises(MedhebError, match="has a table without its pictures"):
        make.build("vindr_mammo", tmp_path / "in", tmp_path / "corrected")


def test_the_cap_takes_every_picture_before_a_second_region(tmp_path: Path) -> None:
    test = [[f"te{number}", "", label, 1, 1, 40, 40] for number in range(4) for label in (A, N, ILD)]
    make.put_vindr(tmp_path / "in", [], test)
    for protocol in ("release", "corrected"):
        make.build("vindr_cxr", tmp_path / "in", tmp_path / protocol, protocol, test_rows=6)  # type: ignore[arg-type]
        chosen = make.rows(tmp_path / protocol / "2D_Images" / "VindrCXR" / "selection" / "test.jsonl")
        assert len(chosen) == 6
        assert len({row["picture"] for row in chosen}) == 4
