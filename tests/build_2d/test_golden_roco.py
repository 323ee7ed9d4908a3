"""Published pictures of ROCO-QA against ours."""

from __future__ import annotations

import json
from pathlib import Path

from golden import Golden


def test_figures_as_published(golden: Golden, tmp_path: Path) -> None:
    made = golden.build("roco_vqa", "roco_qa", tmp_path)
    report = golden.compare("roco_qa", made, lambda path: path.removeprefix("ROCO-QA/example/"))
    assert report.good, report
    expected = golden.expected("roco_qa")
    assert len(made.pictures) == expected["counts"]["images"]
    rows = json.loads((made.folder / "dataset.json").read_text())
    assert len(rows) == expected["json"]["ROCO-QA/example/dataset.json"]["rows"]
    assert [row["split"] for row in rows] == ["Vaild"] * 3 + ["Train"] * 4 + ["Valid"] * 2 + ["Test"] * 3 + [
        "Valid"
    ] * 2
    assert rows[10]["Answer"] is None
    print(report)
