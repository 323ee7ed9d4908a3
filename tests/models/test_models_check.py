"""`medheb models check`: a clear sentence for each model that is not ready, a self-test for each that is there."""

import json
import shutil
from collections.abc import Callable, Sequence
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from harness import FOLDERS, SETTINGS
from rich.console import Console
from typer.testing import CliRunner

from medheb.cli import app
from medheb.core.errors import MedhebError
from medheb.core.layout import Layout
from medheb.manifest.config import Config
from medheb.manifest.load import Run, load_models
from medheb.manifest.model import Model
from medheb.manifest.protocol import Protocol
from medheb.models import check as checks
from medheb.models.base import Prepared, Vectors
from medheb.models.check import ModelCheck, check_models, print_check

ROOT = Path(__file__).resolve().parents[2]
PROTOCOL = Protocol(
    name="corrected",
    title="a test",
    ties="expected",
    candidate_identity="content",
    text_cleaning=False,
    tie_tolerance=0,
)
ALL = ("siglip", "blip2_itc", "medimageinsight", "vlm2vec", "rzen", "qwen3vl")
Checkpoint = Callable[[str], Path]


def entry(name: str, folder: Path | None, facts: dict[str, Any] | None = None, **settings: Any) -> Model:
    weights = {"kind": "folder", "path": None if folder is None else str(folder)}
    adapter = {"name": FOLDERS.get(name, name), "weights": weights, **SETTINGS.get(name, {}), **settings}
    return Model.model_validate({"id": name, "title": name * 2, "adapter": adapter, "facts": facts or {}})


def run_of(tmp_path: Path, *models: Model) -> Run:
    layout = Layout(tmp_path / "sources", tmp_path / "benchmark", tmp_path / "results")
    return Run(Config(), layout, {}, {}, {model.id: model for model in models}, PROTOCOL)


def only(run: Run, **options: Any) -> ModelCheck:
    (found,) = check_models(run, (), "cpu", **options).models
    return found


def shown(run: Run) -> str:
    out = StringIO()
    print_check(check_models(run, (), "cpu", run_networks=False), Console(file=out, width=300))
    return out.getvalue()


@pytest.mark.parametrize("name", ALL)
def test_weights_that_are_there_are_tried(checkpoint: Checkpoint, tmp_path: Path, name: str) -> None:
    found = only(run_of(tmp_path, entry(name, checkpoint(name))))
    assert (found.state, found.self_test, found.findings, found.reason) == ("ready", "passed", (), "")


def test_a_model_that_ignores_questions_beside_pictures_fails(checkpoint: Checkpoint, tmp_path: Path) -> None:
    found = only(run_of(tmp_path, entry("rzen", checkpoint("rzen"), text_beside_images=False)))
    assert (found.state, found.self_test) == ("faulty", "failed")
    assert found.findings == ("question beside a picture: another question does not change the vector",)


def test_another_dimension_than_stated_fails(checkpoint: Checkpoint, tmp_path: Path) -> None:
    found = only(run_of(tmp_path, entry("siglip", checkpoint("siglip"), {"dimension": 1152})))
    assert found.state == "faulty"
    assert found.findings == ("dimension: vectors have 32 values, the entry says 1152",)


class Odd:
    """A network with a fault."""

    def __init__(self, inner: Any, fault: str) -> None:
        self.inner, self.fault, self.dimension = inner, fault, inner.dimension

    def encode(self, prepared: Sequence[Prepared]) -> Vectors:
        rows: Vectors = self.inner.encode(prepared)
        if self.fault == "nan":
            rows[0, 0] = np.nan
        if self.fault == "batch":
            rows = rows + np.float32(0.1) * len(rows) * np.arange(rows.shape[1], dtype=np.float32)
        if self.fault == "constant":
            rows = np.ones_like(rows)
        if self.fault == "error":
            raise RuntimeError("CUDA error: an illegal memory access\nmore lines")
        return rows


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("nan", "unit vector of a text: has NaN or infinity"),
        ("batch", "batch: a vector depends on its batch: a component differs by"),
        ("constant", "text: another text does not change the vector"),
        ("error", "unit vector of a text: CUDA error: an illegal memory access"),
    ],
)
def test_a_faulty_network_is_told(
    checkpoint: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str, words: str
) -> None:
    from medheb.models import networks

    real = networks.open_network
    monkeypatch.setattr(networks, "open_network", lambda *parts: Odd(real(*parts), fault))
    found = only(run_of(tmp_path, entry("siglip", checkpoint("siglip"))))
    assert found.state == "faulty"
    assert any(finding.startswith(words) for finding in found.findings), found.findings


def test_faulty_weights_are_told_by_the_check(checkpoint: Checkpoint, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(checkpoint("siglip"), tmp_path / "siglip"))
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    found = only(run_of(tmp_path, entry("siglip", folder)))
    assert (found.state, found.self_test) == ("faulty", "failed")
    assert "pytorch_model.bin: is a pickle" in found.reason
    assert "docs/models.md" in found.remedy
    untried = only(run_of(tmp_path, entry("siglip", folder)), run_networks=False)
    assert (untried.state, untried.self_test, untried.reason) == ("faulty", "not run", found.reason)


@pytest.mark.parametrize("name", ["siglip", "medimageinsight"])
def test_a_file_cut_off_in_a_folder_of_ones_own_has_a_remedy_for_it(
    checkpoint: Checkpoint, tmp_path: Path, name: str
) -> None:
    folder = Path(shutil.copytree(checkpoint(name), tmp_path / name))
    path = next(path for path in sorted(folder.rglob("model.*")) if path.suffix in {".safetensors", ".pt"})
    path.write_bytes(path.read_bytes()[:-1000])
    found = only(run_of(tmp_path, entry(name, folder)))
    assert (found.state, found.self_test) == ("faulty", "failed")
    assert "cannot be loaded as weights" in found.reason
    assert "into a folder of your own by hand" in found.remedy


def test_too_little_memory_is_no_fault(checkpoint: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "GIGABYTE", 1.0)
    facts = {"parameters": 10**15}
    found = only(run_of(tmp_path, entry("siglip", checkpoint("siglip"), facts)))
    assert (found.state, found.self_test) == ("ready", "not run")
    assert found.reason.startswith("self-test not run: it needs ")


def test_each_model_of_the_paper_says_what_it_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setattr(checks, "token_place", lambda _: None)
    run = run_of(tmp_path, *load_models(ROOT / "manifests" / "models.yaml").values())
    sentences = {model.id: f"{model.reason}. {model.remedy}" for model in check_models(run, (), "cpu").models}
    assert len(sentences) == 10
    assert (
        "are gated and there is no token. Accept the terms at https://huggingface.co/google/medsiglip-448"
        in sentences["medsiglip"]
    )
    assert "set HF_TOKEN" in sentences["medsiglip"]
    assert "Get the weights from their authors" in sentences["medimageinsight"]
    assert "are not fetched yet (about 3.5 GB). Run `medheb fetch-model siglip`" in sentences["siglip"]
    assert "weights: {medemb_8b: FOLDER}" in sentences["medemb_8b"]
    monkeypatch.setattr(checks, "token_place", lambda _: "environment (HF_TOKEN)")
    (gated,) = check_models(run, ["medsiglip"], "cpu").models
    assert "Its terms must be accepted at https://huggingface.co/google/medsiglip-448" in gated.remedy


def test_a_small_disk_is_told_before_the_download(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "_free", lambda _: 10**9)
    run = run_of(tmp_path, *load_models(ROOT / "manifests" / "models.yaml").values())
    (found,) = check_models(run, ["rzenembed"], "cpu").models
    assert "need about 16.6 GB, and 1.0 GB are free" in found.reason


def test_the_table_has_licence_gate_and_memory(tmp_path: Path) -> None:
    table = shown(run_of(tmp_path, *load_models(ROOT / "manifests" / "models.yaml").values()))
    assert "Apache-2.0" in table
    assert "(gated)" in table
    assert "about 40.0 GB" in table
    assert "google/siglip-so400m-patch14-384: not there" in table


def test_an_unknown_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MedhebError, match=r"model 'nope': has no weights to check in this run. Allowed: siglip"):
        check_models(run_of(tmp_path, entry("siglip", None)), ["nope"], "cpu")


def test_the_command_prints_json_and_ends_with_one_if_a_model_is_not_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    result = CliRunner().invoke(
        app, ["models", "check", "medimageinsight", "--device", "cpu", "--no-self-test", "--json"]
    )
    assert result.exit_code == 1
    (found,) = json.loads(result.stdout)["models"]
    assert (found["id"], found["state"]) == ("medimageinsight", "missing")


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (["embed", "nobody", "ct_b"], "nobody: is no model of this run"),
        (["embed", "random", "ct_b+ct_a"], "ct_b+ct_a: is no group of tasks of this run"),
        (["evaluate", "random", "CT_Organ"], "CT_Organ: is no task of this run"),
        (["evaluate-graded", "random", "none"], "none: is no graded task of this run"),
        (["fetch-model", "nobody"], "nobody: is no model of this run"),
        (["bridge", "nobody"], "nobody: is no model of this run"),
    ],
)
def test_a_name_that_the_run_does_not_have_is_refused(
    monkeypatch: pytest.MonkeyPatch, words: list[str], fault: str
) -> None:
    monkeypatch.chdir(ROOT)
    result = CliRunner().invoke(app, ["--config", "config/demo.yaml", *words])
    assert isinstance(result.exception, MedhebError)
    assert str(result.exception).startswith(fault)
