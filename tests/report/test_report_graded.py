"""Graded results: tables 5 and 6, means with intervals, missing cells with reasons, no mixture in one table."""

from __future__ import annotations

import json
import math
from typing import Any

import make_scores as make
import pandas as pd
import pytest

from medheb.core.errors import MedhebError
from medheb.core.status import Status
from medheb.manifest.load import Run
from medheb.report.collect import collect
from medheb.report.graded import collect_graded, graded_table
from medheb.report.paper import long_table, paper_tables
from medheb.report.published import Published
from medheb.report.run import collect_report


def change(run: Run, model: str, key: str, /, **changes: Any) -> None:
    path = run.layout.graded(model, key)
    path.write_text(json.dumps(json.loads(path.read_bytes()) | changes))


def numbers(run: Run, number: str) -> pd.DataFrame:
    published = Published({("5", "dino", "ndcg@5", "severity"): 60.0}, {"dino": "Dino"}, names={"dino": "dino"})
    made = paper_tables(collect(run), published, collect_graded(run))
    found = long_table(next(one for one in made if one.spec.number == number))
    return found.set_index(["model", "metric", "column"])


def test_columns_are_means_over_their_graded_tasks(run: Run) -> None:
    severity = [key for key, entry in run.graded_entries.items() if entry.aspect == "severity"]
    assert len(severity) == 2
    for key, value in zip(severity, (0.6, 0.8), strict=True):
        make.graded_cell(run, "dino", key, value)
    five = numbers(run, "5")
    row = five.loc[("dino", "ndcg@5", "severity")]
    assert row["value"] == pytest.approx(70)
    assert (row["tasks"], row["tasks_expected"], row["published"]) == (2, 2, 60.0)
    assert row["difference"] == pytest.approx(10)
    assert math.isnan(five.loc[("dino", "ndcg@5", "diagnosis")]["value"]), "no task of the run is graded so"
    rest = 100 * (0.3 + 0.6 * make.SKILLS["dino"])
    assert five.loc[("dino", "ndcg@5", "graded")]["value"] == pytest.approx((60 + 80 + 2 * rest) / 4)
    six = numbers(run, "6")
    assert six.loc[("dino", "hit@5", "cross-source")]["value"] == pytest.approx(rest)


def test_the_interval_of_a_mean_joins_those_of_its_tasks(run: Run) -> None:
    mean, held, expected = collect_graded(run).mean("dino", "severity", "ndcg@5")
    assert (held, expected) == (2, 2)
    assert mean.high - mean.value == pytest.approx(0.05 / math.sqrt(2))
    assert mean.chance == pytest.approx(0.3)


def test_a_missing_cell_says_why_and_its_mean_how_many_it_has(run: Run) -> None:
    key = next(iter(run.graded_entries))
    run.layout.graded("dino", key).unlink()
    blocked = Status(state="blocked", origin="fetch beta", reason="terms not accepted", remedy="Accept them")
    change(run, "efficient", key, status=blocked.model_dump(), metrics={}, queries=0)
    graded = collect_graded(run)
    reasons = {cell.model.id: cell.status.reason for cell in graded.missing}
    assert reasons == {
        "dino": "there is no graded score file: it was not evaluated",
        "efficient": "terms not accepted",
    }
    row = numbers(run, "5").loc[("dino", "ndcg@5", "severity")]
    assert (row["tasks"], row["tasks_expected"]) == (1, 2)
    assert math.isnan(row["difference"])
    collect_report(run)
    page = (run.layout.report / "index.html").read_text(encoding="utf-8")
    for said in ("Missing graded results", "terms not accepted", "it was not evaluated", "1 of 2 tasks"):
        assert said in page
    content = json.loads((run.layout.report / "summary.json").read_bytes())
    assert {entry["model"] for entry in content["graded"]["missing"]} == {"dino", "efficient"}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"protocol": "release"}, "is for protocol 'release', not 'corrected'"),
        ({"rule": "0" * 64}, "is for rule of gains '000000000000', not"),
        ({"task_digest": "other"}, "is of other data than that of model"),
    ],
)
def test_results_of_two_kinds_are_not_put_into_one_table(run: Run, changes: dict[str, Any], said: str) -> None:
    key = next(iter(run.graded_entries))
    change(run, "constant", key, **changes)
    with pytest.raises(MedhebError, match=rf"{key}\.json") as caught:
        collect_graded(run)
    assert said in str(caught.value)
    assert "run the graded evaluation again" in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"schema_version": 9}, "has schema version 9, not 1"),
        ({"model": "other"}, "is for model 'other'"),
        ({"queries": 0}, "holds 0 queries"),
        ({"metrics": {}}, "lacks metric ndcg@5"),
        ({"tied_fraction": math.nan}, "holds tied_fraction nan, not a number from 0 to 1"),
        (
            {"metrics": {"ndcg@5": {"value": -1, "low": 0, "high": 1, "worst": 0, "chance": 0}}},
            "holds ndcg@5 value -1.0, not a number from 0 to 1",
        ),
    ],
)
def test_a_damaged_score_becomes_a_missing_cell(run: Run, changes: dict[str, Any], said: str) -> None:
    key = next(iter(run.graded_entries))
    change(run, "dino", key, **changes)
    (cell,) = collect_graded(run).missing
    assert (cell.model.id, cell.entry.key, cell.status.state) == ("dino", key, "failed")
    assert said in cell.status.reason


def test_reasons_of_a_restricted_source_are_withheld(run: Run) -> None:
    datasets = {key: item.model_copy(update={"show_content": False}) for key, item in run.datasets.items()}
    run.datasets.update(datasets)
    status = Status(state="failed", origin="x", reason="row of p10/p10032725/a.png 'Edema'", remedy="Mend it")
    change(run, "dino", "graded_across", status=status.model_dump(), metrics={}, queries=0)
    collect_report(run)
    for path in run.layout.report.rglob("*"):
        if path.is_file() and path.suffix in {".html", ".json", ".csv"}:
            assert not {"10032725", "Edema"} & set(path.read_text(encoding="utf-8").replace("/", " ").split()), path


def test_warnings_of_a_graded_score_stand_beside_it(run: Run) -> None:
    change(run, "dino", "graded_across", warnings=["memory of a device ran out: batches of 512 tokens"])
    collect_report(run)
    assert "memory of a device ran out" in (run.layout.report / "index.html").read_text(encoding="utf-8")


def test_exported_table_holds_every_cell(run: Run) -> None:
    collect_report(run)
    table = pd.read_csv(run.layout.report / "tables" / "graded.csv")
    assert len(table) == len(run.graded_entries) * len(run.models)
    own = graded_table(collect_graded(run))
    assert list(table["ndcg@5_value"]) == pytest.approx(list(own["ndcg@5_value"]))
    assert set(table["relation"]) == {entry.aspect for entry in run.graded_entries.values()}
