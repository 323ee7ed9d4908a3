"""Collapsed vectors are told from good ones."""

import numpy as np
import pytest

from medheb.evaluate.collapse import effective_rank, mean_cosine, sample
from medheb.models.bridge import unit_rows

RNG = np.random.default_rng(0)


def test_mean_cosine_is_that_of_all_pairs() -> None:
    rows = unit_rows(RNG.standard_normal((40, 6)).astype(np.float32))
    pairs = (rows @ rows.T)[~np.eye(40, dtype=bool)]
    assert mean_cosine(rows) == pytest.approx(pairs.mean(), abs=1e-6)


def test_one_direction() -> None:
    rows = unit_rows(np.ones((50, 8), dtype=np.float32))
    assert mean_cosine(rows) == pytest.approx(1)
    assert effective_rank(rows) == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize("copies", [1, 7])
def test_so_many_directions_as_there_are(copies: int) -> None:
    rows = np.repeat(np.eye(12, dtype=np.float32), copies, axis=0)
    assert effective_rank(rows) == pytest.approx(12)


def test_a_single_candidate_says_nothing() -> None:
    rows = np.ones((1, 4), dtype=np.float32)
    assert (mean_cosine(rows), effective_rank(rows)) == (None, None)


def test_large_sets_are_sampled_evenly() -> None:
    rows = np.arange(5000, dtype=np.float32)[:, None]
    assert len(sample(rows)) == 1000
    assert (sample(rows)[0, 0], sample(rows)[-1, 0]) == (0, 4999)
    assert len(sample(rows[:10])) == 10
