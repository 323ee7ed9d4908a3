"""Which slices are kept: the published rules at tricky lengths, and what must hold for every length."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medheb.imaging.sampling import (
    listed_indices,
    middle_indices,
    range_indices,
    slots_of,
    uniform_indices,
    up_to_indices,
)

FACTS = Path(__file__).resolve().parents[3] / "shared" / "spec" / "data"
needs_facts = pytest.mark.skipif(not FACTS.is_dir(), reason=f"no recorded facts of the published scripts at {FACTS}")


@pytest.mark.parametrize(
    ("total", "slot", "index"),
    # Places where float64 falls just short of a whole number: exact arithmetic gives one more.
    [(154, 21, 50), (154, 42, 101), (154, 49, 118), (178, 42, 117), (260, 54, 221), (307, 57, 276)],
)
def test_float_rounding_is_kept(total: int, slot: int, index: int) -> None:
    assert uniform_indices(0, total - 1, 64)[slot] == index
    assert slot * (total - 1) // 63 in (index, index + 1)


@pytest.mark.parametrize(
    ("total", "head", "tail", "distinct"),
    [
        (1, [0, 0, 0], [0, 0], 1),
        (10, [0, 0, 0, 0, 0, 0, 0, 1], [8, 8, 8, 9], 10),
        (30, [0, 0, 0, 1, 1, 2, 2, 3], [27, 28, 28, 29], 30),
        (64, [0, 1, 2, 3], [61, 62, 63], 64),
        (65, [0, 1, 2, 3, 4, 5, 6, 7], [60, 61, 62, 64], 64),
        (100, [0, 1, 3, 4, 6, 7, 9, 11], [94, 95, 97, 99], 64),
        (155, [0, 2, 4, 7, 9, 12, 14, 17], [146, 149, 151, 154], 64),
        (256, [0, 4, 8], [242, 246, 250, 255], 64),
        (1617, [0, 25, 51, 76, 102, 128, 153, 179], [1539, 1564, 1590, 1616], 64),
    ],
)
def test_sixty_four_of_all_slices(total: int, head: list[int], tail: list[int], distinct: int) -> None:
    indices = uniform_indices(0, total - 1, 64)
    assert indices[: len(head)] == head
    assert indices[-len(tail) :] == tail
    assert len(set(indices)) == distinct


def test_a_list_shorter_than_the_slots_is_rounded_or_cut() -> None:
    informative = [3, 5, 6, 9, 20]
    rounded, cut = (listed_indices(informative, 40, 64, short) for short in ("round", "floor"))
    places = np.arange(64) * 4 / 63
    assert rounded == [informative[int(place + 0.5)] for place in places]
    assert cut == [informative[int(place)] for place in places]
    assert rounded != cut


def test_a_list_as_long_as_the_slots_is_cut() -> None:
    informative = list(range(100, 200))
    assert listed_indices(informative, 300, 64) == listed_indices(informative, 300, 64, "floor")
    assert listed_indices(informative, 300, 64) == [100 + index for index in uniform_indices(0, 99, 64)]


def test_half_places_round_to_even() -> None:
    # 33 slots over 17 slices: places 0, 0.5, 1, 1.5, 2, 2.5 ...
    assert listed_indices(list(range(17)), 17, 33)[:6] == [0, 0, 1, 2, 2, 2]


def test_without_informative_slices_all_count() -> None:
    assert listed_indices([], 90, 64) == range_indices([], 90, 64) == uniform_indices(0, 89, 64)


def test_range_ignores_gaps() -> None:
    assert range_indices([6, 7, 83], 90, 64) == uniform_indices(6, 83, 64)
    assert range_indices([5], 90, 3) == [5, 5, 5]


@pytest.mark.parametrize(
    ("total", "head", "last"),
    # 10, 30 and 50 hit exact halves: 0.5 -> 0, 1.5 -> 2, 2.5 -> 2; and 9.5 -> 10, 28.5 -> 28, 47.5 -> 48.
    [(400, [20, 38, 57], 379), (640, [32, 62, 92], 607), (10, [0], 9), (30, [2], 27), (50, [2], 47), (1, [0], 0)],
)
def test_middle_part(total: int, head: list[int], last: int) -> None:
    indices = middle_indices(total, 20)
    assert indices[: len(head)] == head
    assert indices[-1] == last
    assert len(indices) == 20


@pytest.mark.parametrize(
    ("total", "indices"),
    [
        (3, [0, 1, 2]),
        (10, list(range(10))),
        (20, [0, 2, 4, 6, 8, 10, 12, 14, 16, 19]),
        (36, [0, 3, 7, 11, 15, 19, 23, 27, 31, 35]),
        (48, [0, 5, 10, 15, 20, 26, 31, 36, 41, 47]),
    ],
)
def test_ten_at_most(total: int, indices: list[int]) -> None:
    assert up_to_indices(total, 10) == indices


valid_lists = st.lists(st.integers(0, 400), max_size=200, unique=True).map(sorted)


@given(valid_lists, st.integers(1, 100), st.sampled_from(["round", "floor", "range"]))
def test_every_rule_gives_its_number_in_order_with_both_ends(valid: list[int], count: int, rule: str) -> None:
    total = 401
    indices = (
        range_indices(valid, total, count)
        if rule == "range"
        else listed_indices(valid, total, count, "round" if rule == "round" else "floor")
    )
    first, last = (valid[0], valid[-1]) if valid else (0, total - 1)
    assert len(indices) == count
    assert indices == sorted(indices)
    assert indices[0] == first
    assert indices[-1] == last or count == 1
    if valid and rule != "range":
        assert set(indices) <= set(valid)


@given(st.integers(1, 1500), st.integers(2, 100))
def test_middle_stays_inside(total: int, count: int) -> None:
    indices = middle_indices(total, count)
    assert len(indices) == count
    assert indices == sorted(indices)
    assert 0 <= indices[0] <= indices[-1] < total


@given(st.integers(0, 300), st.integers(0, 2000), st.integers(2, 100))
def test_uniform_hits_both_ends(first: int, length: int, count: int) -> None:
    indices = uniform_indices(first, first + length, count)
    assert (indices[0], indices[-1]) == (first, first + length)


@given(st.lists(st.integers(0, 50), max_size=100))
def test_slots_turn_indices_round(indices: list[int]) -> None:
    slots = slots_of(indices)
    assert list(slots) == sorted(set(indices))
    assert sorted(slot for own in slots.values() for slot in own) == list(range(len(indices)))
    assert all(indices[slot] == index for index, own in slots.items() for slot in own)


@needs_facts
def test_all_recorded_deviations_from_exact_arithmetic() -> None:
    rows = list(csv.DictReader((FACTS / "linspace64_deviations.csv").read_text().splitlines()))
    recorded = {(int(row["n"]), int(row["slot"])): int(row["numpy_index"]) for row in rows}
    found = {
        (total, slot): index
        for total in range(1, 2001)
        for slot, index in enumerate(uniform_indices(0, total - 1, 64))
        if index != slot * (total - 1) // 63
    }
    assert recorded
    assert found == recorded


@needs_facts
def test_recorded_indices_of_the_mr_volume() -> None:
    facts = json.loads((FACTS / "golden_vectors.json").read_text())["mri"]
    informative = list(range(6, 84))
    assert listed_indices(informative, 90, 64) == facts["brats_indices"]
    assert range_indices(informative, 90, 64) == facts["cirr_indices"]
