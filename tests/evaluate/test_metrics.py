"""The closed form against theory and against brute force."""

import itertools
import math

import numpy as np
import pytest
from by_definition import value_of
from hypothesis import given
from hypothesis import strategies as st

from medheb.evaluate.metrics import chance, expected, interval, optimistic, worst
from medheb.evaluate.score import METRICS


def brute_force(metric: str, above: int, tied: int, positives: int) -> float:
    """Mean over every placement of the positives among the tied candidates."""
    return float(
        np.mean(
            [
                value_of(metric, [above + 1 + place for place in places], positives)
                for places in itertools.combinations(range(tied), positives)
            ]
        )
    )


@given(
    metric=st.sampled_from(METRICS),
    above=st.integers(0, 7),
    counts=st.integers(1, 9).flatmap(lambda tied: st.tuples(st.just(tied), st.integers(1, tied))),
)
def test_expected_equals_brute_force(metric: str, above: int, counts: tuple[int, int]) -> None:
    tied, positives = counts
    assert expected(metric, above, tied, positives) == pytest.approx(brute_force(metric, above, tied, positives))


@given(metric=st.sampled_from(METRICS), above=st.integers(0, 20), tied=st.integers(1, 50))
def test_worst_expected_optimistic_are_ordered(metric: str, above: int, tied: int) -> None:
    value = expected(metric, above, tied, 1)
    assert worst(metric, above, tied, 1) <= value + 1e-12
    assert value <= optimistic(metric, above) + 1e-12


def test_constant_model_on_fourteen_labels() -> None:
    assert chance("hit@1", 14, 1) == pytest.approx(1 / 14)
    assert chance("hit@5", 14, 1) == pytest.approx(5 / 14)
    assert chance("mrr@5", 14, 1) == pytest.approx((1 + 1 / 2 + 1 / 3 + 1 / 4 + 1 / 5) / 14)
    assert chance("ndcg@5", 14, 1) == pytest.approx(sum(1 / math.log2(1 + rank) for rank in range(1, 6)) / 14)


@pytest.mark.parametrize("counts", [(0, 0, 1), (-1, 2, 1), (0, 2, 3)])
def test_impossible_counts_are_refused(counts: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="impossible counts"):
        expected("hit@1", *counts)


def test_interval_holds_its_mean_and_is_seeded() -> None:
    values = np.array([0.0, 1.0, 1.0, 0.0, 1.0, 1.0])
    low, high = interval(values, 0.95, 500, seed=3)
    assert low < values.mean() < high
    assert (low, high) == interval(values, 0.95, 500, seed=3)


def test_interval_of_equal_values_and_of_one_query() -> None:
    assert interval(np.full(9, 0.1), 0.95, 200, seed=0) == pytest.approx((0.1, 0.1))
    assert interval(np.array([1.0]), 0.95, 200, seed=0) == (0.0, 1.0)


def test_interval_of_a_model_that_always_misses_says_what_n_queries_can_tell() -> None:
    low, high = interval(np.zeros(37), 0.95, 200, seed=0)
    assert low == 0.0
    assert high == pytest.approx(1 - 0.025 ** (1 / 37))
    assert interval(np.ones(37), 0.95, 200, seed=0) == pytest.approx((1 - high, 1.0))


def test_interval_covers_the_truth_at_the_stated_rate() -> None:
    rng = np.random.default_rng(5)
    covered = 0
    for trial in range(200):
        low, high = interval(rng.binomial(1, 0.4, size=120).astype(float), 0.95, 300, seed=trial)
        covered += low <= 0.4 <= high
    assert 0.88 <= covered / 200 <= 1.0
