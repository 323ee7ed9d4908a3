"""From stored vectors to a score: models of which theory says what they must get."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from by_definition import value_of
from PIL import Image
from toy_model import ToyAdapter, ToyEncoder
from toy_run import FOLDER, MODEL, embed, make_files, receipt, toy_run

from medheb.core.errors import MedhebError
from medheb.embed.store import Store
from medheb.evaluate.metrics import chance
from medheb.evaluate.run import evaluate_task
from medheb.evaluate.score import METRICS, PER_QUERY_COLUMNS, Score, read_score
from medheb.manifest.load import Run
from medheb.models.base import Prepared, Vectors

COUNT = 40
TASK = "toy_i2i"  # picture n asks for picture n + 1 among all forty


@pytest.fixture
def run(tmp_path: Path) -> Run:
    made = toy_run(tmp_path, workers=0)
    make_files(made, COUNT)
    return made


def evaluated(run: Run, encoder: ToyEncoder, monkeypatch: pytest.MonkeyPatch) -> Score:
    monkeypatch.setattr("medheb.evaluate.run.load_adapter", lambda *_: ToyAdapter())
    embed(run, ToyAdapter(), encoder)
    evaluate_task(run, MODEL, TASK)
    return read_score(run.layout.score(MODEL, TASK))


class Numbered(ToyEncoder):
    """Gives a picture the vector of its number."""

    def __init__(self, run: Run, vectors: Vectors) -> None:
        super().__init__(dimension=vectors.shape[1])
        self.vectors = vectors
        paths = sorted((run.layout.benchmark / FOLDER).glob("*.png"))
        self.number = {np.asarray(Image.open(path), dtype=np.float32).tobytes(): at for at, path in enumerate(paths)}

    def encode(self, prepared: Sequence[Prepared]) -> Vectors:
        return self.vectors[[self.number[part.arrays["values"].tobytes()] for part in prepared]]


def test_a_constant_model_scores_exactly_chance_and_is_called_collapsed(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    score = evaluated(run, Numbered(run, np.full((COUNT, 8), 8**-0.5, dtype=np.float32)), monkeypatch)
    for name, metric in score.metrics.items():
        assert metric.value == pytest.approx(chance(name, COUNT, 1), abs=1e-12)
        assert metric.chance == metric.value
        assert metric.worst == 0
    assert (score.tied_fraction, score.mean_cosine) == (1, pytest.approx(1))
    assert score.effective_rank == pytest.approx(1, abs=1e-3)
    assert sum("may have collapsed" in text for text in score.warnings) == 2


def test_a_random_model_scores_chance_within_its_interval(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.random.default_rng(5).standard_normal((COUNT, 64)).astype(np.float32)
    score = evaluated(run, Numbered(run, rows), monkeypatch)
    for name in ("hit@5", "mrr@5", "ndcg@10"):
        metric = score.metrics[name]
        assert metric.low <= metric.chance <= metric.high
    assert not score.warnings
    assert score.tied_fraction == 0
    assert abs(score.mean_cosine or 1) < 0.1
    assert 20 < (score.effective_rank or 0) <= COUNT


def test_a_model_of_nan_is_refused_wherever_it_shows(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    nothing = np.full((COUNT, 8), np.nan, dtype=np.float32)
    score = evaluated(run, Numbered(run, nothing), monkeypatch)
    assert score.status.state == "failed"
    assert f"gave {COUNT} vectors that are not finite" in score.status.reason
    assert score.metrics == {}

    assert embed(run, ToyAdapter(), ToyEncoder()).ok
    folder = run.layout.store(MODEL) / receipt(run).fingerprint
    store = Store(folder)
    keys = list(store)
    for shard in folder.iterdir():
        shard.unlink()
    Store(folder).append(keys, nothing)
    status = evaluate_task(run, MODEL, TASK)
    assert status.state == "failed"
    assert "cannot be ranked: a vector is not finite" in status.reason


def test_a_model_that_cannot_tell_four_pictures_apart_shares_their_ranks(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    fours = np.eye(COUNT // 4, dtype=np.float32)[np.arange(COUNT) // 4]
    score = evaluated(run, Numbered(run, fours), monkeypatch)
    for name in METRICS:
        inside = np.mean([value_of(name, [rank], 1) for rank in (1, 2, 3, 4)])
        outside = np.mean([value_of(name, [rank], 1) for rank in range(5, COUNT + 1)])
        assert score.metrics[name].value == pytest.approx(0.75 * inside + 0.25 * outside)
    assert score.tied_fraction == 1
    assert score.effective_rank == pytest.approx(COUNT / 4)


def test_the_table_of_queries_says_where_each_answer_stands(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.random.default_rng(6).standard_normal((COUNT, 64)).astype(np.float32)
    score = evaluated(run, Numbered(run, rows), monkeypatch)
    table = pd.read_parquet(run.layout.per_query(MODEL, TASK))
    assert tuple(table.columns) == PER_QUERY_COLUMNS
    for name in METRICS:
        assert table[name].mean() == pytest.approx(score.metrics[name].value, abs=1e-12)
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    cosines = unit @ unit.T
    for number, line in table.iterrows():
        right = (int(str(number)) + 1) % COUNT
        assert line["above"] == (cosines[number] > cosines[number, right]).sum()
        assert len(line["top_row"]) == 10
        assert list(line["top_score"]) == sorted(line["top_score"], reverse=True)
        assert line["top_positive"].any() == (line["above"] < 10)


def test_an_old_score_is_told_by_its_version(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    evaluated(run, ToyEncoder(), monkeypatch)
    path = run.layout.score(MODEL, TASK)
    path.write_text(path.read_text().replace('"schema_version": 2', '"schema_version": 1'))
    with pytest.raises(MedhebError, match=r"has schema version 1\. Allowed: 2; run it again"):
        read_score(path)


def test_a_task_file_without_a_record_is_a_failed_score(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    evaluated(run, Numbered(run, np.eye(COUNT, dtype=np.float32)), monkeypatch)
    path = run.layout.task_index(run.tasks[TASK].index)
    path.write_text("[]")
    status = evaluate_task(run, MODEL, TASK)
    assert (status.state, status.reason) == ("failed", f"{path}: holds no record")
    assert status.remedy == "Delete it and build the index again: snakemake index"
    assert read_score(run.layout.score(MODEL, TASK)).status == status
