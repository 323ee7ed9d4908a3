"""Metrics from the ranks alone, on another machine: what differs is a finding."""

from __future__ import annotations

import json
import shutil
import zlib
from collections.abc import Callable
from fractions import Fraction
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from audit_bench import edit
from hypothesis import given
from hypothesis import strategies as st

from medheb.audit.commands import recompute_command
from medheb.audit.recompute import Recomputation, Settings, _mean_gain, recompute
from medheb.audit.results import score_digest
from medheb.audit.schema import Entry, Roots, section_of
from medheb.audit.verdicts import EXIT_MISMATCH, EXIT_MISSING_OR_EXTRA, EXIT_OK, EXIT_UNREADABLE
from medheb.core.files import write_json
from medheb.core.status import OK, Status
from medheb.evaluate.metrics import chance, expected, interval, optimistic, worst
from medheb.evaluate.run import PER_QUERY_SCHEMA
from medheb.evaluate.score import METRICS, Metric, Score, read_score, write_score
from medheb.manifest.base import read_yaml, validate
from medheb.manifest.config import Config, Evaluate
from medheb.manifest.protocol import Protocol

ROOT = Path(__file__).parents[2]
EVALUATE = Evaluate(bootstrap_resamples=200)
SEED = 17
# pool, above, tied, positives of each query
RANKS = ((9, 0, 1, 1), (9, 3, 1, 1), (12, 11, 1, 1), (7, 1, 3, 2), (4, 0, 4, 1), (30, 6, 9, 1))


@pytest.fixture(scope="module")
def settings() -> Settings:
    folder = ROOT / "manifests" / "protocols"
    protocols = {path.stem: validate(Protocol, read_yaml(path), path) for path in folder.glob("*.yaml")}
    return Settings(protocols, EVALUATE, SEED)


def rows(protocol: str) -> list[dict[str, Any]]:
    """Per-query rows as the evaluation writes them."""
    found = []
    for row, (pool, above, tied, positives) in enumerate(RANKS):
        scores = [0.9] * above + [0.5] * tied + [0.1] * (pool - above - tied)
        found.append(
            {
                "row": row,
                "pool": pool,
                "above": above,
                "tied": tied,
                "positives": positives,
                "score": 0.5,
                **{
                    name: expected(name, above, tied, positives) if protocol == "corrected" else optimistic(name, above)
                    for name in METRICS
                },
                **{f"{name}_worst": worst(name, above, tied, positives) for name in METRICS},
                **{f"{name}_chance": chance(name, pool, 1) for name in METRICS},
                "top_row": [row] * min(10, pool),
                "top_position": list(range(min(10, pool))),
                "top_score": scores[:10],
                "top_positive": [False] * min(10, pool),
            }
        )
    return found


def write(folder: Path, protocol: str = "corrected", model: str = "m", task: str = "T") -> Path:
    """A score and its parquet."""
    table = rows(protocol)
    path = folder / model / f"{task}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    metrics = {}
    for name in METRICS:
        values = np.array([row[name] for row in table])
        low, high = interval(
            values, EVALUATE.confidence, EVALUATE.bootstrap_resamples, SEED + zlib.crc32(task.encode())
        )
        metrics[name] = Metric(
            value=float(values.mean()),
            low=low,
            high=high,
            worst=float(np.mean([row[f"{name}_worst"] for row in table])),
            chance=float(np.mean([row[f"{name}_chance"] for row in table])),
        )
    score = Score(
        model=model, task=task, family="image-image", form="2d", split="id", pool="local", status=OK,
        protocol=protocol, queries=len(table), metrics=metrics, tied_fraction=3 / 6,
    )  # fmt: skip
    write_score(path, score)
    pq.write_table(pa.Table.from_pylist(table, schema=PER_QUERY_SCHEMA), path.with_suffix(".parquet"))
    return path


def change(path: Path, column: str, row: int, value: Any) -> None:
    """Edit one cell of a parquet."""
    table = pq.read_table(path.with_suffix(".parquet"), partitioning=None).to_pylist()
    table[row][column] = value
    pq.write_table(pa.Table.from_pylist(table, schema=PER_QUERY_SCHEMA), path.with_suffix(".parquet"))


def reason(found: Recomputation) -> str:
    (finding,) = found.units[0].findings
    return f"{finding.name} {finding.verdict}: {finding.reason}"


@pytest.mark.parametrize("protocol", ["corrected", "release"])
def test_right_scores_are_confirmed(tmp_path: Path, settings: Settings, protocol: str) -> None:
    write(tmp_path, protocol)
    write(tmp_path, protocol, model="n")
    found = recompute(tmp_path, settings)
    assert (found.verdict, found.exit_code, found.scores, found.queries) == ("IDENTICAL", EXIT_OK, 2, 12)


@given(above=st.integers(0, 6), tied=st.integers(1, 6), data=st.data())
def test_formula_is_the_mean_over_all_orders(above: int, tied: int, data: st.DataObject) -> None:
    positives = data.draw(st.integers(1, tied))
    orders = set(permutations([1] * positives + [0] * (tied - positives)))
    for metric, cutoff in (("hit@1", 1), ("hit@5", 5), ("mrr@5", 5)):
        total = Fraction(0)
        for order in orders:
            rank = above + order.index(1) + 1
            if rank <= cutoff:
                total += Fraction(1, rank) if metric == "mrr@5" else 1
        assert _mean_gain(metric, above, tied, positives) == pytest.approx(float(total / len(orders)), abs=1e-12)
        assert expected(metric, above, tied, positives) == pytest.approx(float(total / len(orders)), abs=1e-12)


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda path: change(path, "above", 1, 2), "counts 2 candidates above the positive, its top ten shows 3"),
        (lambda path: change(path, "hit@5", 0, 0.5), "row 0: hit@5 is 0.5, its ranks give 1"),
        (lambda path: change(path, "mrr@5_worst", 4, 0.5), "row 4: mrr@5_worst is 0.5, its ranks give 0.25"),
        (lambda path: change(path, "hit@1_chance", 2, float("nan")), "hit@1_chance is nan"),
        (lambda path: change(path, "tied", 3, 1), "row 3 has counts that no ranking can have"),
        (lambda path: change(path, "row", 3, 2), "does not hold each query once"),
        (lambda path: change(path, "top_score", 0, [0.1] * 8 + [0.5]), "top candidates that are not in order"),
        (lambda path: change(path, "top_score", 0, [0.5]), "row 0 shows 1 top candidates of 9"),
        (lambda path: restate(path, "value", 0.99), "states hit@1 value 0.99, its ranks give"),
        (lambda path: restate(path, "worst", 0.99), "states hit@1 worst 0.99"),
        (lambda path: restate(path, "chance", 0.99), "states hit@1 chance 0.99"),
        (lambda path: restate(path, "high", 0.999), "with this configuration's seed and resamples"),
        (lambda path: edit(path, '"tied_fraction": 0.5', '"tied_fraction": 0.0'), "states a tied fraction of 0"),
        (lambda path: edit(path, '"queries": 6', '"queries": 7'), "states 7 queries, its parquet has 6"),
        (lambda path: edit(path, '"task": "T"', '"task": "U"'), "is the score of m/U"),
    ],
)  # fmt: skip
def test_what_does_not_follow_from_the_ranks_is_named(
    tmp_path: Path, settings: Settings, damage: Callable[[Path], object], says: str
) -> None:
    damage(write(tmp_path))
    found = recompute(tmp_path, settings)
    assert found.exit_code == EXIT_MISMATCH
    assert reason(found).startswith("m/T MISMATCH: ")
    assert says in reason(found)


def restate(path: Path, name: str, value: float) -> None:
    """Edit hit@1 of a score."""
    content = json.loads(path.read_bytes())
    content["metrics"]["hit@1"][name] = value
    write_json(path, content)


def test_missing_and_damaged_files(tmp_path: Path, settings: Settings) -> None:
    path = write(tmp_path)
    path.with_suffix(".parquet").rename(tmp_path / "away")
    found = recompute(tmp_path, settings)
    assert (found.exit_code, reason(found)) == (EXIT_MISSING_OR_EXTRA, "m/T MISSING: T.parquet is missing")
    (tmp_path / "away").rename(path.with_suffix(".parquet"))
    path.unlink()
    assert reason(recompute(tmp_path, settings)).startswith("m/T MISSING: T.json ")
    path.write_text("{")
    assert recompute(tmp_path, settings).exit_code == EXIT_UNREADABLE
    path = write(tmp_path)
    path.with_suffix(".parquet").write_bytes(b"PAR1")
    assert "T.parquet is not a readable parquet" in reason(recompute(tmp_path, settings))
    shutil.rmtree(tmp_path / "m")
    assert reason(recompute(tmp_path, settings)).endswith("holds no scores")


def test_blocked_scores_have_nothing_to_compute(tmp_path: Path, settings: Settings) -> None:
    path = write(tmp_path)
    blocked = Status(state="blocked", origin="fetch x", reason="x: no", remedy="y")
    write_score(path, read_score(path).model_copy(update={"status": blocked, "metrics": {}, "queries": 0}))
    assert recompute(tmp_path, settings).verdict == "NOT-BUILT"
    write_score(
        path,
        read_score(path).model_copy(update={"metrics": {"hit@1": Metric(value=1, low=0, high=1, worst=0, chance=0)}}),
    )
    assert "states metrics though" in reason(recompute(tmp_path, settings))


def test_a_consistent_forgery_is_held_against_the_roots(tmp_path: Path, settings: Settings) -> None:
    path = write(tmp_path)
    digest = score_digest(read_score(path), path.with_suffix(".parquet"))
    scores = section_of({"m/T": Entry(state="built", count=6, digests={"L2": digest})}, ("L2",))
    empty = section_of({}, ("L2",))
    roots = Roots(sources={}, index=empty, scores=scores, embeddings=empty, overall={})
    assert recompute(tmp_path, settings, roots).verdict == "IDENTICAL"
    write(tmp_path, "release")
    assert "roots.json records another score" in reason(recompute(tmp_path, settings, roots))
    shutil.rmtree(tmp_path / "m")
    write(tmp_path, model="other")
    assert "m/T MISSING: is recorded but not there" in reason(recompute(tmp_path, settings, roots))


def test_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from audit_bench import Bench

    write(tmp_path / "scores")
    run = Bench(tmp_path / "run", fresh=False).run
    config = Config(evaluate=EVALUATE)
    object.__setattr__(run, "config", config)
    monkeypatch.chdir(ROOT)
    assert recompute_command(run, tmp_path / "scores") == EXIT_OK
    assert "Computed again: 1 scores over 6 queries" in capsys.readouterr().out
    assert recompute_command(run, tmp_path / "scores", as_json=True) == EXIT_OK
    assert Recomputation.model_validate_json(capsys.readouterr().out).queries == 6
