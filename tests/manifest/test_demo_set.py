"""The demo covers what it promises: families, forms, pools, people, pins."""

from pathlib import Path

import pytest

from medheb.manifest.load import Run, load_config, load_run
from medheb.manifest.task import FAMILIES

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(ROOT)
    return load_run(load_config([ROOT / "config" / "demo.yaml"]))


def test_at_least_twelve_tasks_in_all_families(run: Run) -> None:
    assert len(run.tasks) >= 12
    assert {task.family for task in run.tasks.values()} == set(FAMILIES)


@pytest.mark.parametrize("form", ["2d", "3d", "text"])
def test_each_form_has_local_and_global_pools(run: Run, form: str) -> None:
    assert {task.pool for task in run.tasks.values() if task.form == form} == {"local", "global"}


def test_everything_fetched_is_pinned(run: Run) -> None:
    files = [file for dataset in run.datasets.values() for file in dataset.files]
    files += [weights.file for model in run.models.values() for weights in model.weights()]
    assert all(file.sha256 and file.bytes for file in files)


def test_two_competitors_and_two_canaries(run: Run) -> None:
    canaries = {key for key, model in run.models.items() if model.canary}
    assert canaries == {"random", "constant"}
    assert len(run.models) - len(canaries) >= 2


def test_label_and_text_tasks_never_query_the_bridge_s_training_person(run: Run) -> None:
    trained = {source for model in run.models.values() if model.bridge for source in model.bridge.train_sources}
    for task in run.tasks.values():
        if task.family in {"image-label", "image-report", "vqa", "text-image"}:
            assert task.sources[0] not in trained, task.task


def test_sources_are_sorted_and_titled(run: Run) -> None:
    assert list(run.datasets) == sorted(run.datasets)
    for dataset in run.datasets.values():
        assert dataset.note or dataset.subject or dataset.form == "text"
