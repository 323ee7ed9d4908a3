"""Loading a finished run: nothing is lost, nothing is mixed."""

from __future__ import annotations

import math

import make_scores as make
import pytest

from medheb.core.errors import MedhebError
from medheb.evaluate.score import METRICS
from medheb.manifest.load import Run
from medheb.report.collect import collect
from medheb.report.complete import missing_cells


def test_a_complete_run_has_no_missing_cell(run: Run) -> None:
    assert missing_cells(run) == []
    assert len(collect(run).cells) == len(run.models) * len(run.tasks) == 32


def test_a_missing_score_is_a_cell_with_reason_and_remedy(run: Run) -> None:
    run.layout.score("dino", "vqa_1").unlink()
    (cell,) = missing_cells(run)
    assert (cell.model, cell.task, cell.state) == ("dino", "vqa_1", "failed")
    assert cell.reason == "there is no score file: it was not evaluated"
    assert cell.remedy == "Run the workflow again"


def test_a_missing_score_behind_a_blocked_step_names_that_step(run: Run) -> None:
    status = make.block(run, "alpha")
    for model in run.models:
        for task in run.tasks.values():
            if "alpha" in task.sources:
                run.layout.score(model, task.task).unlink()
    cells = missing_cells(run)
    assert len(cells) == 32
    assert {(cell.state, cell.origin, cell.reason, cell.remedy) for cell in cells} == {
        ("blocked", "fetch alpha", status.reason, status.remedy)
    }


def test_a_blocked_score_passes_its_status_on(run: Run) -> None:
    make.change_score(
        run,
        "efficient",
        "region_1",
        metrics={},
        status={"state": "blocked", "origin": "fetch beta", "reason": "no token", "remedy": "Set a token"},
    )
    (cell,) = missing_cells(run)
    assert (cell.origin, cell.reason, cell.remedy) == ("fetch beta", "no token", "Set a token")
    assert str(cell) == "efficient on region_1: blocked, no token. Set a token"


TOO_DEEP = ["[" * 100_000, "[" * 900 + "]" * 900]


@pytest.mark.parametrize("content", ["", "{", "[]", "\xff", '{"model": 3}', "null", *TOO_DEEP])
def test_an_unreadable_score_is_a_missing_cell(run: Run, content: str) -> None:
    run.layout.score("dino", "vqa_1").write_bytes(content.encode("latin-1"))
    (cell,) = missing_cells(run)
    assert "vqa_1.json" in cell.reason
    assert cell.remedy
    if content in TOO_DEEP:
        assert "vqa_1.json: is not JSON (nested too deeply)" in cell.reason
        assert cell.remedy == "Delete it. Run the evaluation again"


def test_a_folder_in_the_place_of_a_score_is_a_missing_cell(run: Run) -> None:
    path = run.layout.score("dino", "vqa_1")
    path.unlink()
    path.mkdir()
    (cell,) = missing_cells(run)
    assert "cannot be read (Is a directory)" in cell.reason


@pytest.mark.parametrize("part", ["value", "low", "high", "worst", "chance"])
@pytest.mark.parametrize("number", [math.nan, math.inf, -0.2, 1.5])
def test_numbers_that_are_no_shares_are_refused(run: Run, part: str, number: float) -> None:
    metrics = {name: dict.fromkeys(("value", "low", "high", "worst", "chance"), 0.5) for name in METRICS}
    metrics["mrr@5"][part] = number
    make.change_score(run, "dino", "vqa_1", metrics=metrics)
    (cell,) = missing_cells(run)
    assert f"holds mrr@5 {part} {number}, not a number from 0 to 1" in cell.reason


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"model": "efficient"}, "is for model 'efficient', but the manifests say 'dino'"),
        ({"family": "region"}, "is for family 'region', but the manifests say 'vqa'"),
        ({"pool": "global"}, "is for pool 'global', but the manifests say 'local'"),
        ({"schema_version": 99}, "has schema version 99"),
        ({"queries": 0}, "holds 0 queries"),
        ({"metrics": {}}, "lacks metric hit@1"),
        ({"tied_fraction": math.nan}, "holds tied_fraction nan"),
        ({"seconds": math.inf}, "holds seconds inf"),
        ({"mean_cosine": math.nan}, "holds mean_cosine nan"),
        ({"effective_rank": math.inf}, "holds effective_rank inf"),
    ],
)
def test_a_score_of_something_else_is_refused(run: Run, changes: dict, fault: str) -> None:
    make.change_score(run, "dino", "vqa_1", **changes)
    (cell,) = missing_cells(run)
    assert fault in cell.reason


def test_an_interval_that_ends_before_it_begins_is_refused(run: Run) -> None:
    metric = {"value": 0.5, "low": 0.7, "high": 0.3, "worst": 0.5, "chance": 0.1}
    make.change_score(run, "dino", "vqa_1", metrics=dict.fromkeys(METRICS, metric))
    (cell,) = missing_cells(run)
    assert "ends before it begins" in cell.reason


def test_mixed_protocols_are_refused_in_words(run: Run) -> None:
    make.change_score(run, "dino", "vqa_1", protocol="release")
    with pytest.raises(
        MedhebError, match=r"vqa_1\.json: was computed under protocol 'release', but this report is for 'corrected'"
    ):
        collect(run)


@pytest.mark.parametrize(
    ("field", "words"), [("task_digest", "task JSON"), ("data_root", "data root"), ("fingerprint", "fingerprint")]
)
def test_mixed_data_and_weights_are_refused_in_words(run: Run, field: str, words: str) -> None:
    make.change_score(run, "dino", "vqa_1", **{field: "f" * 64})
    with pytest.raises(MedhebError, match=rf"has {words} .* cannot mix them.*Delete the scores of"):
        collect(run)


def test_sources_keep_state_and_notes(run: Run) -> None:
    make.block(run, "alpha")
    run.layout.inventory(run.datasets["beta"].images, "beta").unlink()
    sources = collect(run).sources
    assert (sources["alpha"].status.state, sources["alpha"].files) == ("blocked", None)
    assert "inventory" in sources["beta"].notes[0]
    run.layout.source_status("beta").unlink()
    assert collect(run).sources["beta"].status.reason == "no readable status of the fetch step"
