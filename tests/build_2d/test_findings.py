"""The fact ``findings`` of X-rays: all positive labels of the shared vocabulary, for graded retrieval."""

from __future__ import annotations

from pathlib import Path

import make_xrays as make
import pytest

from medheb.build.inventory import Inventory
from medheb.core.layout import Layout
from medheb.index.builders.registry import build_rows
from medheb.index.checks import check_rows
from medheb.index.draw import Draw
from medheb.index.entries import Source, Sources
from medheb.manifest.graded import load_graded
from medheb.manifest.load import load_tasks
from medheb.manifest.rules import load_rules

LABELS = make.manifest("mimic_cxr").recipe.options["labels"]


def findings(inventory: Inventory) -> dict[str, str | None]:
    return {str(file.facts["case"]): file.facts.get("findings") for file in inventory.of_kind("xray")}


@pytest.fixture
def mimic(tmp_path: Path) -> Path:
    make.put_mimic(tmp_path / "copy")
    return tmp_path / "copy"


def test_the_vocabulary_is_the_fourteen_labels() -> None:
    assert len(set(LABELS)) == 14


def test_positive_labels_of_mimic_become_findings(mimic: Path, tmp_path: Path) -> None:
    values = {
        1: {"Edema": "1.0", "Fracture": "-1.0"},
        3: {"Pneumonia": "1.0", "Atelectasis": "1.0"},
        7: {"Edema": "0.0"},
    }
    rows = [
        [str(10000000 + 1000 * n), str(50000000 + n), *(v.get(name, "") for name in LABELS)] for n, v in values.items()
    ]
    make.put_table(mimic / "mimic-cxr-2.0.0-chexpert.csv.gz", ["subject_id", "study_id", *LABELS], rows)
    inventory = make.build("mimic_cxr", mimic, tmp_path / "out")
    assert findings(inventory) == {"50000001": "Edema", "50000003": "Atelectasis | Pneumonia", "50000007": None}
    assert not [note for note in inventory.notes if "labels" in note]


def test_a_copy_without_the_table_is_built_and_says_so(mimic: Path, tmp_path: Path) -> None:
    inventory = make.build("mimic_cxr", mimic, tmp_path / "out")
    assert set(findings(inventory).values()) == {None}
    assert "no table of CheXpert labels in the copy: graded retrieval has nothing to go by" in inventory.notes


def test_positive_labels_of_chexpert_become_findings(tmp_path: Path) -> None:
    make.put_chexpert(tmp_path / "in")
    inventory = make.build("chexpert_plus", tmp_path / "in", tmp_path / "out")
    by_case = findings(inventory)
    assert by_case["valid/patient1/study1"] == "Edema"
    assert by_case["train/patient3/study1"] == "Edema", "unsure labels do not count, and do not take it out"
    assert by_case["valid/patient0/study1"] is None


def test_both_sources_give_the_pools_of_graded_retrieval(mimic: Path, tmp_path: Path) -> None:
    rows = [
        [str(10000000 + 1000 * n), str(50000000 + n), *("1.0" if name == "Edema" else "" for name in LABELS)]
        for n in (1, 3)
    ]
    make.put_table(mimic / "mimic-cxr-2.0.0-chexpert.csv.gz", ["subject_id", "study_id", *LABELS], rows)
    make.put_chexpert(tmp_path / "in", patients=12)
    out = tmp_path / "out"
    built = [make.build("mimic_cxr", mimic, out), make.build("chexpert_plus", tmp_path / "in", out)]
    graded = load_graded(make.ROOT / "manifests", load_tasks(make.ROOT / "manifests" / "tasks.tsv"))
    assert graded is not None
    task = next(entry.row for entry in graded.entries if entry.row)
    layout = Layout(tmp_path / "sources", out, tmp_path / "results")
    sources = Sources([Source(made, layout, task.image_root) for made in built], load_rules(make.ROOT / "manifests"))
    records = list(build_rows(task, sources, Draw(17, task.task)))
    check_rows(records, task.pool, sources.contents(), task.index)
    assert [record.qry_img_path for record in records] == [
        f"MIMIC-CXR-Report/files/p10/p1000{n}000/s5000000{n}/cc{n}.jpg" for n in (1, 3)
    ], "the third test study has no label"
    known = {f"chexpert_plus/{file.path}": file.facts.get("findings") for file in built[1].of_kind("xray")}
    for record in records:
        assert record.qry_inst == task.qry_inst
        assert record.tgt_img_path is not None
        assert {known[str(path)] for path in record.tgt_img_path} == {"Edema"}
        assert len(record.tgt_img_path) > 1
