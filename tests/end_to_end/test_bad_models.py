"""A model that breaks in the middle: a clear reason, and nothing of what was embedded before is lost."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from medheb.embed import run as embed
from medheb.embed.store import Store
from medheb.evaluate.run import evaluate_task
from medheb.manifest.load import Run, load_config, load_run
from medheb.models.base import Prepared, ReadImage, Rendered, Vectors
from medheb.models.canaries import CanaryAdapter, RandomEncoder
from medheb.report.run import collect_report

SHARD = 16


class Breaking:
    """Random vectors, until the third batch."""

    dimension = 8

    def __init__(self, value: float) -> None:
        self.value = value
        self.calls = 0

    def encode(self, prepared: Sequence[Prepared]) -> Vectors:
        vectors = RandomEncoder(8).encode(prepared)
        self.calls += 1
        if self.calls == 3:
            vectors[1] = self.value
        return vectors


@pytest.fixture
def workspace(run: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(run)
    return load_run(load_config([Path("config/config.yaml")], {"embed": {"shard_inputs": SHARD}}))


def empty_store(run: Run) -> Path:
    folder = next(run.layout.store("random").iterdir())
    for shard in folder.iterdir():
        shard.unlink()
    return folder


@pytest.mark.parametrize(("value", "what"), [(np.nan, "not finite"), (np.inf, "not finite"), (0.0, "of length zero")])
def test_unusable_vector_is_a_reason_and_loses_nothing(
    workspace: Run, monkeypatch: pytest.MonkeyPatch, value: float, what: str
) -> None:
    folder = empty_store(workspace)
    monkeypatch.setattr(embed, "load_encoder", lambda *_: Breaking(value))
    status = embed.embed_inputs(workspace, "random", "person_x")
    assert status.state == "failed"
    assert f"gave 1 vectors that are {what}, the first for" in status.reason
    assert "Check its weights" in status.remedy
    kept = len(Store(folder))
    assert SHARD < kept <= 2 * SHARD, "the two good batches stay"

    assert evaluate_task(workspace, "random", "Organ_cls").reason == status.reason
    collect_report(workspace)
    summary = (workspace.layout.report / "summary.json").read_text()
    assert what in summary

    monkeypatch.setattr(embed, "load_encoder", lambda *_: RandomEncoder(8))
    assert embed.embed_inputs(workspace, "random", "person_x").ok
    receipt = json.loads(workspace.layout.embedded("random", "person_x").read_text())
    assert receipt["computed"] == receipt["inputs"] - kept


def test_changed_image_is_refused_before_it_is_embedded(workspace: Run) -> None:
    empty_store(workspace)

    class Reading(CanaryAdapter):
        def prepare(self, part: Rendered, read_image: ReadImage) -> Prepared:
            for ref in part.images:
                read_image(ref)
            return super().prepare(part, read_image)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(embed, "load_adapter", lambda *_: Reading())
        for path in (workspace.layout.benchmark / "3D_Images" / "Person_X").rglob("*.png"):
            path.write_bytes(path.read_bytes() + b"x")
        status = embed.embed_inputs(workspace, "random", "person_x")
    assert status.state == "failed"
    assert "has changed since it was built" in status.reason
    assert ".png" in status.reason


def test_missing_vectors_name_the_store(workspace: Run) -> None:
    folder = empty_store(workspace)
    status = evaluate_task(workspace, "random", "Organ_cls")
    assert status.state == "failed"
    assert str(folder) in status.reason
    assert "Run the embedding step again" in status.remedy
