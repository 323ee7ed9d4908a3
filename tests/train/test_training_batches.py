"""Dynamic batches: bounds, every pair once, the same from run to run, little padding."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medheb.train.batching import Budget, best_fit, padding, shuffled, steps, with_partners
from medheb.train.sides import groups_of, padded_tokens

LENGTHS = st.lists(st.integers(1, 400), min_size=1, max_size=200)


def plan(lengths: list[int], budget: Budget, seed: int = 1) -> list[list[int]]:
    return list(with_partners(best_fit(shuffled(len(lengths), seed), lengths, budget), lengths, budget))


@settings(max_examples=80, deadline=None)
@given(LENGTHS, st.integers(1, 12), st.integers(1, 30), st.integers(2, 40), st.integers(0, 5))
def test_every_pair_once_and_within_bounds(lengths: list[int], nominal: int, many: int, most: int, seed: int) -> None:
    budget = Budget(2 * nominal * 400, most, many)
    batches = plan(lengths, budget, seed)
    assert sorted(pair for batch in batches for pair in batch) == list(range(len(lengths)))
    for batch in batches:
        assert 2 * len(batch) * max(lengths[pair] for pair in batch) <= 2 * nominal * 400
        assert len(batch) <= most
    assert batches == plan(lengths, budget, seed)


def test_order_depends_on_the_seed_alone() -> None:
    lengths = [random.Random(3).randint(1, 300) for _ in range(500)]
    budget = Budget(2 * 4 * 300, 64, 16)
    assert plan(lengths, budget, 1) == plan(lengths, budget, 1)
    assert plan(lengths, budget, 1) != plan(lengths, budget, 2)


def test_a_pair_over_the_budget_is_refused() -> None:
    with pytest.raises(ValueError, match="over the budget"):
        plan([10, 90], Budget(100, 8, 4))


def test_padding_of_a_mix() -> None:
    draw = random.Random(5)
    mix = [draw.choice((draw.randint(8, 40), draw.randint(80, 320), draw.randint(600, 900), 4896)) for _ in range(4000)]
    budget = Budget(2 * 4 * 8192, 256, 64)
    order = shuffled(len(mix), 1)
    fixed = [order[start : start + 8] for start in range(0, len(order), 8)]
    assert padding(plan(mix, budget), mix) < 1.1 < 2 < padding(fixed, mix)


def test_single_pairs_are_joined() -> None:
    budget = Budget(2 * 2 * 100, 8, 1)
    lengths = [100, 10, 100, 10]
    batches = list(with_partners([[0], [1], [2], [3]], lengths, budget))
    assert batches == [[0, 1], [2, 3]]
    assert list(with_partners([[0], [1]], [100, 100], Budget(200, 8, 1))) == [[0], [1]]


@settings(max_examples=80, deadline=None)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=20), st.integers(1, 6), st.integers(0, 20))
def test_ranks_share_the_batches(sizes: list[int], ranks: int, start: int) -> None:
    numbers = iter(range(sum(sizes)))
    batches = [[next(numbers) for _ in range(size)] for size in sizes]
    start = min(start, len(batches))
    done = list(steps(batches, ranks, start))
    assert all(len(step) == ranks for step in done)
    taken = [pair for step in done for batch in step for pair in batch]
    assert sorted(taken) == sorted(pair for batch in batches[start:] for pair in batch)
    left = sum(len(batch) for batch in batches[len(batches) - (len(batches) - start) % ranks :])
    idle = sum(not batch for step in done for batch in step)
    assert idle == (max(0, ranks - left) if (len(batches) - start) % ranks else 0)


def test_fewer_ranks_after_a_stop_do_what_is_left() -> None:
    batches = [[number] for number in range(10)]
    first = [batch for step in list(steps(batches, 4))[:2] for batch in step]
    rest = [batch for step in steps(batches, 3, start=8) for batch in step if batch]
    assert sorted(first + rest) == batches


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 500), min_size=1, max_size=60))
def test_groups_hold_everything_and_never_cost_more_than_one(lengths: list[int]) -> None:
    groups = groups_of(lengths)
    assert sorted(number for group in groups for number in group) == list(range(len(lengths)))
    assert sum(lengths) <= padded_tokens(lengths) <= len(lengths) * max(lengths)
    assert len(groups) <= 3
    if sum(lengths) < 0.97 * len(lengths) * max(lengths) and len(set(lengths)) <= 3:
        assert padded_tokens(lengths) <= 1.05 * sum(lengths)
