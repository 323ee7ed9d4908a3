"""Which graded tasks a run has, and what they add to its tasks."""

from pathlib import Path

import pytest
import yaml

from medheb.core.errors import MedhebError
from medheb.manifest.config import Config
from medheb.manifest.load import Run, load_run

ROOT = Path(__file__).resolve().parents[2]
CROSS = "graded_MIMIC-CXR_to_CheXpert-Plus"


@pytest.fixture(autouse=True)
def at_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def run_of(**options: object) -> Run:
    return load_run(Config.model_validate({"manifests": "manifests"} | options))


def test_the_benchmark_keeps_its_tasks_and_embeds_one_more() -> None:
    run = run_of()
    assert (len(run.tasks), len(run.every_task), len(run.graded_entries)) == (107, 108, 19)
    assert CROSS not in run.tasks
    assert "mimic_cxr+chexpert_plus" in run.groups
    assert [task.task for task in run.tasks_of("mimic_cxr+chexpert_plus")] == [CROSS]


def test_graded_tasks_follow_the_choice_of_tasks_and_sources() -> None:
    assert set(run_of(tasks=["APTOS_i2i", "Kvasir_cls"]).graded_entries) == {"graded_APTOS_i2i"}
    assert run_of(tasks=["Kvasir_cls"]).graded is None
    assert set(run_of(datasets=["mimic_cxr", "aptos_2019"]).graded_entries) == {"graded_APTOS_i2i", "graded_APTOS_t2i"}
    assert set(run_of(datasets=["mimic_cxr", "chexpert_plus"]).graded_entries) == {CROSS}


def test_a_row_that_names_an_unknown_source_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sets = tmp_path / "sets"
    sets.mkdir()
    for path in (ROOT / "manifests").iterdir():
        if path.name != "graded.yaml":
            (sets / path.name).symlink_to(path)
    content = yaml.safe_load((ROOT / "manifests" / "graded.yaml").read_text())
    content["entries"][-1]["row"]["sources"] = ["mimic_cxr", "chexpert"]
    (sets / "graded.yaml").write_text(yaml.safe_dump(content))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(MedhebError, match=r"graded\.yaml: task graded_MIMIC.* names source 'chexpert'"):
        load_run(Config(manifests="sets"), ROOT / "manifests" / "protocols")
