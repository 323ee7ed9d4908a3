"""The graded evaluation on made inventories: from stored vectors to its score file."""

import json
from pathlib import Path

import make_graded as make
import numpy as np
import pandas as pd
import pytest

from medheb.core.errors import MedhebError
from medheb.core.status import Status, write_status
from medheb.embed.receipt import read_receipt, write_receipt
from medheb.evaluate.graded import evaluate_graded
from medheb.evaluate.graded_gains import relation_digest
from medheb.evaluate.graded_ranking import GRADED_METRICS
from medheb.evaluate.graded_score import PER_QUERY_COLUMNS, GradedScore, read_graded_score
from medheb.index.records import read_records
from medheb.manifest.load import Run

KEYS = ("graded_same", "graded_named", "graded_named_global", "shared_findings")


def scored(run: Run, key: str, model: str = "random") -> GradedScore:
    evaluate_graded(run, model, key)
    return read_graded_score(run.layout.graded(model, key))


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return make.make_run(tmp_path)


@pytest.mark.parametrize("key", KEYS)
def test_a_constant_model_scores_exactly_chance(run: Run, key: str) -> None:
    make.embed(run, "constant", make.constant)
    score = scored(run, key, "constant")
    assert score.status.ok
    for name in GRADED_METRICS:
        metric = score.metrics[name]
        assert metric.value == pytest.approx(metric.chance, abs=1e-12)
        assert metric.worst <= metric.value
        assert metric.low <= metric.value <= metric.high
    assert score.tied_fraction == 1.0


def test_a_model_that_knows_the_relation_is_always_right(run: Run) -> None:
    make.embed(run, "random", make.by_label)
    for key in KEYS[:3]:
        score = scored(run, key)
        assert score.status.ok
        assert score.metrics["ndcg@5"].value == pytest.approx(1.0), key
        assert score.metrics["ndcg@5"].chance < 0.75
        assert 0 < score.left_out < len(read_records(run.layout.task_index(run.every_task[score.task].index)))
        assert score.fingerprint == "made"
        assert score.task_digest
        assert score.data_root


def test_what_went_wrong_with_the_vectors_is_repeated(run: Run) -> None:
    make.embed(run, "random", make.by_label)
    path = run.layout.embedded("random", run.tasks["same"].group)
    write_receipt(path, read_receipt(path).model_copy(update={"notes": ("memory ran out once",)}))
    assert scored(run, "graded_same").warnings == ("memory ran out once",)


def test_only_queries_of_the_asked_classes_count(run: Run) -> None:
    make.embed(run, "random", make.by_label)
    score = scored(run, "graded_named")
    records = read_records(run.layout.task_index(run.tasks["named"].index))
    asked = [place for place, record in enumerate(records) if record.qry_text in make.LABELS[:4]]
    table = pd.read_parquet(run.layout.graded("random", "graded_named").with_suffix(".parquet"))
    assert list(table["row"]) == asked
    assert (score.queries, score.left_out) == (len(asked), len(records) - len(asked))


def test_per_query_table_gives_the_means_and_names_no_class(run: Run) -> None:
    make.embed(run, "random", make.by_findings)
    score = scored(run, "shared_findings")
    table = pd.read_parquet(run.layout.graded("random", "shared_findings").with_suffix(".parquet"))
    assert tuple(table.columns) == PER_QUERY_COLUMNS
    for name in GRADED_METRICS:
        assert table[name].mean() == pytest.approx(score.metrics[name].value, abs=1e-12)
        assert table[f"{name}_chance"].mean() == pytest.approx(score.metrics[name].chance, abs=1e-12)
    assert not [name for name in table.columns if table[name].dtype == object]


def test_queries_of_one_source_against_candidates_of_the_other(run: Run) -> None:
    make.embed(run, "random", make.by_findings)
    records = read_records(run.layout.task_index(run.every_task["shared_findings"].index))
    assert len(records) == 30
    for record in records:
        assert str(record.qry_img_path).startswith("alpha/")
        assert record.tgt_img_path is not None
        assert len(record.tgt_img_path) == 12
        assert all(str(path).startswith("beta/") for path in record.tgt_img_path)
    score = scored(run, "shared_findings")
    # Cosine of two label sets orders them almost as Jaccard does.
    assert score.metrics["ndcg@10"].value > 0.95
    assert score.metrics["hit@1"].value == pytest.approx(1.0), "some candidate shares a label, by the rule of the pool"
    assert score.metrics["hit@1"].chance < 1.0


def test_trouble_before_it_is_passed_on_with_its_reason(run: Run) -> None:
    make.embed(run, "random", make.by_label)
    trouble = Status(state="blocked", origin="fetch alpha", reason="terms not accepted", remedy="Accept them")
    write_status(run.layout.task_status(run.tasks["same"].index), trouble)
    score = scored(run, "graded_same")
    assert score.status == trouble
    assert (score.metrics, score.queries) == ({}, 0)
    assert len(pd.read_parquet(run.layout.graded("random", "graded_same").with_suffix(".parquet"))) == 0


def test_a_source_without_the_fact_gives_a_reason_that_names_no_picture(tmp_path: Path) -> None:
    run = make.make_run(tmp_path, without="findings")
    make.embed(run, "random", make.by_label)
    score = scored(run, "shared_findings")
    assert not score.status.ok
    assert "finds no picture of beta with the fact 'findings'" in score.status.reason
    text = run.layout.graded("random", "shared_findings").read_text()
    assert ".png" not in text
    assert not [name for name in make.FINDINGS if name in text]


def test_a_class_that_the_relation_forgets_is_refused_without_being_named(run: Run) -> None:
    make.embed(run, "random", make.by_label)
    assert run.graded is not None
    sides = run.graded.relations["sides"]
    run.graded.relations["sides"] = sides.model_copy(update={"classes": sides.classes[:-1]})
    score = scored(run, "graded_same")
    assert score.status.state == "failed"
    assert "has a class that its graded relation does not list" in score.status.reason
    assert "spleen" not in score.status.reason


def test_vectors_that_are_missing_or_not_finite_are_refused(run: Run) -> None:
    make.embed(run, "random", lambda label, _: np.full(make.SIZE, np.nan))
    score = scored(run, "graded_same")
    assert "a score is not finite" in score.status.reason
    for shard in (run.layout.store("random") / "made").iterdir():
        shard.unlink()
    assert "lacks the vector" in scored(run, "graded_same").status.reason


def test_an_unknown_key_is_refused_with_the_known_ones(run: Run) -> None:
    with pytest.raises(MedhebError, match="is not a graded task of this run") as caught:
        evaluate_graded(run, "random", "same")
    assert "graded_same" in str(caught.value)


def test_a_score_file_of_another_schema_is_refused(run: Run) -> None:
    make.embed(run, "random", make.by_label)
    evaluate_graded(run, "random", "graded_same")
    path = run.layout.graded("random", "graded_same")
    path.write_text(json.dumps(json.loads(path.read_text()) | {"schema_version": 7}))
    with pytest.raises(MedhebError, match="has schema version 7, not 1"):
        read_graded_score(path)


def test_the_digest_of_a_relation_ignores_its_note_only(run: Run) -> None:
    assert run.graded is not None
    sides = run.graded.relations["sides"]
    assert relation_digest(sides.model_copy(update={"note": "other words"})) == relation_digest(sides)
    assert relation_digest(sides.model_copy(update={"queries": ()})) != relation_digest(sides)
