"""Sources over MIMIC-CXR: links instead of copies, chosen pictures, selections, and nothing of them in messages."""

from __future__ import annotations

import shutil
from pathlib import Path

import make_xrays as make
import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from medheb.audit.record import record_digests
from medheb.audit.roots import write_roots
from medheb.audit.verify import verify
from medheb.build.mimic_cxr_lt import Labelled, published_draw, quotas
from medheb.build.report_sections import first_of, sections_of
from medheb.build.run import build_images
from medheb.build.work import MARKERS
from medheb.cli import app
from medheb.core.digests import pixel_digest, sha256_file
from medheb.core.errors import MedhebError
from medheb.core.files import write_json
from medheb.core.layout import Layout
from medheb.core.status import OK, write_status
from medheb.fetch.located import local_copy_file
from medheb.manifest.config import Config
from medheb.manifest.load import Run
from medheb.manifest.protocol import Protocol

QUESTIONS = ["study_id", "question_type", "question", "answer"]
LABELS = make.LT_LABELS
LINKS = {"files": "files", "p10": "files/p10"}
PROTOCOL = Protocol(
    name="corrected",
    title="test",
    ties="expected",
    candidate_identity="content",
    text_cleaning=False,
    tie_tolerance=1e-6,
)
LT = [*make.LT, *LABELS]


@pytest.fixture
def mimic(tmp_path: Path) -> Path:
    """Folder with a copy of MIMIC-CXR-JPG, reports in their own project."""
    files = tmp_path / "physionet.org" / "files"
    make.put_mimic(files / "mimic-cxr-jpg" / "2.0.0", reports=files / "mimic-cxr" / "2.0.0")
    return tmp_path / "physionet.org"


def test_reports_come_with_their_first_frontal_picture(mimic: Path, tmp_path: Path) -> None:
    inventory = make.build("mimic_cxr", mimic, tmp_path / "out")
    pictures = [file.path for file in inventory.of_kind("xray")]
    assert pictures == [f"files/p10/p1000{n}000/s5000000{n}/cc{n}.jpg" for n in (1, 3, 7)], "PA before AP"
    folder = tmp_path / "out" / "2D_Images" / "MIMIC-CXR-Report"
    assert (folder / pictures[0]).read_bytes() == (folder / pictures[0].removeprefix("files/")).read_bytes()
    assert not [path for path in folder.rglob("*.jpg") if not path.is_symlink()], "nothing is copied"
    (record, *_) = make.rows(folder / "reports" / "00000.jsonl")
    assert record["findings"] == "Clear lungs of number 1."
    assert record["impression"] == "Nothing new, ___ 1."
    assert "studies without a frontal picture: 1" in inventory.notes
    assert len(make.rows(folder / "selection" / "test.jsonl")) == 3


def test_linked_files_have_the_digests_of_the_originals(mimic: Path, tmp_path: Path) -> None:
    inventory = make.build("mimic_cxr", mimic, tmp_path / "out")
    picture = inventory.of_kind("xray")[0]
    (original,) = mimic.rglob(Path(picture.path).name)
    assert picture.bytes == original.stat().st_size
    assert picture.sha256 == sha256_file(original)
    assert picture.content == pixel_digest(original.read_bytes())
    assert inventory.links == {name: f"../mimic_original/2.0.0/{path}" for name, path in LINKS.items()}


def test_a_build_cut_off_after_its_links_never_reaches_through_them(
    mimic: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    originals = {path: path.read_bytes() for path in mimic.rglob("*.jpg")}
    with monkeypatch.context() as patched:
        patched.setattr("medheb.build.run.write_inventory", stop)
        with pytest.raises(KeyboardInterrupt):
            make.build("mimic_cxr", mimic, tmp_path / "out")
    (staging,) = (tmp_path / "out" / "2D_Images").glob(".MIMIC-CXR-Report.part.*")
    assert (staging / "files").is_symlink()
    for marker in (staging / MARKERS).iterdir():
        marker.unlink()
    monkeypatch.setattr("medheb.build.mimic_cxr.Output.records", stop_with_refusal)
    with pytest.raises(MedhebError, match="gave no files"):
        make.build("mimic_cxr", mimic, tmp_path / "out")
    monkeypatch.undo()
    assert len(make.build("mimic_cxr", mimic, tmp_path / "out").of_kind("xray")) == 3
    assert {path: path.read_bytes() for path in mimic.rglob("*.jpg")} == originals


def stop(*_: object) -> None:
    raise KeyboardInterrupt


def stop_with_refusal(*_: object, **__: object) -> None:
    raise MedhebError("a unit", "fails after it listed its pictures", "none")


def test_a_missing_report_or_picture_leaves_out_its_study_only(mimic: Path, tmp_path: Path) -> None:
    next(mimic.rglob("s50000001.txt")).unlink()
    next(mimic.rglob("cc3.jpg")).unlink()
    next(mimic.rglob("s50000007.txt")).write_text("FINDINGS: only these\n")
    none = make.build("mimic_cxr", mimic, tmp_path / "out")
    assert not none.of_kind("xray")
    assert len(none.refusals) == 2
    next(mimic.rglob("s50000007.txt")).write_text("FINDINGS: these\nCONCLUSION: and this\n")
    inventory = make.build("mimic_cxr", mimic, tmp_path / "again")
    assert make.faults(inventory) == ["cc3.jpg is missing from the copy of MIMIC-CXR", "s50000001.txt is missing"]
    assert len(inventory.of_kind("xray")) == 1


def test_reports_of_the_training_part_are_listed_and_its_pictures_left_alone(mimic: Path, tmp_path: Path) -> None:
    next(mimic.rglob("s50000004.txt")).write_text("FINDINGS: only these\n")
    inventory = make.build("mimic_cxr", mimic, tmp_path / "out")
    (listed,) = inventory.of_kind("training")
    rows = make.rows(tmp_path / "out" / inventory.images / listed.path)
    assert [row["id"] for row in rows] == ["50000000", "50000002", "50000006"]
    assert (rows[0]["group"], rows[0]["findings"]) == ("10000000", "Clear lungs of number 0.")
    assert (tmp_path / "out" / inventory.images / rows[0]["picture"]).is_file()
    assert {file.facts["split"] for file in inventory.of_kind("xray")} == {"test"}
    assert "training studies whose report has no findings or no impression: 1" in inventory.notes


def test_sections() -> None:
    report = "ADDENDUM  IMPRESSION: first\n________________\n FINDINGS: a\n  b: c\n WET READ: x\n"
    report += " IMPRESSION:\n\n last ___.\n"
    found = sections_of(report)
    assert found["FINDINGS"] == "a b: c"
    assert found["IMPRESSION"] == "last ___."
    assert first_of(found, ["CONCLUSION", "IMPRESSION"]) == "last ___."
    assert first_of(sections_of("no headings here"), ["FINDINGS"]) == ""


def test_questions_are_drawn_and_tied_to_pictures(mimic: Path, tmp_path: Path) -> None:
    lines = [[50000000 + n, "presence", f"question {n % 3}?", "yes"] for n in range(8)]
    lines += [[50000001, "presence", "question 1?", "yes"], [50000003, "view", "", "no"], ["", "view", "q", "no"]]
    make.put_table(mimic / "medical-cxr-vqa" / "medical_cxr_vqa_questions.csv", QUESTIONS, lines)
    inventory = make.build("mimic_cxr_vqa", mimic, tmp_path / "out")
    assert [file.facts["case"] for file in inventory.of_kind("xray")] == ["50000001", "50000003", "50000007"]
    folder = tmp_path / "out" / "2D_Images" / "MIMIC-CXR-VQA"
    asked = make.rows(folder / "questions" / "00000.jsonl")
    assert [row["question"] for row in asked] == ["question 1?", "question 0?", "question 1?"], "each once"
    assert all((folder / row["picture"]).is_file() for row in asked)
    assert "questions on studies without a frontal picture: 1" in inventory.notes
    assert make.faults(inventory) == [
        f"medical_cxr_vqa_questions.csv, line {line} lacks its study, question or answer" for line in (11, 12)
    ]
    fewer = make.build("mimic_cxr_vqa", mimic, tmp_path / "two", test_rows=2)
    assert {file.path for file in fewer.of_kind("xray")} < {file.path for file in inventory.of_kind("xray")}


@pytest.mark.parametrize(("protocol", "rows"), [("release", 6), ("corrected", 6)])
def test_single_labels_are_drawn_by_class(protocol: str, rows: int, mimic: Path, tmp_path: Path) -> None:
    make.put_table(mimic / "labels" / "mimic-cxr-lt_single-label_test.csv", LT, make.lt_rows(8))
    options = {"labels": LABELS, "test_rows": rows}
    inventory = make.build("mimic_cxr_lt", mimic, tmp_path / "out", protocol, **options)  # type: ignore[arg-type]
    folder = tmp_path / "out" / "2D_Images" / "MIMIC-CXR-T"
    chosen = make.rows(folder / "selection" / "test.jsonl")
    assert sorted(row["label"] for row in chosen) == sorted(LABELS * 2)
    # Study 5 has no frontal picture in the copy: the list is that of the table, the inventory what can be used.
    there = {file.path: file.facts["label"] for file in inventory.of_kind("xray")}
    assert there == {row["picture"]: row["label"] for row in chosen if "cc5" not in row["picture"]}
    assert all((folder / path).is_file() and (folder / "files" / path).is_file() for path in there)
    assert (folder / "selection" / "labels.txt").read_text().split() == LABELS


def test_labels_outside_the_vocabulary_and_repeated_pictures(mimic: Path, tmp_path: Path) -> None:
    lines = [[*row, 0] for row in make.lt_rows(6)]
    lines[0][-1] = 1
    lines += [lines[1], [1, 2, "x", "../../etc/passwd", 1, 0, 0, 0]]
    make.put_table(mimic / "labels" / "mimic-cxr-lt_single-label_test.csv", [*LT, "Hernia"], lines)
    make.put_table(mimic / "labels" / "mimic-cxr-lt_single-label_train.csv", [*LT, "Hernia"], lines[:3])
    inventory = make.build("mimic_cxr_lt", mimic, tmp_path / "out", labels=LABELS)
    text = " | ".join(make.faults(inventory))
    assert "test.csv, line 9 has a path that is none of MIMIC-CXR-JPG" in text
    assert "test.csv, line 2 has a label outside the vocabulary" in text
    assert "test.csv, line 8 names a picture for the second time" in text
    assert "training rows left out: their patients are in the test: 2" in inventory.notes
    with pytest.raises(MedhebError, match=r"mimic-cxr-lt_single-label_test.csv: lacks 1 label columns"):
        make.build("mimic_cxr_lt", mimic, tmp_path / "out", labels=[*LABELS, "Mass"])


def test_quotas_share_out_the_cap() -> None:
    assert quotas(263, list("abc"), 1000) == {"a": 88, "b": 88, "c": 87}
    assert quotas(5000, list("abcdef"), 1000) == dict(zip("abcdef", [167, 167, 167, 167, 166, 166], strict=True))


def test_the_published_draw_is_that_of_pandas() -> None:
    pandas = pytest.importorskip("pandas")
    generator = np.random.default_rng(0)
    labels = ["a", "b", "c"]
    rows = [Labelled("", str(n), f"{n}", "", labels[min(2, int(generator.integers(0, 9)))]) for n in range(400)]
    chosen = published_draw(rows, labels, 240)
    table = pandas.DataFrame({"path": [row.path for row in rows], "label": [row.label for row in rows]})
    expected: list[str] = []
    for label in labels:
        part = table[table.label == label]
        expected += list(part.sample(min(80, len(part)), random_state=42).path)
    assert len(chosen) == 240
    assert [row.path for row in chosen][: len(expected)] == expected
    assert len({row.path for row in chosen}) == 240


def test_gold_crops_over_linked_pictures(mimic: Path, tmp_path: Path) -> None:
    make.put_imagenome(
        mimic / "chest-imagenome", [["bb1.dcm", "left lung", 10, 10, 60, 70], ["bb1.dcm", "spine", 50, 0, 40, 80]]
    )
    inventory = make.build("chest_imagenome", mimic, tmp_path / "out")
    crops = make.by_path(inventory)
    assert (crops["gold_crop/bb1_0_0.png"].facts["width"], crops["gold_crop/bb1_0_0.png"].facts["height"]) == (50, 60)
    assert crops["gold_crop/bb1_1_0.png"].facts["box"] == "31 0 59 80", "corners put in order, then 28 pixels wide"
    assert crops["gold_crop/bb1_1_0.png"].facts["picture"] == "p10/p10001000/s50000001/bb1.jpg"
    folder = tmp_path / "out" / "2D_Images" / "ChestImagrome"
    with Image.open(folder / "p10/p10001000/s50000001/bb1.jpg") as whole:
        original = np.asarray(whole)
    for name, part in (("bb1_0_0", original[10:70, 10:60]), ("bb1_1_0", original[0:80, 31:59])):
        with Image.open(folder / f"gold_crop/{name}.png") as crop:
            assert np.array_equal(np.asarray(crop), part)
    rows = make.rows(folder / "selection" / "test.jsonl")
    assert sorted(row["label"] for row in rows) == ["left lung", "spine"]
    assert "no training crops: there are no unpacked scene graphs" in inventory.notes


def test_bad_regions_are_refused_one_by_one(mimic: Path, tmp_path: Path) -> None:
    boxes = [
        ["bb1.dcm", "left lung", 10, 10, 60, 70],
        ["bb1.dcm", "left lung", 10, 10, 60, 70],
        ["bb1.dcm", "left lung", 11, 10, 60, 70],
        ["bb1.dcm", "spine", "", 10, 60, 70],
        ["bb1.dcm", "carina", "nan", 10, 60, 70],
        ["bb1.dcm", "trachea", 500, 500, 560, 570],
        ["bb1.dcm", "aorta", 10, 10, 10, 70],
        ["bb9.dcm", "aorta", 10, 10, 20, 70],
    ]
    make.put_imagenome(mimic / "chest-imagenome", boxes)
    inventory = make.build("chest_imagenome", mimic, tmp_path / "out")
    assert len(inventory.of_kind("crop")) == 1
    table = "gold_bbox_coordinate_annotations_1000images.csv, line"
    assert make.faults(inventory) == [
        f"{table} 4 names a region for the second time, with another box",
        f"{table} 5 has no x1",
        f"{table} 6 has a corner that is no pixel position: x1 'nan'",
        f"{table} 7 has a box outside of its picture: (500, 500, 560, 570) in 120 x 90",
        f"{table} 8 has a box without area: (10, 10, 10, 70)",
        f"{table} 9 has a picture that the table of sentences does not place",
    ]


def test_training_leaves_out_test_gold_and_avoided_pictures(mimic: Path, tmp_path: Path) -> None:
    root = mimic / "chest-imagenome"
    make.put_imagenome(root, [["bb1.dcm", "left lung", 10, 10, 60, 70]])
    make.put_silver(root)
    corrected = make.build("chest_imagenome", mimic, tmp_path / "corrected")
    assert {f.facts["case"]: f.facts["split"] for f in corrected.of_kind("crop")} == {
        "bb0": "train",
        "bb1": "test",
        "bb3": "valid",
    }
    release = make.build("chest_imagenome", mimic, tmp_path / "release", "release")
    silver_crops = [f for f in release.of_kind("crop") if f.path.startswith("silver_sample_crop/")]
    assert {f.facts["case"] for f in silver_crops} == {f"bb{n}" for n in range(5)}
    assert {f.facts["split"] for f in silver_crops} == {"train"}
    capped = make.build("chest_imagenome", mimic, tmp_path / "capped", "release", training_rows=2)
    assert len([f for f in capped.of_kind("crop") if f.facts["split"] == "train"]) == 2


def test_one_copy_serves_both_projects_and_two_copies_are_refused(tmp_path: Path) -> None:
    make.put_mimic(tmp_path / "in" / "mimic")
    assert len(make.build("mimic_cxr", tmp_path / "in", tmp_path / "out").of_kind("xray")) == 3
    shutil.copytree(tmp_path / "in" / "mimic", tmp_path / "in" / "second")
    with pytest.raises(MedhebError, match="finds more than one copy of MIMIC-CXR"):
        make.build("mimic_cxr", tmp_path / "in", tmp_path / "out")


def test_nothing_that_tells_a_case_is_printed_or_logged(
    mimic: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(make.ROOT)
    next(mimic.rglob("s50000001.txt")).unlink()
    make.put_imagenome(
        mimic / "chest-imagenome", [["bb1.dcm", "left lung", 10, 10, 60, 70], ["bb1.dcm", "spine", "x", 1, 2, 3]]
    )
    for dataset, protocol in (
        ("mimic_cxr", "corrected"),
        ("chest_imagenome", "corrected"),
        ("chest_imagenome", "release"),
    ):
        command = ["build", dataset, "--source", str(mimic), "--out", str(tmp_path / dataset / protocol)]
        result = CliRunner().invoke(app, [*command, "--protocol", protocol])
        said = result.output + str(result.exception or "")
        assert "cannot be used" in said or "could not be used" in said
        for secret in ("5000000", "1000100", "bb1", "cc1", "spine", "Clear lungs", ".jpg", ".txt"):
            assert secret not in said, (dataset, protocol, secret)


def test_an_audit_reads_through_the_links_and_notices_a_moved_one(mimic: Path, tmp_path: Path) -> None:
    make.build("mimic_cxr", mimic, tmp_path / "MedHEB")
    layout = Layout(tmp_path / "sources", tmp_path / "MedHEB", tmp_path / "results")
    run = Run(Config(), layout, {"mimic_cxr": make.manifest("mimic_cxr")}, {}, {}, PROTOCOL)
    record_digests(run, "mimic_cxr")
    write_roots(run)
    (unit, *_) = verify(run, "mimic_cxr", workers=1).units
    assert (unit.verdict, unit.counts) == ("IDENTICAL", {"IDENTICAL": 6})
    folder = layout.benchmark / "2D_Images" / "MIMIC-CXR-Report"
    next(mimic.rglob("cc3.jpg")).write_bytes(next(mimic.rglob("cc1.jpg")).read_bytes())
    (unit, *_) = verify(run, "mimic_cxr", workers=1).units
    assert unit.counts == {"IDENTICAL": 5, "MISMATCH": 1}
    (folder / "files").unlink()
    (folder / "files").symlink_to(tmp_path)
    (unit, *_) = verify(run, "mimic_cxr", workers=1).units
    assert unit.counts == {"IDENTICAL": 3, "MISSING": 3, "EXTRA": 1}


def test_a_picture_of_four_inks(mimic: Path, tmp_path: Path) -> None:
    with Image.open(next(mimic.rglob("bb1.jpg"))) as picture:
        picture.convert("CMYK").save(next(mimic.rglob("bb1.jpg")))
    boxes = [[name, "left lung", 10, 10, 60, 70] for name in ("bb1.dcm", "bb3.dcm")]
    make.put_imagenome(mimic / "chest-imagenome", boxes)
    release = make.build("chest_imagenome", mimic, tmp_path / "release", "release")
    assert make.faults(release) == ["bb1_0_0.png comes from a picture of mode CMYK, which PNG cannot hold"]
    assert [file.facts["case"] for file in release.of_kind("crop")] == ["bb3"]
    corrected = make.build("chest_imagenome", mimic, tmp_path / "corrected")
    assert not corrected.refusals
    with Image.open(tmp_path / "corrected" / "2D_Images" / "ChestImagrome" / "gold_crop" / "bb1_0_0.png") as crop:
        assert crop.mode == "RGB"


def test_within_a_run_pictures_come_from_the_verified_copy(mimic: Path, tmp_path: Path) -> None:
    layout = Layout(tmp_path / "sources", tmp_path / "MedHEB", tmp_path / "results")
    datasets = {name: make.manifest(name) for name in ("mimic_cxr", "mimic_cxr_vqa")}
    run = Run(Config(local_copies={"mimic_cxr": str(mimic)}), layout, datasets, {}, {}, PROTOCOL)
    for name in datasets:
        write_status(layout.source_status(name), OK)
    projects = []
    for slug in ("mimic-cxr-jpg", "mimic-cxr"):
        root = str(mimic / "files" / slug / "2.0.0")
        counts = {"slug": slug, "version": "2.0.0", "listed": 1, "checked": 1, "counts": {"ok": 1}, "bytes": 1}
        projects.append({"root": root, "layout": "wget", "list_sha256": None, **counts})
    write_json(
        local_copy_file(layout, "mimic_cxr"),
        {"schema_version": 1, "dataset": "mimic_cxr", "full": False, "notes": [], "also": projects[1:], **projects[0]},
    )
    lines = [[50000001, "presence", "question?", "yes"]]
    make.put_table(layout.source_files("mimic_cxr_vqa") / "medical_cxr_vqa_questions.csv", QUESTIONS, lines)
    for name, folder in (("mimic_cxr", "MIMIC-CXR-Report"), ("mimic_cxr_vqa", "MIMIC-CXR-VQA")):
        assert build_images(run, name).ok
        assert (layout.benchmark / "2D_Images" / folder / "files/p10/p10001000/s50000001/cc1.jpg").is_file()
    shared = layout.benchmark / "2D_Images" / "mimic_original" / "2.0.0" / "files"
    assert shared.readlink() == mimic / "files" / "mimic-cxr-jpg" / "2.0.0" / "files"
