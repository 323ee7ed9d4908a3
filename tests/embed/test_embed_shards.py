"""A large group in several jobs: together they do what one job does, each part once, and trouble is passed on."""

import json
from pathlib import Path

import numpy as np
import pytest
from toy_model import ToyAdapter, ToyEncoder
from toy_run import MODEL, embed, make_files, receipt, store, toy_run
from toy_run import shards as store_files

from medheb.core.errors import MedhebError
from medheb.core.files import write_json
from medheb.core.shards import Shard, parse_shard
from medheb.core.status import Status
from medheb.driver import forget_trouble
from medheb.embed import gather as gathering
from medheb.embed import run as job
from medheb.embed.gather import gather_shards
from medheb.embed.receipt import read_receipt, write_receipt
from medheb.manifest.load import Run
from medheb.models.base import Prepared, ReadImage, Rendered

SMALL = {"shard_inputs": 4, "batch_tokens": 250, "workers": 0}
COUNT = 3


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    made = toy_run(tmp_path / "run", **SMALL)
    make_files(made)
    for module in (job, gathering):
        monkeypatch.setattr(module, "load_adapter", lambda *_: ToyAdapter())
    monkeypatch.setattr(job, "load_encoder", lambda *_: ToyEncoder())
    return made


def embed_all(run: Run) -> None:
    for number in reversed(range(COUNT)):
        assert job.embed_inputs(run, MODEL, "toy", shard=Shard(number, COUNT)).ok


def test_shards_and_their_gathering_are_one_job(run: Run, tmp_path: Path) -> None:
    embed_all(run)
    parts = [read_receipt(run.layout.embedded_shard(MODEL, "toy", Shard(number, COUNT))) for number in range(COUNT)]
    assert sum(one.computed for one in parts) == 40
    assert all(8 <= one.computed <= 18 for one in parts)
    assert len({one.vectors for one in parts}) == COUNT
    assert not run.layout.embedded(MODEL, "toy").exists(), "a shard is not the group"
    assert gather_shards(run, MODEL, "toy", COUNT).ok
    whole = toy_run(tmp_path / "whole", **SMALL)
    make_files(whole)
    assert embed(whole, ToyAdapter(), ToyEncoder()).ok
    one, several = receipt(whole), receipt(run)
    assert several.vectors == one.vectors
    assert several.fingerprint == one.fingerprint
    assert (several.inputs, several.parts, several.computed) == (one.inputs, one.parts, one.computed)
    assert several.tokens == one.tokens


def test_gathering_loads_no_weights_and_embeds_nothing(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    embed_all(run)
    before = store_files(run)
    monkeypatch.setattr(job, "load_encoder", lambda *_: pytest.fail("weights were loaded"))
    assert gather_shards(run, MODEL, "toy", COUNT).ok
    assert store_files(run) == before


def test_a_shard_that_ran_again_embeds_nothing(run: Run) -> None:
    embed_all(run)
    assert job.embed_inputs(run, MODEL, "toy", shard=Shard(1, COUNT)).ok
    assert read_receipt(run.layout.embedded_shard(MODEL, "toy", Shard(1, COUNT))).computed == 0
    assert gather_shards(run, MODEL, "toy", COUNT).ok
    assert len(store(run)) == 40


def test_notes_of_all_shards_are_those_of_the_group(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts add up, and jobs that find all stored tell them again."""
    index = run.layout.task_index("2D_Task/toy/toy_i2i.json")
    records = json.loads(index.read_text())
    for number, record in enumerate(records):
        record["qry_text"] = f"{number} and a long text" if number < 9 else f"{number}"
    write_json(index, records)

    class Cutting(ToyAdapter):
        def prepare(self, part: Rendered, read_image: ReadImage) -> Prepared:
            found = super().prepare(part, read_image)
            return Prepared({**found.arrays, "cut": np.asarray(max(0, len(part.text) - 5))}, found.tokens)

    for module in (job, gathering):
        monkeypatch.setattr(module, "load_adapter", lambda *_: Cutting())
    for _ in range(2):
        embed_all(run)
        assert gather_shards(run, MODEL, "toy", COUNT).ok
        assert receipt(run).notes == (
            "texts of this group of tasks that are longer than the model reads, cut at their end: 9",
        )
    assert receipt(run).computed == 0


def test_trouble_of_a_shard_is_the_trouble_of_the_group(run: Run) -> None:
    embed_all(run)
    path = run.layout.embedded_shard(MODEL, "toy", Shard(2, COUNT))
    trouble = Status(state="failed", reason="the disk is full", remedy="Free some space")
    write_receipt(path, read_receipt(path).model_copy(update={"status": trouble}))
    assert gather_shards(run, MODEL, "toy", COUNT) == trouble
    assert receipt(run).status == trouble
    assert receipt(run).vectors == ""


def test_vectors_that_are_gone_are_named(run: Run) -> None:
    embed_all(run)
    store_files(run)[0].unlink()
    status = gather_shards(run, MODEL, "toy", COUNT)
    assert not status.ok
    assert "of 40 parts of the group" in status.reason
    assert "medheb retry" in status.remedy


def test_shards_of_different_number_formats_do_not_mix(run: Run) -> None:
    embed_all(run)
    path = run.layout.embedded_shard(MODEL, "toy", Shard(0, COUNT))
    write_receipt(path, read_receipt(path).model_copy(update={"fingerprint": "another"}))
    status = gather_shards(run, MODEL, "toy", COUNT)
    assert not status.ok
    assert "different tasks, weights or number formats" in status.reason


def test_a_shard_that_never_ran_stops_the_gathering(run: Run) -> None:
    assert job.embed_inputs(run, MODEL, "toy", shard=Shard(0, COUNT)).ok
    with pytest.raises(MedhebError, match=r"2_of_3\.json: is missing"):
        gather_shards(run, MODEL, "toy", COUNT)


def test_shards_are_told_as_number_and_count() -> None:
    assert parse_shard("3/16") == Shard(2, 16)
    assert [part for number in range(3) for part in Shard(number, 3).of(range(7))] == [0, 3, 6, 1, 4, 2, 5]
    for wrong in ("", "3", "0/3", "4/3", "a/3", "-1/3"):
        with pytest.raises(MedhebError, match="NUMBER/COUNT"):
            parse_shard(wrong)


def test_retry_forgets_all_receipts_of_a_group_in_trouble_and_what_is_stored_stays(run: Run) -> None:
    embed_all(run)
    store_files(run)[0].unlink()
    assert not gather_shards(run, MODEL, "toy", COUNT).ok
    forgotten = forget_trouble(run)
    receipts = [run.layout.embedded_shard(MODEL, "toy", Shard(number, COUNT)) for number in range(COUNT)]
    assert {run.layout.embedded(MODEL, "toy"), *receipts} <= set(forgotten)
    embed_all(run)
    assert sum(read_receipt(path).computed for path in receipts) < 40
    assert gather_shards(run, MODEL, "toy", COUNT).ok


def test_retry_leaves_receipts_without_trouble(run: Run) -> None:
    embed_all(run)
    assert gather_shards(run, MODEL, "toy", COUNT).ok
    assert not any("embeddings" in path.parts for path in forget_trouble(run))
