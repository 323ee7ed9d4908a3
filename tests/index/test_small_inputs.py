"""``medheb index`` for every source: real recipes over small inputs, then every task, its check and its training."""

from __future__ import annotations

import json
from pathlib import Path

import make_benchmark as benchmark
import pytest
import small_inputs
from typer.testing import CliRunner

from medheb.build.run import build_from
from medheb.cli import app
from medheb.core.status import read_status
from medheb.index.quality import read_quality
from medheb.index.train import Trained, train_command
from medheb.manifest.load import Run

EVERY = benchmark.benchmark_run(Path("nowhere"))
OPTIONS = {"mimic_cxr_lt": {"labels": small_inputs.make_xrays.LT_LABELS, "test_rows": 4}}


def build(run: Run, name: str, files: Path) -> None:
    """Build one source into the benchmark folder of a run."""
    dataset = run.datasets[name]
    recipe = dataset.recipe.model_copy(update={"options": dataset.recipe.options | OPTIONS.get(name, {})})
    changed = dataset.model_copy(update={"recipe": recipe})
    build_from(changed, files, run.layout.benchmark, run.config.protocol, "cone", workers=1)


@pytest.fixture(scope="module", params=["corrected", "release"])
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The benchmark, all sources built from small inputs."""
    folder = tmp_path_factory.mktemp(request.param)
    run = benchmark.benchmark_run(folder, protocol=request.param)
    for name, lay in small_inputs.LAYERS.items():
        lay(folder / "in" / name)
        build(run, name, folder / "in" / name)
    return run


def test_every_source_has_inputs() -> None:
    assert set(small_inputs.LAYERS) == set(EVERY.datasets)


@pytest.mark.parametrize("name", sorted(EVERY.datasets))
def test_the_command_makes_every_task_of_a_source(built: Run, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(benchmark.ROOT)
    out = ["--out", str(built.layout.benchmark), "--protocol", built.config.protocol]
    result = CliRunner().invoke(app, ["index", name, *out])
    assert result.exit_code == 0, (result.output, result.exception)
    keys = [key for key, task in built.every_task.items() if name in task.sources]
    assert keys
    checked = CliRunner().invoke(app, ["index", "check", name, *out])
    assert checked.exit_code == 0, checked.output
    assert f"{len(keys)} of {len(keys)} tasks are complete" in checked.output
    for key in keys:
        task = built.every_task[key]
        assert read_status(built.layout.task_status(task.index)).ok, key
        quality = read_quality(built.layout.task_quality(task.index))
        assert quality.rows > 0
        assert quality.pool is not None
        if task.pool == "local":
            assert quality.pool.minimum >= 2, key
            assert quality.rows_with_repeats == 0, key


def test_every_in_distribution_task_has_training_rows(built: Run) -> None:
    found: dict[str, Trained] = {trained.task: trained for trained in train_command(built)}
    empty = {key: trained.status.reason or trained.overlaps for key, trained in found.items() if not trained.rows}
    assert empty.keys() == {"MedicalQA", "PublicHealthQA"}, empty
    unseen = json.loads((built.layout.train_data / "tests_not_seen.json").read_text())
    assert unseen == {}
