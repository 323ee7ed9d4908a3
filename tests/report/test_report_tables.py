"""Means, intervals, ranks and exports."""

from __future__ import annotations

import dataclasses
import io
import math
from pathlib import Path

import make_scores as make
import numpy as np
import pandas as pd
import pytest

from medheb.core.status import OK
from medheb.embed.receipt import Receipt, write_receipt
from medheb.evaluate.score import METRICS, Metric, Score
from medheb.manifest.load import Run
from medheb.report.collect import collect
from medheb.report.exports import percent_columns
from medheb.report.sections import costs
from medheb.report.tables import (
    as_csv,
    family_table,
    includes_chance,
    leaderboard,
    mean_of,
    missing_table,
    task_table,
)


def a_score(task: str, family: str, value: float, half: float = 0.0) -> Score:
    metric = Metric(value=value, low=value - half, high=value + half, worst=value, chance=0.1)
    fields = {"model": "m", "task": task, "family": family, "form": "2d", "split": "id", "pool": "local"}
    return Score(**fields, status=OK, protocol="corrected", queries=9, metrics=dict.fromkeys(METRICS, metric))


@pytest.fixture
def run(tmp_path: Path) -> Run:
    made = make.small_run(tmp_path, per_family=2)
    make.fill(made, queries=12)
    return made


def test_families_count_alike_and_tasks_count_alike() -> None:
    scores = [a_score("a", "vqa", 0.9), a_score("b", "vqa", 0.3), a_score("c", "region", 0.0)]
    assert mean_of(scores, "hit@1", "families").value == pytest.approx(0.3)
    assert mean_of(scores, "hit@1", "tasks").value == pytest.approx(0.4)
    assert mean_of(scores, "hit@1", "tasks").chance == pytest.approx(0.1)


def test_one_task_keeps_its_own_interval_and_none_gives_no_number() -> None:
    mean = mean_of([a_score("a", "vqa", 0.4, 0.1)], "hit@1", "families")
    assert (mean.low, mean.high) == (pytest.approx(0.3), pytest.approx(0.5))
    assert math.isnan(mean_of([], "hit@1", "tasks").value)


def test_intervals_of_means_cover_the_truth_at_their_rate() -> None:
    """Simulation: eight tasks of 60 queries with Wilson intervals at 95 %; the mean is covered about as often."""
    rng = np.random.default_rng(5)
    truth = np.linspace(0.1, 0.9, 8)
    covered = 0
    for _ in range(2000):
        share = rng.binomial(60, truth) / 60
        z2 = 1.96**2
        centre = (share + z2 / 120) / (1 + z2 / 60)
        half = 1.96 * np.sqrt(share * (1 - share) / 60 + z2 / 14400) / (1 + z2 / 60)
        scores = []
        for number, (value, middle, reach) in enumerate(zip(share, centre, half, strict=True)):
            metric = Metric(value=value, low=middle - reach, high=middle + reach, worst=value, chance=0.1)
            scores.append(a_score(str(number), "vqa", value).model_copy(update={"metrics": {"hit@1": metric}}))
        mean = mean_of(scores, "hit@1", "tasks")
        covered += mean.low <= truth.mean() <= mean.high
    assert 0.93 <= covered / 2000 <= 0.975


def test_canaries_come_last_and_carry_no_rank(run: Run) -> None:
    board = leaderboard(collect(run))
    assert list(board["model"])[:2] == ["efficient", "dino"]
    assert list(board["canary"]) == [False, False, True, True]
    assert list(board["rank"].fillna(0)) == [1, 2, 0, 0]
    constant = board[board["model"] == "constant"].iloc[0]
    assert constant["hit@1_families_value"] == pytest.approx(constant["hit@1_families_chance"], abs=1e-12)


def test_means_say_how_many_tasks_they_hold_and_gaps_cost_the_rank(run: Run) -> None:
    run.layout.score("efficient", "vqa_2").unlink()
    board = leaderboard(collect(run)).set_index("model")
    assert (board.loc["efficient", "tasks"], board.loc["efficient", "tasks_expected"]) == (15, 16)
    assert not board.loc["efficient", "comparable"]
    assert pd.isna(board.loc["efficient", "rank"])
    assert board.loc["dino", "rank"] == 1
    families = family_table(collect(run)).set_index(["model", "family"])
    assert tuple(families.loc[("efficient", "vqa"), ["tasks", "tasks_expected"]]) == (1, 2)


def test_a_source_that_nobody_has_costs_no_rank(run: Run) -> None:
    make.block(run, "alpha")
    board = leaderboard(collect(run))
    assert list(board["rank"].fillna(0)) == [1, 2, 0, 0]
    assert set(board["tasks"]) == {8}
    assert set(board["tasks_expected"]) == {16}
    assert list(missing_table(collect(run))["cells"]) == [32]


def test_a_model_without_any_score_stays_in_the_table(run: Run) -> None:
    for task in run.tasks:
        run.layout.score("dino", task).unlink()
    board = leaderboard(collect(run)).set_index("model")
    assert board.loc["dino", "tasks"] == 0
    assert math.isnan(board.loc["dino", "hit@1_families_value"])
    assert list(board.index)[:2] == ["efficient", "dino"]
    assert not board.loc["dino", "comparable"]


def test_the_task_table_holds_every_cell_and_csv_every_digit(run: Run) -> None:
    run.layout.score("dino", "region_1").unlink()
    table = task_table(collect(run))
    assert len(table) == 64
    back = pd.read_csv(io.StringIO(as_csv(table)))
    row = back[(back["task"] == "region_1") & (back["model"] == "dino")].iloc[0]
    assert row["state"] == "failed"
    assert "no score file" in row["reason"]
    assert math.isnan(row["hit@1_value"])
    kept = table[table["state"] == "ok"]
    again = back[back["state"] == "ok"]
    assert (again["hit@1_value"].to_numpy() == kept["hit@1_value"].to_numpy()).all()


def test_within_a_task_models_come_as_the_leaderboard_has_them(run: Run) -> None:
    turned = dataclasses.replace(run, models=dict(reversed(run.models.items())))
    assert next(iter(turned.models)) == "constant"
    results = collect(turned)
    order = list(leaderboard(results)["model"])
    assert order[:2] == ["efficient", "dino"]
    table = task_table(results)
    assert [list(rows["model"]) for _, rows in table.groupby("task", sort=False)] == [order] * 16


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.05, 0.2, True),
        (0.1, 0.2, True),
        (0.0, 0.1, True),
        (0.1 + 1e-15, 0.2, True),
        (0.11, 0.2, False),
        (0.0, 0.09, False),
        (math.nan, math.nan, False),
    ],
)
def test_an_interval_includes_its_limits_and_none_includes_nothing(low: float, high: float, expected: bool) -> None:
    assert includes_chance(low, high, 0.1) is expected


def test_order_does_not_depend_on_the_order_of_models(run: Run) -> None:
    turned = dataclasses.replace(run, models=dict(reversed(run.models.items())))
    assert as_csv(leaderboard(collect(run))) == as_csv(leaderboard(collect(turned)))


def test_hours_of_gpus_count_every_gpu_and_are_null_without_one(run: Run) -> None:
    groups = run.groups
    fields = {"model": "dino", "status": OK, "dtype": "bfloat16", "seconds": 1800.0, "computed": 7}
    gpu = Receipt(group=groups[0], device="Some GPU", ranks=2, **fields)
    cpu = Receipt(group=groups[1], device="CPU", **fields)
    for receipt in (gpu, cpu):
        write_receipt(run.layout.embedded("dino", receipt.group), receipt)
    write_receipt(run.layout.embedded("efficient", groups[1]), cpu.model_copy(update={"model": "efficient"}))
    rows = {row["model"]: row for row in costs(collect(run))}
    assert rows["dino"]["gpu_hours"] == pytest.approx(1.0), "two GPUs for half an hour; the job on the CPU is none"
    assert rows["dino"]["embed_hours"] == pytest.approx(1.0)
    assert rows["dino"]["inputs"] == 14
    assert rows["dino"]["devices"] == ["CPU, bfloat16", "Some GPU, bfloat16"]
    assert rows["efficient"]["gpu_hours"] is None
    assert rows["random"]["gpu_hours"] is None
    assert math.isnan(rows["random"]["embed_hours"])


def test_shares_are_shown_in_per_cent_and_other_numbers_as_they_are() -> None:
    shown = percent_columns(pd.DataFrame({"hit": [0.5], "effective_rank": [17.25], "queries": [9], "no": [math.nan]}))
    assert shown.to_dict("records") == [{"hit": "50.0", "effective_rank": "17.2", "queries": "9", "no": ""}]
