"""Capped test rows: the same rows for any order, spread over pictures and labels."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from medheb.build.selection import (
    Region,
    in_keyed_order,
    one_per_picture,
    published_one_per_picture,
    published_round_robin,
    round_robin,
)

LABELS = ("aorta", "carina", "spine")
REGIONS = [
    Region(f"p{n:02d}.png", label, (f"{n}{label}.png",), "g") for n in range(30) for label in LABELS[: 1 + n % 3]
]


def ordered(regions: list[Region], seed: int = 17) -> list[Region]:
    return in_keyed_order(regions, lambda region: region.name, seed, "toy")


def test_the_order_of_the_rows_does_not_matter_and_the_seed_does() -> None:
    mixed = list(REGIONS)
    random.Random(3).shuffle(mixed)
    assert ordered(mixed) == ordered(REGIONS)
    assert ordered(REGIONS, seed=18) != ordered(REGIONS)
    assert [row.name for row in round_robin(ordered(REGIONS), 5)] == [
        row.name for row in round_robin(ordered(mixed), 5)
    ]


def test_one_row_less_changes_nothing_else() -> None:
    chosen = ordered(REGIONS)[:20]
    without = [region for region in REGIONS if region != ordered(REGIONS)[50]]
    assert ordered(without)[:20] == chosen


@pytest.mark.parametrize("rows", [0, 1, 29, 30, 31, 60, 100])
def test_every_picture_before_a_second_region(rows: int) -> None:
    for chosen in (one_per_picture(ordered(REGIONS), rows), published_one_per_picture(REGIONS, rows)):
        assert len(chosen) == len(set(chosen)) == min(rows, len(REGIONS))
        counts = Counter(region.picture for region in chosen)
        assert len(counts) == min(rows, 30)


@pytest.mark.parametrize("rows", [1, 3, 9, 30, 60, 100])
def test_labels_take_turns(rows: int) -> None:
    for chosen in (round_robin(ordered(REGIONS), rows), published_round_robin(REGIONS, 7, rows)):
        assert len(chosen) == len(set(chosen)) == min(rows, len(REGIONS))
        counts = Counter(region.label for region in chosen)
        if rows <= 30:
            assert max(counts.values()) - min(counts[label] for label in LABELS) <= 1


def test_unused_pictures_come_first() -> None:
    chosen = round_robin(ordered(REGIONS), 12)
    assert max(Counter(region.picture for region in chosen).values()) == 1


def test_the_published_draw_depends_on_the_training_rows() -> None:
    assert published_round_robin(REGIONS, 7, 20) == published_round_robin(REGIONS, 7, 20)
    assert published_round_robin(REGIONS, 7, 20) != published_round_robin(REGIONS, 8, 20)
