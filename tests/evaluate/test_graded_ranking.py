"""Graded values against brute force, theory and hand-made pools."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medheb.evaluate.graded_ranking import CUTOFFS, GRADED_METRICS, interval_by_query, rank_graded, tie_groups
from medheb.evaluate.metrics import interval

GAINS = st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=2, max_size=6).filter(any)


def plain_value(metric: str, ordered: list[float], full: float) -> float:
    """A metric of one order, as textbooks write it."""
    cutoff = CUTOFFS[metric]
    if metric.startswith("hit"):
        return float(any(gain >= full for gain in ordered[:cutoff]))

    def dcg(gains: list[float]) -> float:
        return sum(gain / np.log2(place + 2) for place, gain in enumerate(gains[:cutoff]))

    return dcg(ordered) / dcg(sorted(ordered, reverse=True))


def orders(scores: list[int], gains: list[float]) -> list[list[float]]:
    """Every order that the scores allow."""
    places = range(len(scores))
    allowed = [
        order
        for order in itertools.permutations(places)
        if all(scores[one] >= scores[other] for one, other in itertools.pairwise(order))
    ]
    return [[gains[place] for place in order] for order in allowed]


@settings(deadline=None)  # a busy machine is no fault
@given(gains=GAINS, data=st.data(), full=st.sampled_from([0.25, 1.0]))
def test_expected_and_worst_equal_brute_force(gains: list[float], data: st.DataObject, full: float) -> None:
    scores = data.draw(st.lists(st.integers(0, 2), min_size=len(gains), max_size=len(gains)))
    rank = rank_graded(np.array(scores, dtype=np.float32), np.array(gains), full, 1e-6)
    for metric in GRADED_METRICS:
        values = [plain_value(metric, order, full) for order in orders(scores, gains)]
        assert rank.value[metric] == pytest.approx(np.mean(values))
        assert rank.worst[metric] == pytest.approx(min(values))


@settings(deadline=None)  # a busy machine is no fault
@given(gains=GAINS)
def test_a_constant_model_scores_chance_and_chance_is_the_mean_over_all_orders(gains: list[float]) -> None:
    rank = rank_graded(np.zeros(len(gains), dtype=np.float32), np.array(gains), 1.0, 0.0)
    for metric in GRADED_METRICS:
        every = [plain_value(metric, list(order), 1.0) for order in itertools.permutations(gains)]
        assert rank.value[metric] == rank.chance[metric] == pytest.approx(np.mean(every))


def test_the_best_order_is_one_and_partial_credit_counts() -> None:
    gains = np.array([0.0, 1.0, 0.5])
    best = rank_graded(np.array([0.1, 0.9, 0.5], dtype=np.float32), gains, 1.0, 1e-6)
    assert best.value == pytest.approx(dict.fromkeys(GRADED_METRICS, 1.0))
    swapped = rank_graded(np.array([0.1, 0.5, 0.9], dtype=np.float32), gains, 1.0, 1e-6)
    discount = 1 / np.log2(3)
    assert swapped.value["ndcg@5"] == pytest.approx((0.5 + discount) / (1 + 0.5 * discount))
    assert (swapped.value["hit@1"], swapped.value["hit@5"]) == (0.0, 1.0)
    assert not best.tied


def test_random_scores_score_chance_on_average() -> None:
    rng = np.random.default_rng(3)
    gains = np.array([1.0, 0.5, 0.5, *[0.0] * 9])
    found = [rank_graded(rng.random(12, dtype=np.float32), gains, 1.0, 1e-6) for _ in range(4000)]
    for metric in GRADED_METRICS:
        values = np.array([rank.value[metric] for rank in found])
        assert abs(values.mean() - found[0].chance[metric]) < 4 * values.std() / np.sqrt(len(values))


def test_ties_within_one_gain_are_no_ties_that_matter() -> None:
    scores = np.array([0.9, 0.5, 0.5], dtype=np.float32)
    assert not rank_graded(scores, np.array([1.0, 0.0, 0.0]), 1.0, 1e-6).tied
    assert rank_graded(scores, np.array([1.0, 0.5, 0.0]), 1.0, 1e-6).tied
    assert [len(group) for group in tie_groups(scores, 1e-6, 10)] == [1, 2]
    assert [len(group) for group in tie_groups(scores, 1e-6, 1)] == [1], "what cannot be among the first is left out"
    assert [len(group) for group in tie_groups(scores[1:], 1e-6, 1)] == [2], "a group that reaches in is whole"


@pytest.mark.parametrize(
    ("scores", "gains", "said"),
    [([0.5, np.nan], [1.0, 0.0], "not finite"), ([0.5, 0.4], [0.0, 0.0], "no candidate of the pool has a gain")],
)
def test_what_cannot_be_ranked_is_refused(scores: list[float], gains: list[float], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        rank_graded(np.array(scores, dtype=np.float32), np.array(gains), 1.0, 1e-6)


def test_rows_that_ask_the_same_are_drawn_together() -> None:
    """Thirty queries of ten rows each: the interval covers the truth at its rate, one over single rows does not."""
    rng = np.random.default_rng(5)
    queries = np.repeat(np.arange(30), 10)
    covered, alone = 0, 0
    for round_ in range(300):
        values = np.clip(rng.normal(0.5, 0.15, 30)[queries] + rng.normal(0, 0.02, 300), 0, 1)
        low, high = interval_by_query(values, queries, 0.95, 300, round_)
        covered += low <= 0.5 <= high
        low, high = interval_by_query(values, np.arange(300), 0.95, 300, round_)
        alone += low <= 0.5 <= high
    assert 0.9 <= covered / 300 <= 0.98
    assert alone / 300 < 0.7


def test_intervals_of_few_or_equal_values() -> None:
    values, each = np.array([0.2, 0.4, 0.9, 0.7]), np.arange(4)
    assert interval_by_query(values, each, 0.95, 200, 1) == interval(values, 0.95, 200, 1)
    assert interval_by_query(values, np.zeros(4, dtype=int), 0.95, 200, 1) == (0.0, 1.0), "one query tells nothing"
    low, high = interval_by_query(np.zeros(40), np.repeat(np.arange(4), 10), 0.95, 200, 1)
    assert (low, high > 0.5) == (0.0, True), "four queries that miss may be luck"
