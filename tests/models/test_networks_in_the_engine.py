"""Real architectures through the whole job: fetch, embed in worker processes, evaluate; a second job does nothing."""

import dataclasses
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from harness import FOLDERS, SETTINGS

sys.path.insert(0, str(Path(__file__).parents[1] / "embed"))

from toy_run import make_files, toy_run

from medheb.embed.receipt import Receipt, read_receipt
from medheb.embed.run import embed_inputs
from medheb.evaluate.run import evaluate_task
from medheb.evaluate.score import read_score
from medheb.fetch.source import fetch_model
from medheb.manifest.load import Run
from medheb.manifest.model import Model

Checkpoint = Callable[[str], Path]


def run_with(root: Path, name: str, folder: Path, workers: int = 0, **settings: Any) -> Run:
    adapter = {
        "name": FOLDERS.get(name, name),
        "weights": {"kind": "folder", "path": str(folder)},
        **SETTINGS.get(name, {}),
        **settings,
    }
    model = Model.model_validate({"id": "tiny", "title": "Tiny model", "adapter": adapter})
    made = toy_run(root, workers=workers, device="cpu")
    return dataclasses.replace(made, models={"tiny": model})


def receipt(run: Run) -> Receipt:
    return read_receipt(run.layout.embedded("tiny", "toy"))


@pytest.mark.parametrize("name", ["siglip", "blip2_itc", "medimageinsight", "vlm2vec", "rzen", "qwen3vl"])
def test_fetch_embed_and_evaluate(checkpoint: Checkpoint, tmp_path: Path, name: str) -> None:
    run = run_with(tmp_path, name, checkpoint(name))
    make_files(run, 6)
    assert fetch_model(run, "tiny").ok
    status = embed_inputs(run, "tiny", "toy", 1)
    assert status.ok, status.reason
    first = receipt(run)
    # towers: 6 pictures and the instruction; streams: 6 queries with it, 6 candidates without
    assert first.computed == (7 if name in {"siglip", "blip2_itc", "medimageinsight"} else 12)
    assert evaluate_task(run, "tiny", "toy_i2i").ok
    score = read_score(run.layout.score("tiny", "toy_i2i"))
    assert score.queries == 6
    assert embed_inputs(run, "tiny", "toy", 1).ok
    assert receipt(run).computed == 0


def test_the_receipt_counts_texts_that_were_cut(checkpoint: Checkpoint, tmp_path: Path) -> None:
    run = run_with(tmp_path, "blip2_itc", checkpoint("blip2_itc"), max_tokens=8)
    task = run.tasks["toy_i2i"]
    make_files(run, 4)
    index = run.layout.task_index(task.index)
    index.write_text(
        index.read_text().replace('"qry_text": ""', '"qry_text": "small left pleural effusion and no tumor"')
    )
    assert fetch_model(run, "tiny").ok
    notes = ("texts of this group of tasks that are longer than the model reads, cut at their end: 1",)
    for computed in (6, 0):
        assert embed_inputs(run, "tiny", "toy", 1).ok
        assert (receipt(run).computed, receipt(run).notes) == (computed, notes)
        assert evaluate_task(run, "tiny", "toy_i2i").ok
        assert set(notes) <= set(read_score(run.layout.score("tiny", "toy_i2i")).warnings)


def test_worker_processes_give_the_same_store(checkpoint: Checkpoint, tmp_path: Path) -> None:
    digests = []
    for workers in (0, 1):
        run = run_with(tmp_path / str(workers), "qwen3vl", checkpoint("qwen3vl"), workers)
        make_files(run, 4)
        assert fetch_model(run, "tiny").ok
        assert embed_inputs(run, "tiny", "toy", 2).ok
        digests.append(receipt(run).vectors)
    assert digests[0] == digests[1]


def test_weights_that_are_not_there_block_the_cell_with_their_reason(tmp_path: Path) -> None:
    run = run_with(tmp_path, "siglip", tmp_path / "nowhere")
    make_files(run, 4)
    blocked = fetch_model(run, "tiny")
    assert blocked.state == "blocked"
    assert embed_inputs(run, "tiny", "toy", 1) == blocked
    assert evaluate_task(run, "tiny", "toy_i2i") == blocked
    assert read_score(run.layout.score("tiny", "toy_i2i")).status == blocked


def test_weights_that_change_under_a_run_stop_it(checkpoint: Checkpoint, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(checkpoint("siglip"), tmp_path / "weights"))
    run = run_with(tmp_path, "siglip", folder)
    make_files(run, 4)
    assert fetch_model(run, "tiny").ok
    with (folder / "model.safetensors").open("ab") as stream:
        stream.write(b"\0")
    status = embed_inputs(run, "tiny", "toy", 1)
    assert status.state == "failed"
    assert "has changed since the model was fetched" in status.reason


def test_weights_that_do_not_fit_become_a_reason(checkpoint: Checkpoint, tmp_path: Path) -> None:
    run = run_with(tmp_path, "siglip", checkpoint("blip2_itc"))
    make_files(run, 4)
    assert fetch_model(run, "tiny").ok
    status = embed_inputs(run, "tiny", "toy", 1)
    assert status.state == "failed"
    assert "does not fit its model" in status.reason or "cannot be loaded as weights" in status.reason
