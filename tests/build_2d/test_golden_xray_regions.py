"""Crops of X-ray regions as the published scripts wrote them, and as many test and train rows."""

from __future__ import annotations

from pathlib import Path

import pytest
from golden import Golden

SCRIPTS = {
    "chest_imagenome": ("chest_imagenome", "Chest_imagenome/", "Chest_imagenome/Chest_imagenome_{}.json"),
    "vindr_cxr": ("vindr_cxr", "VinDr-CXR/", "VinDr-CXR/VinDr-CXR_{}.json"),
    "vindr_mammo": ("vindr_mammo", "VindrMammo/", "VindrMammo/VinDr-Mammo_{}.json"),
}


@pytest.mark.parametrize("script", SCRIPTS)
def test_published_crops_and_rows(script: str, golden: Golden, tmp_path: Path) -> None:
    dataset, prefix, table = SCRIPTS[script]
    made = golden.build(dataset, script, tmp_path)
    report = golden.compare(script, made, lambda path: path.removeprefix(prefix))
    assert report.good, report
    expected = golden.expected(script)
    crops = [file for file in made.inventory.files if file.facts["kind"] == "crop"]
    assert len(crops) == expected["counts"]["images"]
    for split in ("train", "test"):
        rows = (made.folder / f"selection/{split}.jsonl").read_text().splitlines()
        assert len(rows) == expected["json"][table.format(split)]["rows"]


def test_published_rows_of_mimic_cxr_lt(golden: Golden, tmp_path: Path) -> None:
    made = golden.build("mimic_cxr_lt", "mimic_cxr_lt", tmp_path)
    expected = golden.expected("mimic_cxr_lt")["json"]
    for split in ("train", "test"):
        rows = (made.folder / f"selection/{split}.jsonl").read_text().splitlines()
        assert len(rows) == expected[f"out_{split}.json"]["rows"]
    assert not made.inventory.refusals
