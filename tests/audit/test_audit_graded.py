"""Graded scores: recorded, verified, compared, computed again and exported; nothing of a restricted source leaves."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from audit_bench import BLOCKED, FINGERPRINT, OK, SECRETS, Bench, Told, edit, findings, task, unit, write_roots

from medheb.audit.commands import recompute_command
from medheb.audit.compare import compare
from medheb.audit.export_crate import export_crate
from medheb.audit.provenance import provenance_path, read_provenance, write_provenance
from medheb.audit.recompute import Recomputation, Settings, recompute
from medheb.audit.schema import read_roots, roots_path
from medheb.audit.verdicts import EXIT_MISMATCH, EXIT_OK
from medheb.audit.verify import verify
from medheb.core.digests import json_digest, merkle_root
from medheb.core.files import write_json
from medheb.core.status import Status, write_status
from medheb.embed.inputs import distinct_inputs
from medheb.embed.receipt import Receipt, write_receipt
from medheb.embed.store import Store
from medheb.evaluate import graded as evaluation
from medheb.evaluate.graded_gains import relation_digest
from medheb.evaluate.graded_ranking import rank_graded
from medheb.evaluate.graded_score import GradedScore, read_graded_score, write_graded
from medheb.index.built import data_root
from medheb.index.records import as_json, read_records
from medheb.manifest.graded import Graded
from medheb.models.load import load_adapter

RELATION = {
    "kind": "groups",
    "note": "made for a test",
    "classes": ["left", "right", "liver"],
    "groups": [{"gain": 0.5, "classes": ["left", "right"]}],
}
# scores and gains of the candidates of each query: no tie, a tie that matters, a tie that does not
QUERIES = (
    ((0.9, 0.5, 0.1), (1.0, 0.5, 0.0)),
    ((0.9, 0.5, 0.5), (0.0, 1.0, 0.5)),
    ((0.9, 0.2, 0.2), (0.5, 0.0, 0.0)),
)
SHARED = "shared_findings"


def add_graded(bench: Bench) -> Bench:
    """Graded scores of two tasks, one restricted, and of a task of its own over two sources; all recorded."""
    row = task("alpha").model_copy(
        update={"task": SHARED, "index": "2D_Task/shared.json", "sources": ("alpha", "delta"), "split": "heldout"}
    )
    entries = [
        {"key": f"graded_{name}", "aspect": "laterality", "task": f"{name}_i2i", "relation": "sides"}
        for name in ("alpha", "gamma")
    ]
    shared = {"key": SHARED, "aspect": "cross-source", "relation": "sides", "row": row.model_dump()}
    content = {"note": "made for a test", "relations": {"sides": RELATION}, "entries": [*entries, shared]}
    bench.run = dataclasses.replace(bench.run, graded=Graded.model_validate(content))
    shutil.copy(
        bench.layout.task_index(bench.run.tasks["alpha_i2i"].index),
        bench.layout.task_index(row.index),
    )
    write_status(bench.layout.task_status(row.index), OK)
    for model in bench.run.models:
        keys = tuple(distinct_inputs(bench.run, load_adapter(bench.run.models[model], bench.layout), row.group).inputs)
        receipt = Receipt(model=model, group=row.group, status=OK, fingerprint=FINGERPRINT, inputs=len(keys))
        assert all(key in Store(bench.layout.store(model) / FINGERPRINT) for key in keys)
        write_receipt(bench.layout.embedded(model, row.group), receipt)
        for key in bench.run.graded_entries:
            write(bench, model, key)
    write_roots(bench.run)
    return bench


def write(bench: Bench, model: str, key: str, status: Status = OK, swap: bool = False) -> Path:
    """A graded score and its parquet, as the evaluation writes them; ``swap`` gives the first query another order."""
    run = bench.run
    assert run.graded is not None
    entry = run.graded_entries[key]
    one = run.every_task[entry.task or key]
    made: list[evaluation.RankedRow] = []
    for number, (scores, gains) in enumerate(QUERIES if status.ok else ()):
        order = scores[::-1] if swap and number == 0 else scores
        rank = rank_graded(np.array(order, np.float32), np.array(gains, np.float64), 1.0, 1e-6)
        made.append(evaluation.RankedRow(row=number + 1, query=number // 2, rank=rank))
    evaluation._write_per_query(run, model, key, made)
    facts: dict[str, Any] = {}
    if status.ok:
        facts = {
            "task_digest": json_digest(as_json(read_records(bench.layout.task_index(one.index)))),
            "data_root": data_root(run, one),
            "fingerprint": FINGERPRINT,
            "queries": len(made),
            "left_out": 2,
            "metrics": evaluation.summarise(run, key, made),
            "tied_fraction": 1 / 3,
        }
    path = bench.layout.graded(model, key)
    rule = relation_digest(run.graded.relations["sides"])
    write_graded(
        path,
        GradedScore(
            model=model, key=key, aspect=entry.aspect, task=one.task, status=status, protocol="corrected", rule=rule,
            **facts,
        ),
    )  # fmt: skip
    return path


@pytest.fixture
def bench(whole: Bench) -> Bench:
    """A recorded run without the blocked source, with graded scores."""
    return add_graded(whole)


def settings(bench: Bench) -> Settings:
    return Settings({"corrected": bench.run.protocol}, bench.run.config.evaluate, bench.run.config.seed)


def test_roots_hold_graded_scores_and_the_task_of_their_own(bench: Bench) -> None:
    roots = read_roots(roots_path(bench.layout))
    assert set(roots.graded.entries) == {
        f"{model}/{key}" for model in bench.run.models for key in bench.run.graded_entries
    }
    assert roots.graded.entries["random/graded_alpha"].count == len(QUERIES)
    assert roots.graded.roots["L2"] != merkle_root({})
    assert SHARED in roots.index.entries
    before = roots.overall["L2"]
    write(bench, "random", "graded_alpha", swap=True)
    assert write_roots(bench.run).overall["L2"] != before
    assert verify(bench.run).exit_code == EXIT_OK


def test_a_run_that_grades_nothing_has_the_overall_root_of_before(whole: Bench) -> None:
    roots = read_roots(roots_path(whole.layout))
    parts = {f"source/{name}": source.roots["L2"] for name, source in roots.sources.items()}
    parts |= {name: getattr(roots, name).roots["L2"] for name in ("index", "scores", "embeddings")}
    assert roots.overall["L2"] == merkle_root(parts)
    assert not [one for one in verify(whole.run).units if one.area == "graded"]


def test_seconds_warnings_and_last_digits_do_not_count(bench: Bench) -> None:
    path = bench.layout.graded("random", "graded_alpha")
    content = json.loads(path.read_bytes())
    content |= {"seconds": 99.0, "warnings": ["another"], "fingerprint": "a" * 64}
    content["metrics"]["ndcg@5"]["value"] += 1e-13
    write_json(path, content)
    assert verify(bench.run).exit_code == EXIT_OK


def cell(path: Path, column: str, row: int, value: Any) -> None:
    """Edit one cell of a parquet."""
    table = pq.read_table(path.with_suffix(".parquet"), partitioning=None)
    rows = table.to_pylist()
    rows[row][column] = value
    pq.write_table(type(table).from_pylist(rows, schema=table.schema), path.with_suffix(".parquet"))


def restate(path: Path, name: str, value: float) -> None:
    """Edit ndcg@10 of a score."""
    content = json.loads(path.read_bytes())
    content["metrics"]["ndcg@10"][name] = value
    write_json(path, content)


@pytest.mark.parametrize(
    "damage", [lambda path: restate(path, "value", 0.9), lambda path: cell(path, "ndcg@5", 1, 0.9)]
)
def test_changed_score_or_value_is_a_mismatch(bench: Bench, damage: Callable[[Path], object]) -> None:
    for key in ("graded_alpha", "graded_gamma"):
        damage(bench.layout.graded("random", key))
    verification = verify(bench.run)
    found = findings(verification, "graded scores")
    assert {name: one.verdict for name, one in found.items()} == dict.fromkeys(
        ("random/graded_alpha", "random/graded_gamma"), "MISMATCH"
    )
    assert found["random/graded_alpha"].reason == "metrics or values of queries differ"
    assert found["random/graded_gamma"].reason.startswith("withheld")
    assert verification.exit_code == EXIT_MISMATCH


def test_missing_damaged_blocked_and_new_ones(bench: Bench) -> None:
    bench.layout.graded("random", "graded_alpha").unlink()
    bench.layout.graded("random", SHARED).write_text("{")
    bench.layout.graded("constant", SHARED).with_suffix(".parquet").write_bytes(b"PAR1")
    write(bench, "constant", "graded_alpha", BLOCKED)
    found = findings(verify(bench.run), "graded scores")
    assert {name: one.verdict for name, one in found.items()} == {
        "random/graded_alpha": "MISSING",
        f"random/{SHARED}": "UNREADABLE",
        f"constant/{SHARED}": "UNREADABLE",
        "constant/graded_alpha": "MISSING",
    }
    again = recompute(bench.layout.results / "scores", settings(bench), read_roots(roots_path(bench.layout)))
    verdicts = {one.name: one.verdict for one in again.units[1].findings}
    assert verdicts == {
        "random/graded_alpha": "MISSING",
        f"random/{SHARED}": "UNREADABLE",
        f"constant/{SHARED}": "UNREADABLE",
        "constant/graded_alpha": "NOT-BUILT",
    }


def test_blocked_graded_score_is_recorded_with_its_reason(bench: Bench) -> None:
    for key in ("graded_alpha", "graded_gamma"):
        write(bench, "random", key, BLOCKED)
    roots = write_roots(bench.run)
    assert roots.graded.entries["random/graded_alpha"].reason == "index: no network"
    assert roots.graded.entries["random/graded_gamma"].reason.startswith("withheld")
    assert {one.verdict for one in findings(verify(bench.run), "graded scores").values()} == {"NOT-BUILT"}


def test_other_relation_images_or_tasks_are_found(bench: Bench) -> None:
    path = bench.layout.graded("random", "graded_alpha")
    right = path.read_text()
    for field, says in (
        ("rule", "another relation than graded.yaml has now"),
        ("data_root", "other images than are recorded"),
        ("task_digest", "another task JSON than lies here"),
    ):
        content = json.loads(right)
        content[field] = "0" * 64
        write_json(path, content)
        write_roots(bench.run)
        assert says in findings(verify(bench.run), "graded scores")["random/graded_alpha"].reason


def test_only_what_draws_on_the_source_that_was_asked_for(bench: Bench) -> None:
    assert unit(verify(bench.run, "gamma"), "graded scores").counts == {"IDENTICAL": 2}
    assert unit(verify(bench.run, "delta"), "graded scores").counts == {"IDENTICAL": 2}
    assert unit(verify(bench.run, sample_seed=1), "graded scores").counts == {"IDENTICAL": 6}


def test_provenance_explains_graded_scores(bench: Bench) -> None:
    roots = read_roots(roots_path(bench.layout))
    write_provenance(bench.run, roots, Told())
    made = read_provenance(provenance_path(bench.layout)).artefacts
    one = made[f"graded/random/{SHARED}"]
    assert (one.rule, one.code, one.settings) == ("evaluate_graded", "code-graded", f"graded_settings-{SHARED}")
    assert one.inputs == ("embeddings/random/alpha+delta", f"index/{SHARED}", "source/alpha", "source/delta")
    assert one.parameters["relation"] == "sides"
    assert one.digests == roots.graded.entries[f"random/{SHARED}"].digests
    assert all(set(artefact.inputs) <= made.keys() for artefact in made.values())
    edit(roots_path(bench.layout), roots.graded.entries[f"random/{SHARED}"].digests["L2"], "graded1:" + "0" * 64)
    reasons = {name: found.reason for name, found in findings(verify(bench.run), "audit folder").items()}
    assert "the roots of graded are not those of its entries" in reasons["roots.json"]
    assert reasons["provenance.json"] == "states other digests than roots.json"


def test_two_audit_folders(bench: Bench, tmp_path: Path) -> None:
    before = Path(shutil.copytree(bench.layout.audit, tmp_path / "before"))
    write(bench, "random", "graded_gamma", swap=True)
    write_roots(bench.run)
    found = compare(before, bench.layout.audit)
    assert {name: one.verdict for name, one in findings(found, "graded scores").items()} == {
        "random/graded_gamma": "MISMATCH"
    }
    assert any("a model's vectors differ" in line for line in found.explanation)


def test_right_metrics_are_confirmed(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.rmtree(bench.layout.results / "scores")
    found = recompute(bench.layout.results / "scores", settings(bench))
    assert found.units[1].counts == {"IDENTICAL": 6}
    assert (found.scores, found.queries) == (6, 18)
    recompute_command(bench.run, bench.layout.results / "scores", as_json=True)
    assert Recomputation.model_validate_json(capsys.readouterr().out) == found


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda path: restate(path, "value", 0.99), "states ndcg@10 value 0.99, its queries give"),
        (lambda path: restate(path, "worst", 0.99), "states ndcg@10 worst 0.99"),
        (lambda path: restate(path, "chance", 0.99), "states ndcg@10 chance 0.99"),
        (lambda path: restate(path, "low", 0.01), "with this configuration's seed and resamples"),
        (lambda path: cell(path, "ndcg@5", 1, 1.5), "row 2 has a ndcg@5 that no ranking can have"),
        (lambda path: cell(path, "ndcg@5", 0, 0.5), "row 1 has a ndcg@5 that no ranking can have"),
        (lambda path: cell(path, "ndcg@10_worst", 1, float("nan")), "row 2 has a ndcg@10 that no ranking can have"),
        (lambda path: cell(path, "hit@1_worst", 1, 0.5), "row 2 has a hit@1 that no ranking can have"),
        (lambda path: cell(path, "hit@5_chance", 1, 0.0), "row 2 has a hit@5 that no ranking can have"),
        (lambda path: cell(path, "tied", 0, True), "states a tied fraction of 0.333333, its queries give 0.666667"),
        (lambda path: cell(path, "row", 1, 1), "does not hold each query once"),
        (lambda path: cell(path, "row", 2, 9), "does not hold each query once"),
        (lambda path: cell(path, "query", 2, 7), "does not number its queries from 0"),
        (lambda path: edit(path, '"queries": 3', '"queries": 4'), "states 4 queries, its parquet has 3"),
        (lambda path: edit(path, '"key": "graded_alpha"', '"key": "other"'), "is the score of random/other"),
        (lambda path: edit(path, '"protocol": "corrected"', '"protocol": "x"'), "protocol x, which is not known here"),
    ],
)  # fmt: skip
def test_what_does_not_follow_is_named(bench: Bench, damage: Callable[[Path], object], says: str) -> None:
    damage(bench.layout.graded("random", "graded_alpha"))
    found = recompute(bench.layout.results / "scores", settings(bench))
    (finding,) = found.units[1].findings
    assert (finding.name, finding.verdict) == ("random/graded_alpha", "MISMATCH")
    assert says in finding.reason


def test_a_consistent_forgery_is_held_against_the_roots(bench: Bench) -> None:
    roots = read_roots(roots_path(bench.layout))
    write(bench, "random", "graded_alpha", swap=True)
    found = recompute(bench.layout.results / "scores", settings(bench), roots)
    assert "roots.json records another score" in found.units[1].findings[0].reason


def test_crate_holds_those_of_sources_that_may_be_shown(bench: Bench, tmp_path: Path) -> None:
    export_crate(bench.run, tmp_path / "crate")
    listed = {one["@id"] for one in json.loads((tmp_path / "crate" / "ro-crate-metadata.json").read_bytes())["@graph"]}
    for model in bench.run.models:
        for key in ("graded_alpha", SHARED):
            assert {f"graded/{model}/{key}.json", f"graded/{model}/{key}.parquet"} <= listed
            path = tmp_path / "crate" / "graded" / model / f"{key}.json"
            assert read_graded_score(path) == read_graded_score(bench.layout.graded(model, key))
        assert not [name for name in listed if "graded_gamma" in name]
    assert not any(
        secret.encode() in path.read_bytes() for path in (tmp_path / "crate").rglob("*.*") for secret in SECRETS
    )
