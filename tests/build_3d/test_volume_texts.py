"""Reports and questions of the volume sources, as records that name the volumes they are about."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import make_volumes as make
import pytest
from making import faults

from medheb.build.inventory import Inventory

REPORTS = "VolumeName,ClinicalInformation_EN,Findings_EN,Impressions_EN\n"


def rows(inventory: Inventory, out: Path, name: str) -> list[dict[str, Any]]:
    (file,) = [file for file in inventory.files if file.path == name]
    text = (out / inventory.images / file.path).read_text()
    return [json.loads(line) for line in text.splitlines()]


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.fixture
def ct(tmp_path: Path) -> Path:
    make.ct_rate(tmp_path / "in")
    return tmp_path / "in" / "dataset"


def test_ct_reports_of_the_first_reconstruction_without_placeholders(ct: Path, tmp_path: Path) -> None:
    table = REPORTS + 'valid_1_a_1.nii.gz,Not given.,"Nodule, 5 mm.",Stable.\nvalid_1_a_2.nii.gz,,Second.,\n'
    table += (
        "valid_1_b_1.nii.gz,,Not given.,Normal.\nvalid_2_a_1.nii.gz,,Not given.,Not given.\nvalid_7_a_1.nii.gz,,X,\n"
    )
    put(ct / "radiology_text_reports" / "validation_reports.csv", table)
    inventory = make.build("ct_rate", tmp_path / "in", tmp_path / "out")
    common = {"group": "valid_1", "split": "valid"}
    assert rows(inventory, tmp_path / "out", "reports.jsonl") == [
        common
        | {"case": "valid_1_a", "id": "valid_1_a_1.nii.gz", "findings": "Nodule, 5 mm.", "impression": "Stable."},
        common | {"case": "valid_1_b", "id": "valid_1_b_1.nii.gz", "findings": "", "impression": "Normal."},
    ]
    assert "the copy has no table of questions, so there are no records of them" in inventory.notes


def test_ct_questions_in_turn_without_tags(ct: Path, tmp_path: Path) -> None:
    turns = [
        {"from": "human", "value": "<image>\nIs there a nodule?<short_answer>"},
        {"from": "gpt", "value": "Yes, < 5 mm."},
        {"from": "human", "value": "<short_answer> Where?"},
        {"from": "gpt", "value": "Left lung."},
    ]
    entries = [
        {"id": "short_answer_3", "image": "valid_1_a_1.nii.gz", "conversations": turns},
        {"id": "short_answer_4", "image": "valid_1_a_2.nii.gz", "conversations": turns},
    ]
    put(ct / "vqa" / "valid_vqa.json", json.dumps(entries))
    inventory = make.build("ct_rate", tmp_path / "in", tmp_path / "out")
    found = rows(inventory, tmp_path / "out", "questions.jsonl")
    assert [(row["case"], row["kind"], row["query"], row["target"]) for row in found] == [
        ("valid_1_a", "short_answer", "Is there a nodule?", "Yes, < 5 mm."),
        ("valid_1_a", "short_answer", "Where?", "Left lung."),
    ]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("radiology_text_reports/validation_reports.csv", "Volume,Findings_EN\n", "has no column VolumeName"),
        ("vqa/valid_vqa.json", '{"id": 1}', "is no list of conversations"),
        (
            "vqa/valid_vqa.json",
            '[{"image": "valid_1_a_1.nii.gz", "conversations": [{"from": "gpt", "value": "A"}, {}]}]',
            "entry 0: is no conversation of questions and answers in turn",
        ),
    ],
)
def test_a_bad_table_is_refused_and_the_pictures_stay(
    ct: Path, tmp_path: Path, name: str, text: str, message: str
) -> None:
    put(ct / name, text)
    inventory = make.build("ct_rate", tmp_path / "in", tmp_path / "out")
    (fault,) = faults(inventory)
    assert message in fault
    assert len(inventory.of_kind("xray")) == 3


def test_radgenome_sentences_and_questions(tmp_path: Path) -> None:
    make.radgenome(tmp_path / "in")
    tables = tmp_path / "in" / "dataset" / "radgenome_files"
    first, second, other = (f"valid_1_{name}.nii.gz" for name in ("a_1", "b_1", "a_2"))
    put(
        tables / "validation_region_report.csv",
        f"Volumename,Anatomy,Sentence\n{first},lung,Clear.\n{second},,Normal scan.\n{first},,Clear.\n"
        f"{first},heart,Big.\n",
    )
    put(
        tables / "validation_vqa_location.csv",
        f"Volumename,Anatomy,Abnormality\n{first},lung/left lung,nodule\n{other},lung,cyst\n{second},,cyst\n",
    )
    inventory = make.build("radgenome_chest_ct", tmp_path / "in", tmp_path / "out")
    reports = rows(inventory, tmp_path / "out", "reports.jsonl")
    assert [(row["case"], row["text"]) for row in reports] == [
        ("valid_1/valid_1a", "Clear. Big."),
        ("valid_1/valid_1b", "Normal scan."),
    ]
    (question,) = rows(inventory, tmp_path / "out", "questions/location.jsonl")
    assert (question["query"], question["target"]) == ("Where is the nodule?", "left lung")
    assert question["case"] in {file.facts["case"] for file in inventory.of_kind("slice")}


@pytest.mark.parametrize("nested", [False, True])
def test_brats_men_impressions(tmp_path: Path, nested: bool) -> None:
    make.brats_men(tmp_path / "in")
    texts = {f"BraTS-MEN-0000{number}-000": f"Mass {number}." for number in (1, 2, 3)}
    content: Any = (
        {"cases": [{f"{case}-t1c": {"impression": text}} for case, text in texts.items()]} if nested else texts
    )
    (tmp_path / "in" / "BraTS_MEN" / "impression.json").write_text(json.dumps(content))
    inventory = make.build("brats_men", tmp_path / "in", tmp_path / "out")
    found = rows(inventory, tmp_path / "out", "reports.jsonl")
    assert [(row["case"], row["text"]) for row in found] == list(texts.items())[:2]
    assert inventory.of_kind("reports")[0].facts["language"] == "en"
