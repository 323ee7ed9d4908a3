"""Intervals cover the truth at their rate, tests err at theirs: by simulation, from seeds."""

from __future__ import annotations

import dataclasses
import itertools
import math
import time

import make_scores as make
import numpy as np
import pandas as pd
import pytest

from medheb.evaluate.metrics import interval
from medheb.manifest.load import Run
from medheb.report.collect import collect
from medheb.report.per_query import load_values
from medheb.report.significance import OVERALL, pair_table, significance, standing_table
from medheb.report.statistics import (
    Estimate,
    family_weights,
    holm,
    over_queries,
    over_tasks,
    paired_moments,
    rank_intervals,
    tie_groups,
)

FAMILIES = ["a"] * 6 + ["b"] * 9 + ["c"] * 5


def test_the_interval_of_one_task_covers_at_its_rate() -> None:
    rng = np.random.default_rng(3)
    covered = 0
    for round_ in range(500):
        values = (rng.random(150) < 0.35).astype(float)
        low, high = interval(values, 0.95, 400, round_)
        covered += low <= 0.35 <= high
    assert 0.92 <= covered / 500 <= 0.975


@pytest.mark.parametrize("queries", [20, 200])
def test_the_interval_over_tasks_and_queries_covers_the_mean_of_all_tasks_of_the_kind(queries: int) -> None:
    """Tasks are drawn from their family's population, queries from each task; the truth is the population's mean."""
    rng = np.random.default_rng(8)
    shape = {"a": (2, 5), "b": (4, 3), "c": (1.5, 6)}
    truth = np.mean([first / (first + second) for first, second in shape.values()])
    weights = family_weights(FAMILIES)
    covered = 0
    for _ in range(2000):
        skill = np.array([rng.beta(*shape[family]) for family in FAMILIES])
        low, high = over_tasks(rng.binomial(queries, skill) / queries, FAMILIES, weights).interval(0.95)
        covered += low <= truth <= high
    assert 0.93 <= covered / 2000 <= 0.97


def two_models(rng: np.random.Generator, gap: float, queries: int, shared: float = 0.5) -> np.ndarray:
    """Two models on one task, right or wrong together on a share of the queries. [2, queries]"""
    first, second = rng.random((2, queries))
    second = np.where(rng.random(queries) < shared, first, second)
    return np.stack([first < 0.3 + gap, second < 0.3]).astype(float)


@pytest.mark.parametrize("queries", [6, 40])
def test_the_paired_interval_covers_the_difference_and_the_test_errs_at_its_level(queries: int) -> None:
    rng = np.random.default_rng(21)
    weights = family_weights(FAMILIES)
    covered = wrong = 0
    for _ in range(1500):
        moments = [paired_moments(two_models(rng, 0.1, queries)) for _ in FAMILIES]
        estimate = over_queries(
            np.array([d[0, 1] for d, _ in moments]), np.array([v[0, 1] for _, v in moments]), weights
        )
        low, high = estimate.interval(0.95)
        covered += low <= 0.1 <= high
        moments = [paired_moments(two_models(rng, 0.0, queries)) for _ in FAMILIES]
        estimate = over_queries(
            np.array([d[0, 1] for d, _ in moments]), np.array([v[0, 1] for _, v in moments]), weights
        )
        wrong += estimate.p < 0.05
    # The variance errs on the safe side where there are few queries.
    assert 0.935 <= covered / 1500 <= 0.99
    assert wrong / 1500 <= 0.065


def test_pairing_sees_a_difference_that_two_separate_intervals_would_hide() -> None:
    rng = np.random.default_rng(2)
    base = rng.random(400) < 0.5
    better = base.copy()
    better[np.flatnonzero(~base)[:16]] = True
    difference, variance = paired_moments(np.stack([better, base]).astype(float))
    estimate = over_queries(difference[:1, 1], variance[:1, 1], np.ones(1))
    assert estimate.value == pytest.approx(0.04)
    assert estimate.p < 0.001
    assert interval(better.astype(float), 0.95, 500, 1)[0] < base.mean()


def test_all_ranks_lie_in_their_intervals_at_once() -> None:
    rng = np.random.default_rng(13)
    skill = np.array([0.5, 0.47, 0.46, 0.4, 0.3])
    weights = family_weights(FAMILIES)
    held = tight = 0
    for _ in range(400):
        moments = [paired_moments((rng.random((5, 60)) < skill[:, None]).astype(float)) for _ in FAMILIES]
        better = better_of(moments, weights)
        found = rank_intervals(better)
        held += all(low <= rank <= high for rank, (low, high) in enumerate(found, start=1))
        tight += sum(high - low for low, high in found)
    assert held / 400 >= 0.94
    assert tight / 400 < 10, "intervals that say nothing would cover too"


def better_of(moments: list[tuple[np.ndarray, np.ndarray]], weights: np.ndarray) -> np.ndarray:
    pairs = list(itertools.combinations(range(5), 2))
    found = [
        over_queries(np.array([d[i, j] for d, _ in moments]), np.array([v[i, j] for _, v in moments]), weights)
        for i, j in pairs
    ]
    better = np.zeros((5, 5), bool)
    for (i, j), estimate, p in zip(pairs, found, holm([estimate.p for estimate in found]), strict=True):
        if p < 0.05:
            better[(i, j) if estimate.value > 0 else (j, i)] = True
    return better


def test_of_equal_models_none_is_called_better_more_often_than_the_level_allows() -> None:
    rng = np.random.default_rng(34)
    weights = family_weights(FAMILIES)
    wrong = 0
    for _ in range(400):
        moments = [paired_moments((rng.random((5, 40)) < 0.4).astype(float)) for _ in FAMILIES]
        wrong += better_of(moments, weights).any()
    assert wrong / 400 <= 0.07


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    with_none = holm([math.nan, 0.02, 0.01])
    assert math.isnan(with_none[0])
    assert with_none[1:] == pytest.approx([0.02, 0.02])
    assert holm([]) == []


def test_ranks_and_tie_groups_by_hand() -> None:
    better = np.zeros((4, 4), bool)
    better[0, 2] = better[0, 3] = better[1, 3] = better[2, 3] = True
    assert rank_intervals(better) == [(1, 2), (1, 3), (2, 3), (4, 4)]
    assert tie_groups(better) == ["a", "ab", "b", "c"]
    assert tie_groups(np.zeros((3, 3), bool)) == ["a", "a", "a"]
    assert tie_groups(np.zeros((0, 0), bool)) == []


def test_a_family_of_one_task_says_nothing_about_other_tasks() -> None:
    estimate = over_tasks(np.array([0.2, 0.4, 0.6]), ["a", "a", "b"], family_weights(["a", "a", "b"]))
    assert estimate.value == pytest.approx(0.45)
    assert math.isnan(estimate.p)
    assert all(math.isnan(limit) for limit in estimate.interval(0.95))


def test_equal_numbers_are_no_difference_and_no_warning() -> None:
    assert Estimate(0.0, math.nan).p == 1.0
    same, variance = paired_moments(np.full((3, 7), 0.25))
    assert not same.any()
    assert (variance > 0).all()
    alone, spread = paired_moments(np.array([[1.0], [0.0]]))
    assert over_queries(alone[:1, 1], spread[:1, 1], np.ones(1)).p > 0.05


@pytest.fixture
def several(tmp_path_factory: pytest.TempPathFactory) -> Run:
    made = make.small_run(tmp_path_factory.mktemp("several"), per_family=3)
    make.fill(made, queries=30)
    return made


def test_the_better_model_is_found_and_canaries_are_not_compared(several: Run) -> None:
    results = collect(several)
    found = significance(results, load_values(results, "hit@1"))
    assert found.left_out == ()
    (pair,) = found.pairs[OVERALL]
    assert (pair.first, pair.second, pair.tasks) == ("efficient", "dino", 24)
    assert pair.these.value == pytest.approx(found.standings[OVERALL][0].value - found.standings[OVERALL][1].value)
    assert pair.these_p < 0.001
    rows = standing_table(found)
    overall = rows[rows["scope"] == OVERALL]
    assert list(overall["rank_low"]) == list(overall["rank_high"]) == [1, 2]
    assert list(overall["group"]) == ["a", "b"]
    assert (overall["such_low"] <= overall["value"]).all()
    assert set(rows["scope"]) == {OVERALL, *{task.family for task in several.tasks.values()}}
    pairs = pair_table(found)
    assert len(pairs) == 9
    assert (pairs["p_corrected"] >= pairs["p"]).all()


def test_models_are_compared_on_the_tasks_that_both_hold_and_ranked_only_if_complete(several: Run) -> None:
    several.layout.score("efficient", "vqa_1").unlink()
    results = collect(several)
    found = significance(results, load_values(results, "hit@1"))
    assert found.pairs[OVERALL][0].tasks == 23
    assert [row.model for row in found.standings[OVERALL]] == ["dino"]
    assert [row.model for row in found.standings["region"]] == ["efficient", "dino"]


def test_per_query_results_that_do_not_fit_are_left_out_and_named(several: Run) -> None:
    several.layout.per_query("dino", "vqa_1").write_bytes(b"PAR1")
    several.layout.per_query("dino", "vqa_2").unlink()
    for name, column, value in (("vqa_3", "hit@1", math.nan), ("region_1", "hit@1", -0.5), ("region_2", "row", 3)):
        path = several.layout.per_query("dino", name)
        table = pd.read_parquet(path)
        table.loc[0, column] = value
        table.to_parquet(path, index=False)
    path = several.layout.per_query("dino", "region_3")
    table = pd.read_parquet(path)
    table["hit@1"] = 1.0
    table.to_parquet(path, index=False)
    results = collect(several)
    found = significance(results, load_values(results, "hit@1"))
    said = "\n".join(found.left_out)
    assert "dino on vqa_1: its per-query results cannot be read" in said
    assert "dino on vqa_2: its per-query results are missing" in said
    assert "dino on vqa_3: its per-query results hold numbers that are not from 0 to 1" in said
    assert "dino on region_1: its per-query results hold numbers that are not from 0 to 1" in said
    assert "dino on region_2: its per-query results are not the 30 queries of its score" in said
    assert "dino on region_3: its per-query results do not give its hit@1" in said
    assert said.count("run the evaluation again") == 6
    assert found.pairs[OVERALL][0].tasks == 18
    assert "vqa" not in found.pairs or not found.pairs["vqa"]


def test_one_query_and_all_ties_give_no_verdict_and_no_error(tmp_path_factory: pytest.TempPathFactory) -> None:
    run = make.small_run(tmp_path_factory.mktemp("one"))
    make.fill(run, queries=1, skills={"efficient": 1.0})
    results = collect(run)
    found = significance(results, load_values(results, "hit@1"))
    rows = standing_table(found)
    assert rows["such_low"].isna().all()
    assert (rows[rows["scope"] != OVERALL]["rank_high"] == 2).all()
    constant = dataclasses.replace(run, models={key: run.models[key] for key in ("random", "constant")})
    results = collect(constant)
    assert significance(results, load_values(results, "hit@1")).pairs[OVERALL] == []
    assert standing_table(significance(results, load_values(results, "hit@1"))).empty


def test_ten_models_on_the_full_benchmark_take_seconds() -> None:
    rng = np.random.default_rng(1)
    values = [(rng.random((10, 703)) < 0.3).astype(float) for _ in range(107)]
    started = time.monotonic()
    for task in values:
        paired_moments(task)
    assert time.monotonic() - started < 5


def test_tables_without_a_pair_keep_their_columns(run: Run) -> None:
    canaries = {key: model for key, model in run.models.items() if model.canary}
    alone, both = (collect(dataclasses.replace(run, models=models)) for models in (canaries, run.models))
    for table in (pair_table, standing_table):
        none, some = (table(significance(results, load_values(results, "hit@1"))) for results in (alone, both))
        assert (len(none), len(some) > 0) == (0, True)
        assert list(none.columns) == list(some.columns)
