"""Ranks: ties shared, order and names without influence, gifts refused."""

import os

import numpy as np
import pytest
import torch
from by_definition import value_of
from hypothesis import given
from hypothesis import strategies as st

from medheb.evaluate import ranking, ranking_gpu
from medheb.evaluate.metrics import expected
from medheb.evaluate.pools import build_pools
from medheb.evaluate.ranking import rank_global, rank_local, rank_one, top_positions
from medheb.evaluate.score import METRICS
from medheb.models.base import ImageRef, Rendered
from medheb.models.bridge import unit_rows


def text(content: str) -> Rendered:
    return Rendered("text", text=content)


@given(
    scores=st.lists(st.sampled_from([0.1, 0.2, 0.3]), min_size=2, max_size=12),
    seed=st.integers(0, 1000),
)
def test_order_of_candidates_changes_nothing(scores: list[float], seed: int) -> None:
    values = np.array(scores, dtype=np.float32)
    order = np.random.default_rng(seed).permutation(len(values))
    plain, shuffled = rank_one(values, 0, 1e-6), rank_one(values[order], int(np.flatnonzero(order == 0)[0]), 1e-6)
    assert (plain.above, plain.tied, plain.positives) == (shuffled.above, shuffled.tied, shuffled.positives)


def test_scores_within_tolerance_tie() -> None:
    ranked = rank_one(np.array([0.5, 0.5 + 4e-7, 0.6, 0.1], dtype=np.float32), 0, 1e-6)
    assert (ranked.above, ranked.tied, ranked.positives) == (1, 2, 1)
    assert ranked.top.tolist()[0] == 2


@given(scores=st.lists(st.sampled_from([0.1, 0.2, 0.3, 0.4]), min_size=1, max_size=60))
def test_top_positions_are_those_of_a_stable_sort(scores: list[float]) -> None:
    values = np.array(scores, dtype=np.float32)
    assert top_positions(values).tolist() == np.argsort(-values, kind="stable")[:10].tolist()


@given(seed=st.integers(0, 1000), distinct=st.sampled_from([2, 30, 10**6]), size=st.integers(640, 2000))
def test_top_positions_of_large_pools_are_those_of_a_stable_sort(seed: int, distinct: int, size: int) -> None:
    values = np.random.default_rng(seed).integers(0, distinct, size).astype(np.float32)
    assert top_positions(values).tolist() == np.argsort(-values, kind="stable")[:10].tolist()


@pytest.mark.parametrize(("bad", "words"), [(np.nan, "not finite"), (np.inf, "not finite"), (0.0, "of length zero")])
@pytest.mark.parametrize("where", ["queries", "pool"])
def test_unusable_vectors_are_refused(bad: float, words: str, where: str) -> None:
    vectors = {name: np.full((3, 4), 0.5, dtype=np.float32) for name in ("queries", "pool")}
    vectors[where][1] = bad
    with pytest.raises(ValueError, match=words):
        rank_global(vectors["queries"], vectors["pool"], [0, 1, 2], 1e-6)
    with pytest.raises(ValueError, match=words):
        rank_local(vectors["queries"], vectors["pool"], [[0, 1, 2]] * 3, [0, 1, 2], 1e-6)


def test_pool_without_positive_is_refused() -> None:
    rows = np.full((3, 4), 0.5, dtype=np.float32)
    with pytest.raises(ValueError, match="no candidate"):
        rank_local(rows, rows, [[0, 1]] * 3, [0, 1, 2], 1e-6)


def test_constant_vectors_score_exactly_chance_locally_and_globally() -> None:
    pool = np.full((7, 4), 0.5, dtype=np.float32)
    queries = np.full((3, 4), 0.5, dtype=np.float32)
    members = [[0, 1], [1, 2, 3], [3, 4, 5, 6]]
    for ranked, size in zip(rank_local(queries, pool, members, [0, 1, 3], 1e-6), (2, 3, 4), strict=True):
        assert expected("hit@1", ranked.above, ranked.tied, ranked.positives) == pytest.approx(1 / size, abs=1e-12)
    for ranked in rank_global(queries, pool, [0, 1, 3], 1e-6):
        assert expected("hit@1", ranked.above, ranked.tied, ranked.positives) == pytest.approx(1 / 7, abs=1e-12)


def test_closed_form_agrees_with_monte_carlo() -> None:
    rng = np.random.default_rng(1)
    scores = np.array([0.3, 0.3, 0.3, 0.5, 0.1, 0.3], dtype=np.float32)
    ranked = rank_one(scores, 0, 1e-6)
    jitter = scores + rng.random((20_000, 6)) * 1e-3
    ranks = 1 + (jitter > jitter[:, :1]).sum(axis=1)
    for metric in METRICS:
        mean = np.mean([value_of(metric, [int(rank)], 1) for rank in ranks])
        assert expected(metric, ranked.above, ranked.tied, 1) == pytest.approx(mean, abs=0.015)


def test_global_equals_local_with_full_lists() -> None:
    rng = np.random.default_rng(2)
    pool, queries = (rng.standard_normal((n, 8)).astype(np.float32) for n in (300, 260))
    positives = rng.integers(0, 300, 260).tolist()
    everywhere = rank_global(queries, pool, positives, 1e-6)
    listed = rank_local(queries, pool, [list(range(300))] * 260, positives, 1e-6)
    assert [(r.above, r.tied, r.pool) for r in everywhere] == [(r.above, r.tied, r.pool) for r in listed]


@pytest.fixture
def clumped() -> tuple[np.ndarray, np.ndarray, list[int]]:
    """Queries and candidates of few distinct directions, so that many scores are exactly equal."""
    rng = np.random.default_rng(3)
    directions = np.eye(16, dtype=np.float32)
    pool = directions[rng.integers(0, 16, 700)]
    queries = unit_rows(directions[rng.integers(0, 16, 90)] + 0.25 * directions[rng.integers(0, 16, 90)])
    return queries, pool, rng.integers(0, 700, 90).tolist()


def test_every_way_of_ranking_gives_the_same(
    clumped: tuple[np.ndarray, np.ndarray, list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    queries, pool, positives = clumped
    plain = rank_global(queries, pool, positives, 1e-6)
    with monkeypatch.context() as patch:
        patch.setattr(ranking, "BLOCK_BYTES", 4 * 700 * 20)
        blocks = rank_global(queries, pool, positives, 1e-6)
    monkeypatch.setattr(ranking_gpu, "BLOCK_SCORES", 700 * 20)
    device = ranking_gpu.rank_on("cpu", queries, pool, positives, 1e-6)
    assert len(plain) == len(blocks) == len(device) == 90
    for one, *others in zip(plain, blocks, device, strict=True):
        for two in others:
            assert (one.above, one.tied, one.positives, one.pool) == (two.above, two.tied, two.positives, two.pool)
            assert one.top.tolist() == two.top.tolist()
            assert one.top_score == pytest.approx(two.top_score, abs=1e-6)
            assert one.score == pytest.approx(two.score, abs=1e-6)


def test_large_tasks_use_a_gpu_if_there_is_one(
    clumped: tuple[np.ndarray, np.ndarray, list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(ranking, "GPU_FILES", (os.devnull,))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(ranking_gpu, "rank_on", lambda device, *_: asked.append(device) or [])
    assert len(rank_global(*clumped, 1e-6)) == 90
    monkeypatch.setattr(ranking, "WORTH_A_GPU", 90 * 700 * 16)
    assert rank_global(*clumped, 1e-6) == []
    assert asked == ["cuda"]
    monkeypatch.setattr(ranking, "GPU_FILES", ())
    monkeypatch.setattr(torch.cuda, "is_available", lambda: pytest.fail("torch was asked on a machine without a GPU"))
    assert len(rank_global(*clumped, 1e-6)) == 90


def test_queries_with_one_list_are_ranked_as_if_alone() -> None:
    rng = np.random.default_rng(4)
    pool, queries = (unit_rows(rng.standard_normal((n, 8)).astype(np.float32)) for n in (30, 50))
    members = [[2, 5, 9, 11] if number % 2 else sorted({number % 30, 3, 7}) for number in range(50)]
    positives = [rows[number % len(rows)] for number, rows in enumerate(members)]
    together = rank_local(queries, pool, members, positives, 1e-6)
    for number, ranked in enumerate(together):
        (alone,) = rank_local(queries[[number]], pool, [members[number]], [positives[number]], 1e-6)
        assert (ranked.above, ranked.tied, ranked.top.tolist()) == (alone.above, alone.tied, alone.top.tolist())


def test_pools_tell_candidates_apart_by_content() -> None:
    same_name = [
        Rendered("volume", images=(ImageRef("a", "1"), ImageRef("b", "2"), ImageRef("c", "3"), ImageRef("d", last)))
        for last in ("4", "5")
    ]
    by_content = build_pools([[same_name[0], text("x")], [same_name[1], text("x")]], "content")
    by_name = build_pools([[same_name[0], text("x")], [same_name[1], text("x")]], "name")
    assert (len(by_content.distinct), len(by_name.distinct)) == (3, 2)


def test_position_in_the_file_has_no_influence_on_pools() -> None:
    rows = [[text("yes"), text("no"), text("maybe")], [text("no"), text("yes")]]
    shuffled = [[rows[0][0], rows[0][2], rows[0][1]], rows[1]]
    first, second = build_pools(rows, "content"), build_pools(shuffled, "content")
    assert (first.distinct, first.members, first.positives) == (second.distinct, second.members, second.positives)


def test_repeated_candidates_are_ranked_once_and_counted() -> None:
    pools = build_pools([[text("a"), text("b"), text("b"), text("a")]], "content")
    assert (len(pools.members[0]), pools.repeated) == (2, 2)
