"""The published task files of PublicHealthQA against ours."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from golden import Golden


@pytest.mark.parametrize("script", ["publichealthqa", "publichealthqa_broken"])
def test_published_rows(golden: Golden, tmp_path: Path, script: str) -> None:
    made = golden.build("public_health_qa", script, tmp_path)
    expected = golden.expected(script)["json"]
    written = {
        file.path: json.loads((made.folder / file.path).read_text(encoding="utf-8"))
        for file in made.inventory.of_kind("published index")
    }
    counts = {path: len(rows) for path, rows in written.items()}
    assert counts == {path: fact["rows"] for path, fact in expected.items()}
    for rows in written.values():
        for row in rows:
            assert sorted(row) == ["qry_inst", "qry_text", "tgt_text"]
            assert len(set(row["tgt_text"])) == 30
