"""Sets whose pictures are kept as they are: class folders, tables of labels, questions."""

from __future__ import annotations

import json
import os
import sys
from io import BytesIO
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from make_kept import (
    DATASETS,
    lay_aptos,
    lay_brain,
    lay_isic,
    lay_medpix,
    lay_omni,
    lay_path_vqa,
    lay_pmc,
    lay_rfmid,
    picture,
    put,
    question,
)
from PIL import Image

from medheb.build.inventory import Inventory
from medheb.build.run import build_from
from medheb.build.telling import lines_of
from medheb.core.digests import merkle_root, sha256_bytes
from medheb.core.errors import MedhebError


def make(dataset: str, top: Path, out: Path, workers: int = 1) -> Inventory:
    return build_from(DATASETS[dataset], top, out, "release", "release", workers)


def root_of(inventory: Inventory) -> str:
    return merkle_root({file.path: file.content for file in inventory.files})


def test_class_folders_keep_bytes_and_both_parts(tmp_path: Path) -> None:
    lay_brain(tmp_path / "in")
    put(tmp_path / "in" / "archive" / "Testing" / "glioma" / "broken.jpg", picture(1, kind="JPEG")[:80])
    put(tmp_path / "in" / "archive" / "Testing" / "odd" / "a.jpg", picture(1, kind="JPEG"))
    made = make("brain_tumor_mri", tmp_path / "in", tmp_path / "out")
    trained = [file for file in made.of_kind("picture") if file.facts["split"] == "train"]
    assert [file.path for file in trained] == ["datasets/Training/glioma/x.jpg"]
    pictures = [file for file in made.of_kind("picture") if file not in trained]
    assert len(pictures) == 12
    first = pictures[0]
    assert first.path == "datasets/Testing/glioma/glioma_0.jpg"
    original = tmp_path / "in" / "archive" / "Testing" / "glioma" / "glioma_0.jpg"
    assert first.sha256 == sha256_bytes(original.read_bytes())
    assert (first.facts["label"], first.facts["split"], first.facts["mode"]) == ("glioma", "test", "RGB")
    assert {file.facts["label"] for file in pictures} == {"glioma", "meningioma", "no tumor", "pituitary"}
    faults = {Path(refusal.where).name: refusal.fault for refusal in made.refusals}
    assert faults["broken.jpg"] == "is a picture whose end is missing"
    assert faults["odd"] == "holds pictures, but its name is no class"
    assert any("number of pictures: 12, where known versions have 1,311 or 1,600" in note for note in made.notes)


def test_a_missing_class_is_refused(tmp_path: Path) -> None:
    lay_brain(tmp_path / "in")
    for path in (tmp_path / "in" / "archive" / "Testing" / "pituitary").iterdir():
        path.unlink()
    (tmp_path / "in" / "archive" / "Testing" / "pituitary").rmdir()
    with pytest.raises(MedhebError, match="has no class folder pituitary"):
        make("brain_tumor_mri", tmp_path / "in", tmp_path / "out")


def test_equal_pictures_are_on_one_side_of_a_drawn_split(tmp_path: Path) -> None:
    lay_aptos(tmp_path / "in")
    made = make("aptos_2019", tmp_path / "in", tmp_path / "out")
    pictures = made.of_kind("picture")
    assert len(pictures) == 30
    sides: dict[str, set[object]] = {}
    for file in pictures:
        sides.setdefault(file.content, set()).add(file.facts["split"])
    assert all(len(found) == 1 for found in sides.values())
    assert {"train", "test"} == {next(iter(found)) for found in sides.values()}
    assert "pictures whose pixels another one of the source has, too: 15" in made.notes
    assert not any("more than one split" in note for note in made.notes)
    assert "different pictures that occur with more than one label: 15" in made.notes
    listed = (tmp_path / "out" / "2D_Images" / "APTOS" / "selection" / "picture_test.txt").read_text().split("\n")
    assert [file.path for file in pictures if file.facts["split"] == "test"] == listed[:-1]


def test_rows_without_one_class_are_counted_and_bad_ones_named(tmp_path: Path) -> None:
    lay_rfmid(tmp_path / "in")
    made = make("rfmid", tmp_path / "in", tmp_path / "out")
    assert {Path(file.path).name: file.facts["label"] for file in made.of_kind("picture")} == {
        "1.png": "normal",
        "2.png": "diabetic retinopathy",
        "3.png": "age-related macular degeneration",
    }
    assert "rows that name several classes, none, or one without a text, left out: 1" in made.notes
    lay_isic(tmp_path / "isic")
    made = make("isic_2019", tmp_path / "isic", tmp_path / "out")
    assert len(made.of_kind("picture")) == 8, "UNK has no text"
    table = next((tmp_path / "isic").rglob("*.csv"))
    table.write_text(table.read_text().replace("ISIC_0000000,1.0", "ISIC_0000000,2.0"))
    made = make("isic_2019", tmp_path / "isic", tmp_path / "again")
    assert [refusal.fault for refusal in made.refusals] == ["has a label other than 0 and 1: MEL '2.0'"]
    assert lines_of(made, named=False) == ["left out: has a label other than ... (1)"]


@pytest.mark.parametrize(
    ("rows", "fault"),
    [
        ("a,7", "has the class '7'"),
        ("a,1\na,2", "repeats the picture of"),
        ("zz,1", "names a picture that is not there: zz.png"),
        ("empty,1", "is empty (0 bytes)"),
        ("a,", "has no class"),
        ("a,1,2", "has more cells than the header: 3, not 2"),
        ("../secret/evil,1", "which is no file name"),
        ("..\\\\evil,1", "which is no file name"),
    ],
)
def test_bad_rows_of_a_label_table(tmp_path: Path, rows: str, fault: str) -> None:
    put(tmp_path / "in" / "train.csv", f"id_code;diagnosis\nb;2\n{rows.replace(',', ';')}\n")
    put(tmp_path / "in" / "train_images" / "a.png", picture(1))
    put(tmp_path / "in" / "train_images" / "b.png", picture(2))
    put(tmp_path / "in" / "train_images" / "empty.png", b"")
    put(tmp_path / "in" / "secret" / "evil.png", picture(3))
    made = make("aptos_2019", tmp_path / "in", tmp_path / "out")
    assert [Path(file.path).name for file in made.of_kind("picture")] == ["b.png"]
    assert fault in made.refusals[0].fault


def test_questions_keep_their_picture_and_answer(tmp_path: Path) -> None:
    lay_path_vqa(tmp_path / "in")
    made = make("path_vqa", tmp_path / "in", tmp_path / "out")
    tests = [file for file in made.of_kind("picture") if file.facts["split"] == "test"]
    assert tests[0].path == "test_images/test-00000-of-00001-abc_000000.jpg"
    assert tests[4].facts["question"] == "what is 4?"
    assert tests[4].facts["answer"] == "yes"


def test_lettered_answers_become_texts_and_bad_rows_are_named(tmp_path: Path) -> None:
    rows = [
        ("B", ["a", "b"], {"correct_text": None}, picture(1)),
        ("A", ["a", "b"], {"correct_text": "the text"}, picture(2)),
        ("lung", None, {"correct_text": None}, picture(3)),
        ("C", ["a", "b"], {"correct_text": None}, picture(4)),
        ("", None, {"correct_text": None}, picture(5)),
        ("x", None, {"correct_text": None}, b""),
        ("x", None, {"correct_text": None}, b"<html>quota</html>"),
    ]
    table = pa.table(
        {
            "image": [{"bytes": row[3], "path": None} for row in rows],
            "question": ["q"] * len(rows),
            "choices": [row[1] for row in rows],
            "answer": [row[0] for row in rows],
            "question_type": ["open"] * len(rows),
            "metadata": [row[2] for row in rows],
        }
    )
    path = tmp_path / "in" / "benchmark" / "test-00000-of-00001.parquet"
    path.parent.mkdir(parents=True)
    pq.write_table(table, path)
    made = make("radimagenet_vqa", tmp_path / "in", tmp_path / "out")
    assert [file.facts["answer"] for file in made.of_kind("picture")] == ["b", "the text", "lung"]
    faults = [refusal.fault for refusal in made.refusals]
    assert faults[:3] == ["answers C among 2 choices", "has no text in column answer", "is empty (0 bytes)"]
    assert "is a web page, not a picture" in faults[3]
    assert all(refusal.where.endswith(f"row {number}") for number, refusal in enumerate(made.refusals, start=3))


def test_choices_lose_their_letters_and_strange_answers_are_left_out(tmp_path: Path) -> None:
    lay_pmc(tmp_path / "in")
    made = make("pmc_vqa", tmp_path / "in", tmp_path / "out")
    (records,) = made.of_kind("records")
    rows = [
        json.loads(line) for line in (tmp_path / "out" / "2D_Images" / "PMC" / records.path).read_text().splitlines()
    ]
    assert rows[0]["answer"] == "one"
    assert rows[0]["choices"] == ["one", "two", "three", "four"]
    assert rows[0]["picture"] == "images/PMC1_Fig0.jpg"

    inner = tmp_path / "omni" / "OmniMedVQA"
    bad = [
        question(0),
        question(1, gt_answer="PET"),
        question(2, image_path="../../etc/passwd"),
        question(3, image_path="Images/none.png"),
        {"question": "x"},
    ]
    put(inner / "QA_information" / "Open-access" / "a.json", json.dumps(bad))
    put(inner / "QA_information" / "Open-access" / "b.json", '{"a": 1}\n{"a": 2}\n')
    put(inner / "Images" / "Chest CT Scan" / "0.png", picture(0))
    made = make("omnimedvqa", tmp_path / "omni", tmp_path / "out")
    faults = " | ".join(refusal.fault for refusal in made.refusals)
    assert "has an answer that equals none of its choices" in faults
    assert "names a picture whose path is not a path inside its folder" in faults
    assert "is missing" in faults
    assert "lacks one of dataset, question_id" in faults
    assert "holds one JSON value a line, though its name ends in .json" in faults
    assert "questions whose picture cannot be used, left out: 2" in made.notes


def test_a_case_is_on_one_side_and_its_facts_do_not_hide_those_of_the_picture(tmp_path: Path) -> None:
    lay_medpix(tmp_path / "in")
    made = make("medpix_vqa", tmp_path / "in", tmp_path / "out")
    pictures = made.of_kind("picture")
    assert len(pictures) == 12
    assert {(file.facts["mode"], file.facts["source_mode"]) for file in pictures} == {("RGB", "test")}
    sides: dict[object, set[object]] = {}
    for file in pictures:
        sides.setdefault(file.facts["group"], set()).add(file.facts["split"])
    assert len(sides) == 6
    assert all(len(found) == 1 for found in sides.values())


def turned() -> bytes:
    """A JPEG whose EXIF tag asks to turn it."""
    with Image.open(BytesIO(picture(8, kind="JPEG"))) as image:
        stream = BytesIO()
        tags = Image.Exif()
        tags[274] = 6
        image.save(stream, "JPEG", exif=tags)
    return stream.getvalue()


def test_unusual_pictures_are_kept_named_and_counted(tmp_path: Path) -> None:
    lay_brain(tmp_path / "in")
    folder = tmp_path / "in" / "archive" / "Testing" / "glioma"
    odd = {
        "cmyk.jpg": (picture(1, "CMYK", "JPEG"), "stored as CMYK"),
        "palette.png": (picture(2, "P"), "stored as P"),
        "alpha.png": (picture(3, "RGBA"), "stored as RGBA"),
        "deep.png": (picture(4, "I;16"), "stored as I;16"),
        "turned.jpg": (turned(), "an EXIF tag asks to turn it"),
        "wrong.jpg": (picture(6), "PNG under the name of a JPEG file"),
    }
    for name, (content, _) in odd.items():
        put(folder / name, content)
    made = make("brain_tumor_mri", tmp_path / "in", tmp_path / "out")
    facts = {Path(file.path).name: file.facts for file in made.of_kind("picture")}
    built = tmp_path / "out" / "2D_Images" / "Brain-Tumor-MRI" / "datasets" / "Testing" / "glioma"
    for name, (content, word) in odd.items():
        assert facts[name]["unusual"] == word
        assert f"1 picture: {word}" in made.notes
        assert (built / name).read_bytes() == content
    assert "unusual" not in facts["glioma_0.jpg"]


@pytest.mark.skipif(sys.platform == "darwin", reason="its file systems take only names in UTF-8")
def test_names_that_are_not_utf8_are_refused_each(tmp_path: Path) -> None:
    lay_brain(tmp_path / "in")
    folder = os.fsencode(tmp_path / "in" / "archive" / "Testing")
    os.mkdir(folder + b"/caf\xe9")  # noqa: PTH102 - a name of bytes
    for name in (b"glioma/caf\xe9.jpg", b"caf\xe9/x.jpg"):
        with open(os.path.join(folder, name), "wb") as stream:  # noqa: PTH118, PTH123
            stream.write(picture(200, kind="JPEG"))
    made = make("brain_tumor_mri", tmp_path / "in", tmp_path / "out", workers=2)
    told = {refusal.where.rpartition("/")[2]: refusal.fault for refusal in made.refusals}
    assert told == {"caf\\udce9.jpg": "is not named in UTF-8", "caf\\udce9": "holds pictures, but its name is no class"}
    assert len(made.of_kind("picture")) == 13


def test_a_pipe_under_the_name_of_a_picture_is_refused(tmp_path: Path) -> None:
    lay_brain(tmp_path / "in")
    os.mkfifo(tmp_path / "in" / "archive" / "Testing" / "glioma" / "pipe.jpg")
    made = make("brain_tumor_mri", tmp_path / "in", tmp_path / "out")
    assert [refusal.fault for refusal in made.refusals] == ["is no file: a folder, pipe or device"]
    assert len(made.of_kind("picture")) == 13


def test_half_a_character_in_a_question_loses_its_row_only(tmp_path: Path) -> None:
    lay_omni(tmp_path / "in")
    table = next((tmp_path / "in").rglob("Chest CT Scan.json"))
    table.write_text(json.dumps([question(0, question="\ud83d?"), question(1)]))
    made = make("omnimedvqa", tmp_path / "in", tmp_path / "out")
    assert [refusal.fault for refusal in made.refusals] == ["holds half a character, which no UTF-8 has"]
    assert len(made.of_kind("picture")) == 1


def test_an_id_that_stands_twice_loses_its_second_row(tmp_path: Path) -> None:
    lay_omni(tmp_path / "in")
    table = next((tmp_path / "in").rglob("Chest CT Scan.json"))
    table.write_text(json.dumps([question(0), question(1), question(2, question_id="c_0")]))
    made = make("omnimedvqa", tmp_path / "in", tmp_path / "out")
    assert [(refusal.where, refusal.fault) for refusal in made.refusals] == [
        (f"{table}, question 2", f"repeats the id of {table}, question 0")
    ]
    assert len(made.of_kind("picture")) == 2


def test_a_picture_may_be_a_path_beside_its_table(tmp_path: Path) -> None:
    put(tmp_path / "in" / "data" / "pictures" / "1.png", picture(1))
    put(tmp_path / "in" / "2.png", picture(2))
    cells = ["pictures/1.png", "2.png", "../2.png", "3.png"]
    table = pa.table({"image": cells, "question": ["what?"] * 4, "answer": ["yes"] * 4})
    pq.write_table(table, tmp_path / "in" / "data" / "test-00000-of-00001-abc.parquet")
    made = make("path_vqa", tmp_path / "in", tmp_path / "out")
    assert [file.sha256 for file in made.of_kind("picture")] == [sha256_bytes(picture(1)), sha256_bytes(picture(2))]
    assert [refusal.where.rpartition(" ")[2] for refusal in made.refusals] == ["2", "3"]


def test_a_damaged_table_of_a_hub_and_one_of_another_kind_leave_the_others(tmp_path: Path) -> None:
    lay_path_vqa(tmp_path / "in")
    data = tmp_path / "in" / "data"
    put(data / "test-00001-of-00001-abc.parquet", "PAR1 cut")
    pq.write_table(pa.table({"question": ["a"]}), data / "test-00002-of-00001-abc.parquet")
    (data / "extra.parquet").write_bytes((data / "test-00000-of-00001-abc.parquet").read_bytes())
    made = make("path_vqa", tmp_path / "in", tmp_path / "out")
    told = {Path(refusal.where).name: refusal.fault.partition(" (")[0] for refusal in made.refusals}
    assert told == {
        "extra.parquet": "does not begin with the name of a split",
        "test-00001-of-00001-abc.parquet": "is not a parquet file",
        "test-00002-of-00001-abc.parquet": "has no column answer, image",
    }
    assert len([file for file in made.of_kind("picture") if file.facts["split"] == "test"]) == 5


def test_nested_folders_of_pictures_are_entered(tmp_path: Path) -> None:
    lay_pmc(tmp_path / "in")
    (tmp_path / "in" / "images").rename(tmp_path / "in" / "figures")
    (tmp_path / "in" / "images").mkdir()
    (tmp_path / "in" / "figures").rename(tmp_path / "in" / "images" / "figures")
    assert len(make("pmc_vqa", tmp_path / "in", tmp_path / "out").of_kind("picture")) == 3


def test_a_row_of_questions_that_is_too_long_leaves_the_others(tmp_path: Path) -> None:
    lay_pmc(tmp_path / "in")
    table = tmp_path / "in" / "test.csv"
    table.write_text(table.read_text() + "PMC1_Fig0.jpg,q,A,A,B,C,D,A,more\n")
    made = make("pmc_vqa", tmp_path / "in", tmp_path / "out")
    assert [(refusal.where, refusal.fault) for refusal in made.refusals] == [
        (f"{table}, line 5", "has more cells than the header: 9, not 8")
    ]
    assert len(made.of_kind("picture")) == 3
