"""Batches: within the budget, little padding, and the same whatever was done before."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medheb.embed.plan import Batch, plan_batches, plan_digest
from medheb.models.base import Rendered

Lengths = list[tuple[int, bool]]


def planned(lengths: Lengths, budget: int, most: int = 50, without: frozenset[str] = frozenset()) -> list[Batch]:
    parts, tokens = {}, {}
    for number, (length, image) in enumerate(lengths):
        part = Rendered("image" if image else "text", text=f"{number}")
        if part.key not in without:
            parts[part.key], tokens[part.key] = part, length
    return plan_batches(parts, tokens, budget, most)


LENGTHS = st.lists(st.tuples(st.integers(1, 300), st.booleans()), min_size=1, max_size=120)


@given(lengths=LENGTHS, budget=st.integers(1, 1000))
def test_every_part_once_within_the_budget_longest_first(lengths: Lengths, budget: int) -> None:
    batches = planned(lengths, budget)
    assert sorted(key for batch in batches for key in batch.keys) == sorted(
        Rendered("image" if image else "text", text=f"{number}").key for number, (_, image) in enumerate(lengths)
    )
    for batch in batches:
        assert batch.tokens[0] == max(batch.tokens)
        assert len(batch.keys) == 1 or len(batch.keys) * batch.tokens[0] <= budget
        assert len({part.modality for part in batch.parts}) == 1
    firsts = [batch.tokens[0] for batch in batches]
    assert firsts == sorted(firsts, reverse=True)


@given(lengths=LENGTHS, budget=st.integers(1, 1000), seed=st.integers(0, 99))
def test_batches_that_are_done_leave_the_others_as_they_were(lengths: Lengths, budget: int, seed: int) -> None:
    batches = planned(lengths, budget)
    done = random.Random(seed).sample(batches, len(batches) // 2)
    left = planned(lengths, budget, without=frozenset(key for batch in done for key in batch.keys))
    assert left == [batch for batch in batches if batch not in done]


def test_order_of_inputs_has_no_influence() -> None:
    lengths = [(random.Random(3).randint(1, 80), True) for _ in range(60)]
    parts = {Rendered("image", text=f"{number}").key: Rendered("image", text=f"{number}") for number in range(60)}
    tokens = dict(zip(parts, [length for length, _ in lengths], strict=True))
    shuffled = dict(random.Random(4).sample(list(parts.items()), 60))
    assert plan_digest(plan_batches(parts, tokens, 200, 50)) == plan_digest(plan_batches(shuffled, tokens, 200, 50))


@pytest.mark.parametrize(
    ("count", "budget", "sizes"), [(1, 3, [1]), (2, 50, [1, 1]), (5, 50, [3, 2]), (3, 7, [1, 1, 1])]
)
def test_smaller_batches_of_a_batch(count: int, budget: int, sizes: list[int]) -> None:
    (batch,) = planned([(7, True)] * count, 100)
    assert [len(half.keys) for half in batch.smaller(budget)] == sizes
    assert [key for half in batch.smaller(budget) for key in half.keys] == list(batch.keys)
