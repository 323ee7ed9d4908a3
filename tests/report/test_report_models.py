"""What the report says of real models: where weights come from, under which terms, and what they were trained on."""

import dataclasses
from pathlib import Path

import make_scores as make
import pytest

from medheb.core.files import write_json
from medheb.fetch.found_weights import record_of
from medheb.manifest.load import Run
from medheb.manifest.model import Model
from medheb.report.collect import collect
from medheb.report.html import _weights
from medheb.report.notes import model_notes

COMMIT = "a" * 40
LICENCE = {"spdx": "MIT", "url": "https://example.org/terms"}


@pytest.fixture
def real(run: Run) -> Run:
    """The made-up run with the weights of one of its models in a repository and in a private folder."""
    source = next(iter(run.datasets))
    model = Model.model_validate(
        {
            "id": "efficient",
            "title": "A real model",
            "facts": {"train_sources": [source], "train_note": "one of these sources"},
            "adapter": {
                "name": "qwen3vl",
                "weights": {"kind": "hub", "repository": "group/model", "licence": LICENCE},
                "lora": {"kind": "folder", "path": "/home/somebody/lora", "licence": LICENCE},
            },
        }
    )
    return dataclasses.replace(run, models={**run.models, "efficient": model})


def test_training_sources_are_flagged(real: Run) -> None:
    (note,) = [note for note in model_notes(collect(real)) if note.about == "A real model"]
    source = next(iter(real.datasets))
    seen = [key for key, task in real.tasks.items() if source in task.sources]
    assert "Training data: one of these sources" in note.lines
    assert (
        f"Trained on sources of {len(seen)} of the {len(real.tasks)} tasks, so not zero-shot there: " in note.lines[-1]
    )
    assert all(key in note.lines[-1] for key in seen)


def test_weights_have_their_terms_and_commit_and_no_path(real: Run) -> None:
    folders = {
        "base": {"folder": "/somewhere", "repository": "group/model", "revision": COMMIT, "files": []},
        "lora": {"folder": "/home/somebody/lora", "files": []},
    }
    write_json(record_of(real.layout, "efficient"), {"schema_version": 1, "folders": folders})
    shown = {entry["source"]: entry["licence"].spdx for entry in _weights(collect(real))}
    assert shown[f"group/model {COMMIT[:8]}"] == "MIT"
    assert shown["own folder, A real model"] == "MIT"
    assert not any("somebody" in source for source in shown)


def test_a_model_that_was_not_fetched_has_no_commit(real: Run, tmp_path: Path) -> None:
    assert "group/model" in {entry["source"] for entry in _weights(collect(real))}
    assert make.model("efficient", "title").facts.train_sources == ()
