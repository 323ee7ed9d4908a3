"""Two runs compared: nothing where nothing changed, noise called noise, changes found with what explains them."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from medheb.cli import app
from medheb.core.errors import MedhebError
from medheb.manifest.load import Run
from medheb.report.compare import as_data, compare_runs, render_comparison, verdict


@pytest.fixture
def other(run: Run, tmp_path: Path) -> Path:
    """A copy of the run's results."""
    folder = tmp_path / "later"
    shutil.copytree(run.layout.results, folder)
    return folder


def rewrite(folder: Path, model: str, task: str, values: np.ndarray) -> None:
    """Give a cell other per-query values and the score that they make."""
    path = folder / "scores" / model / f"{task}.parquet"
    table = pd.read_parquet(path).iloc[: len(values)]
    table["hit@1"] = values
    table.to_parquet(path, index=False)
    path = path.with_suffix(".json")
    score = json.loads(path.read_bytes())
    score["metrics"]["hit@1"]["value"] = float(values.mean())
    score["queries"] = len(values)
    path.write_text(json.dumps(score), encoding="utf-8")


def test_a_run_does_not_differ_from_itself(run: Run, other: Path) -> None:
    found = compare_runs(run.layout.results, other)
    assert len(found.cells) == 32
    assert found.changed == found.only_first == found.only_second == found.notes == []
    assert all(row.p == 1 and row.first == row.second and row.sure_cells == 0 for row in found.models)


def test_a_large_change_is_found_and_a_small_one_may_be_noise(run: Run, other: Path) -> None:
    rewrite(run.layout.results, "dino", "vqa_1", np.arange(24) % 6 == 0)
    rewrite(other, "dino", "vqa_1", np.ones(24))
    small = pd.read_parquet(run.layout.per_query("dino", "region_1"))["hit@1"].to_numpy().copy()
    small[0] = 1 - small[0]
    rewrite(other, "dino", "region_1", small)
    found = compare_runs(run.layout.results, other)
    large, little = found.changed
    assert (large.task, little.task) == ("vqa_1", "region_1")
    assert large.change == pytest.approx(1 - 1 / 6)
    assert verdict(large.p) == "more than noise"
    assert verdict(little.p) == "may be noise"
    row = next(row for row in found.models if row.model == "dino")
    assert row.sure_cells == 1
    assert row.low < row.second - row.first < row.high


def test_noise_over_many_cells_is_rarely_called_a_change() -> None:
    from medheb.report.compare import CellChange, _corrected

    rng = np.random.default_rng(4)
    wrong = 0
    for _ in range(200):
        cells = [CellChange("m", str(n), "vqa", 0, 0, float(p), True, ()) for n, p in enumerate(rng.random(100))]
        wrong += any(cell.p < 0.05 for cell in _corrected(cells))
    assert wrong / 200 <= 0.09


def test_what_differs_is_named_and_other_task_files_are_not_paired(run: Run, other: Path) -> None:
    for task, field, value in (("vqa_1", "task_digest", "f" * 64), ("region_1", "fingerprint", "e" * 64)):
        path = other / "scores" / "dino" / f"{task}.json"
        path.write_text(json.dumps(json.loads(path.read_bytes()) | {field: value}), encoding="utf-8")
    rewrite(other, "efficient", "vqa_1", np.ones(12))
    found = compare_runs(run.layout.results, other)
    by_key = {(cell.model, cell.task): cell for cell in found.changed}
    assert by_key["dino", "vqa_1"].differs == ("task file",)
    assert not by_key["dino", "vqa_1"].paired
    assert by_key["dino", "region_1"].differs == ("model, weights or settings",)
    assert by_key["dino", "region_1"].paired
    assert by_key["efficient", "vqa_1"].differs == ("number of queries",)


def test_cells_of_one_run_only_and_unreadable_ones_are_named(run: Run, other: Path) -> None:
    (other / "scores" / "dino" / "vqa_1.json").unlink()
    (other / "scores" / "dino" / "region_1.json").write_text("{", encoding="utf-8")
    (other / "scores" / "dino" / "text_text_1.parquet").unlink()
    path = other / "scores" / "efficient" / "vqa_1.json"
    path.write_text(
        re.sub(r'"schema_version": \d+', '"schema_version": 7', path.read_text(encoding="utf-8")), encoding="utf-8"
    )
    found = compare_runs(run.layout.results, other)
    assert found.only_first == ["dino on region_1", "dino on vqa_1", "efficient on vqa_1"]
    said = "\n".join(found.notes)
    assert "region_1.json" in said
    assert "schema version 7" in said
    assert "dino on text_text_1: its per-query results are missing" in said
    assert next(row for row in found.models if row.model == "dino").tasks == 6
    rows = {row["model"]: row for row in as_data(found)["models"]}
    assert rows["dino"]["p"] is None
    assert rows["efficient"]["p"] == 1


def test_folders_without_scores_are_refused(run: Run, tmp_path: Path) -> None:
    with pytest.raises(MedhebError, match="holds no scores"):
        compare_runs(run.layout.results, tmp_path / "nowhere")
    empty = tmp_path / "empty" / "scores" / "someone"
    shutil.copytree(run.layout.results / "scores" / "dino", empty)
    for path in empty.glob("*.json"):
        path.write_text(path.read_text(encoding="utf-8").replace('"dino"', '"someone"'), encoding="utf-8")
    with pytest.raises(MedhebError, match="holds no score that"):
        compare_runs(run.layout.results, tmp_path / "empty")


def test_the_command_prints_writes_a_page_and_gives_json(run: Run, other: Path, tmp_path: Path) -> None:
    rewrite(other, "dino", "vqa_1", np.ones(24))
    page = tmp_path / "page.html"
    done = CliRunner().invoke(app, ["compare", str(run.layout.results), str(other), "--page", str(page)])
    assert done.exit_code == 0, done.output
    assert "more than noise" in done.output
    text = page.read_text(encoding="utf-8")
    assert "What changed, and is it more than noise?" in text
    assert "<script" not in text
    done = CliRunner().invoke(app, ["compare", str(run.layout.results), str(other), "--json"])
    data = json.loads(done.output)
    assert {row["model"] for row in data["models"]} == set(run.models)
    assert render_comparison(compare_runs(run.layout.results, other)) == text
