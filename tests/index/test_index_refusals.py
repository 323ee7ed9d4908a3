"""What ``medheb index`` says when it cannot: the reason, and a remedy that fits what was typed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import make_benchmark as benchmark
import make_sources as make
import pytest
from typer.testing import CliRunner

from medheb.build.inventory import write_inventory
from medheb.cli import app
from medheb.core.errors import MedhebError
from medheb.core.status import OK, read_status, write_status
from medheb.fetch.source import fetch_source
from medheb.index.commands import index_command
from medheb.index.completeness import NUMBERS
from medheb.index.run import build_index, released_file
from medheb.index.train import train_command
from medheb.manifest.load import Run, load_config, load_run
from medheb.manifest.released import RELEASED_ID

ROOT = Path(__file__).resolve().parents[2]


def built(folder: Path, *names: str) -> Run:
    """The benchmark of which some sources are built."""
    run = benchmark.benchmark_run(folder)
    for name in names:
        benchmark.write_source(run, benchmark.made_source(run.datasets[name]))
    return run


def test_other_tasks_are_made_where_one_lacks_a_source(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = built(tmp_path, "kvasir_seg", "kvasir")
    with pytest.raises(MedhebError) as caught:
        index_command(run, ["ISIC-2019_cls", "kvasir_seg", "kvasir", "Retinal_i2i"])
    assert "is missing: source rfmid has not been built" in str(caught.value) + capsys.readouterr().err
    assert all(run.layout.task_index(run.tasks[f"Kvasir_{form}"].index).exists() for form in ("cls", "i2i", "t2i"))
    with pytest.raises(MedhebError) as caught:
        index_command(run, ["kvasir_seg"])
    assert caught.value.fault == "is missing: source polypgen has not been built"
    assert f"`medheb build polypgen --source FOLDER --out {run.layout.benchmark}`" in caught.value.remedy


def test_a_refusal_without_content_is_shown_for_every_source(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run = built(tmp_path)
    made = benchmark.made_source(run.datasets["mrnet"])
    assert not run.datasets["mrnet"].show_content
    made.files = [file.model_copy(update={"facts": {**file.facts, "label": None}}) for file in made.files]
    benchmark.write_source(run, made)
    status = build_index(run, "MRNet_cls")
    assert status.origin == "rule of MRNet_cls"
    assert "items, none with the fact 'label'" in status.reason
    assert status.remedy == "Build the source with its table of labels"
    assert "none with the fact 'label'. Build the source with its table of labels" in caplog.text


def test_a_task_without_rows_says_what_was_left_out(tmp_path: Path) -> None:
    files = [
        make.built_file(f"{split}/{label}.png", f"{split}{label}", kind="picture", label=label, split=split)
        for split in ("test", "train")
        for label in "abcd"
    ]
    task = make.task("rule", "b", image_root="3D_Images/b")
    run = make.run_of(tmp_path, [task], b=make.inventory("b", files))
    rule = run.rules["label"].model_copy(update={"builder": "same_label", "options": {"items": {"kind": "picture"}}})
    run = replace(run, rules={"rule": rule})
    status = build_index(run, task.task)
    assert (
        status.reason == "task Some_task: has no query: left out are 4 queries without another picture of their class"
    )
    assert status.remedy == "Build its sources with more of what they hold"
    rule = rule.model_copy(update={"builder": "label", "options": {"items": {"kind": "xray"}}})
    status = build_index(replace(run, rules={"rule": rule}), task.task)
    assert status.reason.endswith("asks for in b, which offers 8 of kind picture")


def test_outside_a_run_an_empty_task_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    run = built(tmp_path, "public_health_qa", "bloodmnist")
    out = ["--out", str(run.layout.benchmark)]
    runner = CliRunner()
    assert runner.invoke(app, ["index", "public_health_qa", *out]).exit_code == 0
    made = benchmark.made_source(run.datasets["bloodmnist"])
    made.files = [file for file in made.files if file.facts["label"] == "basophil"]
    benchmark.write_source(run, made)
    assert runner.invoke(app, ["index", "BloodMNIST_cls", *out]).exit_code == 1
    refused = runner.invoke(app, ["index", "kvasir", "--out", str(tmp_path / "none")])
    assert str(refused.exception).endswith("none: is no folder. Name the one that `medheb build --out` filled")


def test_a_graded_task_that_cannot_be_made_is_told_and_is_no_error_of_its_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It needs CheXpert-Plus too, and tables of labels that a copy of MIMIC-CXR may lack."""
    monkeypatch.chdir(ROOT)
    run, runner, graded = built(tmp_path, "mimic_cxr"), CliRunner(), "graded_MIMIC-CXR_to_CheXpert-Plus"
    out = ["--out", str(run.layout.benchmark)]
    own = [key for key, task in run.tasks.items() if "mimic_cxr" in task.sources]
    assert graded not in own
    found = runner.invoke(app, ["index", "mimic_cxr", *out])
    assert found.exit_code == 0
    assert f"not made: {graded} (graded relevance, none of the benchmark's own tasks)" in found.output
    assert "source chexpert_plus has not been built" in found.output
    assert all(run.layout.task_index(run.tasks[key].index).exists() for key in own)
    for file in benchmark.made_source(run.datasets["mimic_cxr"]).files:
        path = run.layout.benchmark / run.datasets["mimic_cxr"].images / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    checked = runner.invoke(app, ["index", "check", "mimic_cxr", *out])
    assert (checked.exit_code, f"{graded}: not made" in checked.output) == (0, True), checked.output
    assert runner.invoke(app, ["index", "check", graded, *out]).exit_code == 1
    # Whoever asks for it by name gets the error.
    assert "chexpert_plus has not been built" in str(runner.invoke(app, ["index", graded, *out]).exception)
    benchmark.write_source(run, benchmark.made_source(run.datasets["chexpert_plus"]))
    without_labels = runner.invoke(app, ["index", "mimic_cxr", *out])
    assert without_labels.exit_code == 0
    assert not read_status(run.layout.task_status(run.every_task[graded].index)).ok
    assert runner.invoke(app, ["index", graded, *out]).exit_code == 1


def released(folder: Path, **config: object) -> Run:
    paths = {name: str(folder / name) for name in ("sources", "benchmark", "results")}
    return load_run(load_config([ROOT / "config" / "full.yaml"], {"paths": paths, "task_index": "released", **config}))


def test_the_released_index_may_be_a_copy_of_your_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    copy = tmp_path / "copy"
    run = released(tmp_path, local_copies={RELEASED_ID: str(copy)}, accept="open")
    task = run.tasks["APTOS_cls"]
    (copy / task.index).parent.mkdir(parents=True)
    (copy / task.index).write_text("[]")
    assert fetch_source(run.with_index(), RELEASED_ID).ok
    assert released_file(run, task) == copy / task.index


def test_a_released_index_that_was_not_fetched_says_how(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    run = released(tmp_path)
    source = run.datasets["aptos_2019"]
    inventory = benchmark.made_inventory(benchmark.made_source(source))
    write_inventory(run.layout.inventory(source.images, source.id), inventory)
    with pytest.raises(MedhebError, match="Run `medheb --set task_index=released fetch released_index`"):
        build_index(run, "APTOS_cls")
    write_status(run.layout.source_status(RELEASED_ID), OK)
    assert "has no file for task APTOS_cls" in build_index(run, "APTOS_cls").reason


def test_tests_that_nobody_could_look_at_are_named_beside_the_training_rows(tmp_path: Path) -> None:
    run = built(tmp_path, "bloodmnist")
    train_command(run, ["bloodmnist"])
    unseen = json.loads((run.layout.train_data / "tests_not_seen.json").read_text())
    assert len(unseen) == 105  # 104 of the 107, and the one of graded relevance that is none of them
    assert unseen["Kvasir_cls"] == "a source has not been built"
    assert unseen["MRNet_cls"] == "a source has not been built"


def test_patterns_take_digests_as_numbers() -> None:
    assert NUMBERS.sub("#", "files/p10/s5/0a1b2c3d-4e5f6071-8293a4b5-c6d7e8f9.jpg") == "files/p#/s#/#.jpg"
    assert NUMBERS.sub("#", "gold_crop/0a1b2c3d-4e5f6071-8293a4b5-c6d7e8f9_3_0.png") == "gold_crop/#_#_#.png"
    assert NUMBERS.sub("#", "faced/face_12.png") == "faced/face_#.png"
    assert NUMBERS.sub("#", "images/test_cju0qkwl35piu0993l0dewei2_polyp.png") == "images/test_#_polyp.png"
    assert NUMBERS.sub("#", "Adenocarcinoma/0024cdab0c1e.png") == "Adenocarcinoma/#.png"
