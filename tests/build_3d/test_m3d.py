"""M3D: frames by number, reports by the publisher's rule, lists and questions, damaged cases."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from make_stacks import AXIAL, REPORT, frames, question, tables
from make_stacks import m3d as lay
from making import built, faults, lock, root

from medheb.build.inventory import Inventory
from medheb.build.m3d import report_of
from medheb.core.errors import MedhebError


def lines(out: Path, name: str) -> list[dict[str, Any]]:
    text = (out / "3D_Images" / "M3D" / name).read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def of_case(inventory: Inventory, case: str) -> list[Any]:
    return [file for file in inventory.of_kind("slice") if file.facts["case"] == case]


def test_frames_keep_their_names_and_go_by_number(tmp_path: Path) -> None:
    lay(tmp_path)
    inventory = built("m3d", tmp_path, tmp_path / "out")
    axial = sorted(of_case(inventory, f"005461/{AXIAL}"), key=lambda file: file.facts["slot"])
    assert len(axial) == 64
    assert [file.facts["slice"] for file in axial][:8] == [1, 2, 4, 5, 7, 8, 10, 12]
    assert axial[0].path == f"ct_quizze/005461/{AXIAL}/1.jpeg"
    assert axial[-1].path == f"ct_quizze/005461/{AXIAL}/100.png"
    assert {file.facts["split"] for file in axial} == {"test"}
    assert {file.facts["split"] for file in of_case(inventory, "005470/Axial")} == {"train"}
    assert "2 of 3 series have fewer than 64 frames and are given whole" in inventory.notes
    assert not [file for file in inventory.files if "000001" in file.path], "ct_case is another part"


def test_release_places_every_frame_unchanged(tmp_path: Path) -> None:
    cases = lay(tmp_path)
    inventory = built("m3d", tmp_path, tmp_path / "out", "release")
    axial = of_case(inventory, f"005461/{AXIAL}")
    assert len(axial) == 100
    assert sum("slot" in file.facts for file in axial) == 64
    placed = tmp_path / "out" / "3D_Images" / "M3D" / axial[0].path
    assert placed.read_bytes() == (cases / "005461" / AXIAL / axial[0].path.rsplit("/", 1)[1]).read_bytes()


@pytest.mark.parametrize(
    ("text", "report"),
    [
        (REPORT, "Mass in the liver.  discussion: None."),
        ("study_findings: \n\ndiscussion:\nA cyst.", "discussion: A cyst."),
        ("study_findings: ok\n", "study_findings: ok"),
        ("presentation: x\ndiscussion: a tumour", "presentation: x discussion: a tumour"),
        ("x\ndiscussion:\nlong enough\nstudy_findings: -", "long enough study_findings: -"),
    ],
)
def test_the_publishers_report_rule(text: str, report: str) -> None:
    assert report_of(text) == report


def test_reports_lists_and_questions(tmp_path: Path) -> None:
    lay(tmp_path)
    inventory = built("m3d", tmp_path, tmp_path / "out")
    first, second = lines(tmp_path / "out", "reports.jsonl")
    assert first["series"] == [f"ct_quizze/005461/{AXIAL}", "ct_quizze/005461/Coronal"]
    assert second["text"] == "Mass in the liver.  discussion: None."
    [asked] = lines(tmp_path / "out", "questions/test.jsonl")
    assert asked == {
        "id": "0",
        "case": "005461",
        "group": "005461",
        "series": f"ct_quizze/005461/{AXIAL}",
        "kind": "plane",
        "query": "Which plane?",
        "target": "Axial",
        "choices": ["Axial", "Coronal", "Sagittal", "None"],
    }
    listed = (tmp_path / "out/3D_Images/M3D/selection/test.txt").read_text(encoding="utf-8")
    assert listed.split("\n") == [f"ct_quizze/005461/{AXIAL}", ""]
    for note in (
        "cases whose report is that of another case: 1",
        "cases whose one report belongs to several series: 1",
        "series in the publisher's list test that are not there: 1",
        "questions in M3D_VQA_test.csv of series that are not there: 1",
    ):
        assert note in inventory.notes


def test_questions_of_the_training_part_are_read_where_their_table_is_there(tmp_path: Path) -> None:
    lay(tmp_path / "in")
    without = built("m3d", tmp_path / "in", tmp_path / "without")
    assert not (tmp_path / "without/3D_Images/M3D/questions/train.jsonl").exists()
    assert not [note for note in without.notes if "M3D_VQA_train" in note]
    table = (tmp_path / "in" / "M3D_VQA_test.csv").read_bytes()
    (tmp_path / "in" / "M3D_VQA_train.csv").write_bytes(table)
    inventory = built("m3d", tmp_path / "in", tmp_path / "out")
    assert lines(tmp_path / "out", "questions/train.jsonl") == lines(tmp_path / "out", "questions/test.jsonl")
    assert "questions in M3D_VQA_train.csv of series that are not there: 1" in inventory.notes


def test_archives_of_any_depth_and_workers_give_the_same(tmp_path: Path) -> None:
    lay(tmp_path / "a")
    lay(tmp_path / "b" / "download", "")
    first = built("m3d", tmp_path / "a", tmp_path / "out_a")
    second = built("m3d", tmp_path / "b", tmp_path / "out_b", workers=2)
    assert root(first) == root(second)
    # JPEG samples depend on the library that wrote them here: only the tables and PNG files are pinned.
    kept = [file for file in first.files if not file.path.endswith(".jpeg")]
    assert root(first.model_copy(update={"files": tuple(kept)})) == "3d8172ac1cadfea5"


def test_bad_frames_and_cases_are_named_and_the_others_stay(tmp_path: Path) -> None:
    cases = lay(tmp_path)
    (cases / "005461" / "Coronal" / "1.jpeg").write_bytes(b"no picture")
    frames(cases / "005461" / "Coronal", range(5, 6), size=(8, 8))
    (cases / "005461" / "Coronal" / "scout.png").write_bytes(b"")
    frames(cases / "005470" / "Axial", range(2, 3), "png")
    frames(cases.parent / "ct_quizze_01" / "005480" / "Axial", range(3))
    frames(cases / "005480" / "Axial", range(3))
    (cases / "005490").mkdir()
    (cases / "005490" / "text.txt").write_text("\n")
    inventory = built("m3d", tmp_path, tmp_path / "out")
    assert [file.facts["slice"] for file in of_case(inventory, "005461/Coronal")] == [0, 2, 3, 4]
    found = "\n".join(faults(inventory))
    assert "Coronal/1.jpeg: cannot be decoded" in found
    assert "Coronal/5.jpeg: is 8 x 8 in a series of 12 x 16" in found
    assert "scout.png: is not named by its number in the series" in found
    assert "Axial: holds frame 2 twice: 2.jpeg and 2.png" in found
    assert "holds more than one file for 005480" in found
    assert "005490: holds no series of pictures" in found
    assert "005490/text.txt: is empty" in found


def test_bad_questions_are_named(tmp_path: Path) -> None:
    lay(tmp_path)
    rows = [
        question("005461", "Coronal", "Which?", right="Oblique"),
        question("005461", "Coronal", ""),
        question("005461", "Coronal", "Which?", kind="9"),
        question("005461", "Coronal", "Which?"),
    ]
    tables(tmp_path, rows)
    inventory = built("m3d", tmp_path, tmp_path / "out")
    assert [row["id"] for row in lines(tmp_path / "out", "questions/test.jsonl")] == ["3"]
    found = [text for text in faults(inventory) if "M3D_VQA_test.csv" in text]
    assert len(found) == 3
    assert "M3D_VQA_test.csv, line 2: has no question, an answer that is no choice" in found[0]


def test_tables_that_are_missing_or_damaged(tmp_path: Path) -> None:
    lay(tmp_path)
    (tmp_path / "M3D_VQA_test5k.csv").unlink()
    (tmp_path / "M3D_VQA_test.csv").write_text("Image Path,Question\nx,y\n")
    inventory = built("m3d", tmp_path, tmp_path / "out")
    found = "\n".join(faults(inventory))
    assert "holds no M3D_VQA_test5k.csv" in found
    assert "M3D_VQA_test.csv: has no column Question Type, Choice A" in found
    (tmp_path / "M3D_Cap" / "M3D_Cap.json").write_text('{"test": ["x"]}')
    with pytest.raises(MedhebError, match=r"M3D_Cap\.json: is not a file of lists of volumes"):
        built("m3d", tmp_path, tmp_path / "other")
    (tmp_path / "M3D_Cap" / "M3D_Cap.json").unlink()
    notes = built("m3d", tmp_path, tmp_path / "third").notes
    assert "no single file of training and test lists below the source, so no series is marked as either" in notes


def test_not_the_source(tmp_path: Path) -> None:
    (tmp_path / "in" / "ct_case" / "000001").mkdir(parents=True)
    with pytest.raises(MedhebError, match="holds no case folders of ct_quizze"):
        built("m3d", tmp_path / "in", tmp_path / "out")


def test_a_folder_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lay(tmp_path)
    lock(monkeypatch, "005470")
    inventory = built("m3d", tmp_path, tmp_path / "out")
    assert any("005470: cannot be listed (Permission denied)" in text for text in faults(inventory))
    assert inventory.of_kind("slice")


def test_lists_write_blanks_as_underscores_or_as_blanks(tmp_path: Path) -> None:
    cases = lay(tmp_path)
    frames(cases / "005480" / "Axial_non  contrast Ærø", range(3))
    (cases / "005480" / "text.txt").write_text(REPORT)
    listed = [
        {"image": f"M3D_Cap_npy/ct_quizze/005480/{name}.npy", "text": ""}
        for name in ("Axial_non_contrast_AEro", "Axial_non  contrast AEro")
    ]
    (tmp_path / "M3D_Cap" / "M3D_Cap.json").write_text(json.dumps({"test": listed[:1], "validation": listed[1:]}))
    tables(tmp_path, [question("005480", "Axial_non_contrast_AEro", "Which plane?")])
    inventory = built("m3d", tmp_path, tmp_path / "out")
    place = "ct_quizze/005480/Axial_non  contrast Ærø"
    assert (tmp_path / "out" / "3D_Images" / "M3D" / "selection" / "test.txt").read_text() == f"{place}\n"
    assert [row["series"] for row in lines(tmp_path / "out", "questions/test.jsonl")] == [place]
    assert {file.facts["split"] for file in of_case(inventory, "005480/Axial_non  contrast Ærø")} == {"test"}


def test_series_that_lists_cannot_tell_apart(tmp_path: Path) -> None:
    cases = lay(tmp_path)
    frames(cases / "005461" / "Axial_Poschl", range(3))
    inventory = built("m3d", tmp_path, tmp_path / "out")
    assert len(of_case(inventory, "005461/Axial_Poschl")) == 3, "both are built"
    assert {file.facts.get("split") for file in of_case(inventory, f"005461/{AXIAL}")} == {None}
    twins = [refusal for refusal in inventory.refusals if refusal.lost == "split and questions"]
    assert sorted(Path(refusal.where).name for refusal in twins) == sorted([AXIAL, "Axial_Poschl"])


def test_images_built_into_the_source_are_no_cases(tmp_path: Path) -> None:
    lay(tmp_path)
    first = built("m3d", tmp_path, tmp_path, "release")
    again = built("m3d", tmp_path, tmp_path, "release")
    assert again.refusals == first.refusals
    assert again.files == first.files
