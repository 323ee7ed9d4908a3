"""Training parts of sources that have one: built where the folder holds it, never what the test shows."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import make_xrays as make
import pyarrow as pa
import pyarrow.parquet as pq
from make_kept import lay_isic, lay_pmc, picture, put

from medheb.build.inventory import Inventory

QUESTIONS = ["study_id", "question_type", "question", "answer"]


def parts(inventory: Inventory, kind: str = "picture") -> dict[str, list[str]]:
    """Paths by split."""
    found: dict[str, list[str]] = {}
    for file in inventory.of_kind(kind):
        found.setdefault(str(file.facts["split"]), []).append(file.path)
    return found


def test_a_second_table_of_labels_is_the_training_part(tmp_path: Path) -> None:
    lay_isic(tmp_path / "in")
    without = make.build("isic_2019", tmp_path / "in", tmp_path / "without")
    names = ["MEL", "NV", "BCC", "AK", "BKL", "DF", "VASC", "SCC"]  # no UNK
    rows = [
        f"ISIC_1{number},{','.join('1.0' if place == number else '0.0' for place in range(8))}" for number in (0, 7)
    ]
    put(tmp_path / "in" / "ISIC_2019_Training_GroundTruth.csv", "\n".join([f"image,{','.join(names)}", *rows]))
    for number in (0, 7):
        put(tmp_path / "in" / "ISIC_2019_Training_Input" / f"ISIC_1{number}.jpg", picture(60 + number, kind="JPEG"))
    made = make.build("isic_2019", tmp_path / "in", tmp_path / "out")
    found = parts(made)
    assert found["test"] == parts(without)["test"]
    assert found["train"] == [f"train/ISIC_2019_Training_Input/ISIC_1{number}.jpg" for number in (0, 7)]
    assert [file.facts["label"] for file in made.of_kind("picture") if file.facts["split"] == "train"] == [
        "melanoma",
        "squamous cell carcinoma",
    ]


def test_training_questions_ask_about_no_picture_of_the_test(tmp_path: Path) -> None:
    lay_pmc(tmp_path / "in")
    columns = ["Figure_path", "Question", "Answer", "Choice A", "Choice B", "Choice C", "Choice D", "Answer_label"]
    rows = [
        [name, f"why {name}", " A:one ", " A:one ", " B:two", " C:three", " D: four ", "A"]
        for name in ("PMC1_Fig1.jpg", "PMC2_Fig0.jpg", "PMC2_Fig1.jpg")
    ]
    with (tmp_path / "in" / "train.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows([columns, *rows])
    for number in range(2):
        put(tmp_path / "in" / "images" / f"PMC2_Fig{number}.jpg", picture(90 + number, kind="JPEG"))
    made = make.build("pmc_vqa", tmp_path / "in", tmp_path / "out")
    assert parts(made)["train"] == ["images/PMC2_Fig0.jpg", "images/PMC2_Fig1.jpg"]
    assert len(parts(made)["test"]) == 3
    assert parts(made, "records") == {"test": ["records/test_0000.jsonl"], "train": ["records/train_0000.jsonl"]}
    lines = (tmp_path / "out" / made.images / "records" / "train_0000.jsonl").read_text().splitlines()
    assert [json.loads(line)["question"] for line in lines] == ["why PMC2_Fig0.jpg", "why PMC2_Fig1.jpg"]
    assert "pictures of training questions left out: the test asks about them: 1" in made.notes


def test_files_of_a_hub_are_the_training_part_by_their_path(tmp_path: Path) -> None:
    for path, level in {"data/benchmark/test-0.parquet": 1, "data/instruct/train-0.parquet": 20}.items():
        table = {
            "image": [{"bytes": picture(level + number), "path": None} for number in range(2)],
            "question": ["What is it?"] * 2,
            "answer": ["lung", "B"],
            "choices": [None, ["liver", "spleen"]],
            "question_type": ["open", "multiple"],
            "metadata": [{"correct_text": None}] * 2,
        }
        put(tmp_path / "in" / path, b"")
        pq.write_table(pa.table(table), tmp_path / "in" / path)
    found = parts(make.build("radimagenet_vqa", tmp_path / "in", tmp_path / "out"))
    assert found == {
        "test": [f"test/images/test-0_00000{number}.png" for number in range(2)],
        "train": [f"train/images/train-0_00000{number}.png" for number in range(2)],
    }


def test_questions_of_the_training_part_are_listed_and_its_pictures_left_alone(tmp_path: Path) -> None:
    make.put_mimic(tmp_path / "in")
    lines = [[50000000 + number, "presence", f"question {number % 3}?", "yes"] for number in range(8)]
    make.put_table(tmp_path / "in" / "vqa" / "medical_cxr_vqa_questions.csv", QUESTIONS, lines)
    made = make.build("mimic_cxr_vqa", tmp_path / "in", tmp_path / "out")
    (listed,) = made.of_kind("training")
    rows = make.rows(tmp_path / "out" / made.images / listed.path)
    assert [row["picture"].split("/")[-2] for row in rows] == ["s50000000", "s50000002", "s50000004", "s50000006"]
    assert {row["group"] for row in rows}.isdisjoint({file.facts["group"] for file in made.of_kind("xray")})
    assert (rows[1]["question"], rows[1]["answer"]) == ("question 2?", "yes")
