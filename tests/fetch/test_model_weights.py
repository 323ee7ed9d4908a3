"""Weights of models: from a repository of the hub, or from a folder of the user; pinned, digested, recorded."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hub_samples import clean_home
from servers.huggingface import COMMIT, REPOSITORY, Hub

from medheb.core.errors import MedhebError
from medheb.core.layout import Layout
from medheb.core.status import Status, read_status
from medheb.driver import forget_trouble
from medheb.fetch.found_weights import FoundFolder, found_folder, own_state, read_found, weights_source
from medheb.fetch.lock import lock_file
from medheb.fetch.refresh import refresh
from medheb.fetch.source import fetch_model
from medheb.fetch.weights import with_weights
from medheb.manifest.config import Config
from medheb.manifest.load import Run
from medheb.manifest.model import Model
from medheb.manifest.protocol import Protocol
from medheb.models.load import fingerprint

HEAD = (2).to_bytes(8, "little") + b"{}"
BIG = HEAD + bytes(range(256)) * 300
FILES = {
    "README.md": b"# a model\n",
    "config.json": b"{}",
    "model.safetensors": BIG,
    "pytorch_model.bin": b"PK pickled",
    "tokenizer.json": b"{}",
    "onnx/model.onnx": b"other",
}
LICENCE = {"spdx": "MIT", "url": "https://example.org/licence"}
PROTOCOL = Protocol(
    name="corrected",
    title="a test",
    ties="expected",
    candidate_identity="content",
    text_cleaning=False,
    tie_tolerance=0,
)


def model(**weights: Any) -> Model:
    content = {"kind": "hub", "repository": REPOSITORY, "licence": LICENCE, **weights}
    return Model.model_validate(
        {"id": "tiny", "title": "Tiny model", "adapter": {"name": "siglip", "weights": content}}
    )


def own(path: Path | None, **changes: Any) -> Model:
    content = {"kind": "folder", "path": None if path is None else str(path), **changes}
    return Model.model_validate(
        {"id": "tiny", "title": "Tiny model", "adapter": {"name": "siglip", "weights": content}}
    )


def run_of(entry: Model, tmp_path: Path) -> Run:
    (tmp_path / "manifests").mkdir(exist_ok=True)
    layout = Layout(tmp_path / "sources", tmp_path / "benchmark", tmp_path / "results")
    return Run(Config(manifests="manifests"), layout, {}, {}, {entry.id: entry}, PROTOCOL)


def fetched(entry: Model, tmp_path: Path) -> tuple[Status, Run]:
    run = run_of(entry, tmp_path)
    status = fetch_model(run, entry.id)
    assert read_status(run.layout.model_status(entry.id)) == status
    return status, run


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    clean_home(tmp_path, monkeypatch)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "no_token"))
    monkeypatch.setattr("huggingface_hub.utils._http.time.sleep", lambda _: None)
    monkeypatch.setattr("medheb.fetch.sessions.pause", lambda _: None)
    with Hub(dict(FILES), lfs={"model.safetensors", "pytorch_model.bin"}) as running:
        monkeypatch.setenv("HF_ENDPOINT", running.api.url)
        yield running


def names(found: FoundFolder) -> list[str]:
    return [file.path for file in found.files]


def test_only_safetensors_configuration_and_tokenizer_come(hub: Hub, tmp_path: Path) -> None:
    status, run = fetched(model(), tmp_path)
    assert status.ok, status.reason
    found = found_folder(run.layout, "tiny", "base")
    assert names(found) == ["config.json", "model.safetensors", "tokenizer.json"]
    assert (Path(found.folder) / "model.safetensors").read_bytes() == BIG
    assert found.revision == COMMIT, "main is resolved once and recorded"
    assert found.repository == REPOSITORY
    asked = [request.path for request in (*hub.api.requests, *hub.cdn.requests)]
    assert not any("pytorch_model.bin" in path for path in asked if "tree" not in path)


def test_what_came_stays_though_main_moves_until_its_lock_says_so(hub: Hub, tmp_path: Path) -> None:
    _, run = fetched(model(), tmp_path)
    before = fingerprint(run.models["tiny"], run.layout)
    hub.commit = "c" * 40
    hub.files["model.safetensors"] = HEAD + b"newer"
    status, run = fetched(model(), tmp_path)
    assert status.ok
    assert found_folder(run.layout, "tiny", "base").revision == COMMIT
    assert fingerprint(run.models["tiny"], run.layout) == before
    name = weights_source("tiny", "base")
    assert refresh(with_weights(run), name).changed
    assert lock_file(run, name).is_file()
    status, run = fetched(model(), tmp_path)
    assert status.ok, status.reason
    assert found_folder(run.layout, "tiny", "base").revision == "c" * 40
    assert fingerprint(run.models["tiny"], run.layout) != before, "other weights, other vectors"


def test_a_second_fetch_asks_for_nothing(hub: Hub, tmp_path: Path) -> None:
    fetched(model(), tmp_path)
    asked = len(hub.api.requests)
    status, _ = fetched(model(), tmp_path)
    assert status.ok
    assert len(hub.api.requests) == asked


def test_a_pinned_commit_that_is_gone_blocks(hub: Hub, tmp_path: Path) -> None:
    status, _ = fetched(model(revision="d" * 40), tmp_path)
    assert status.state == "blocked"
    assert "is no longer in its repository" in status.reason
    assert "medheb refresh weights_tiny_base" in status.remedy


def test_another_commit_than_others_saw_is_told(hub: Hub, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    status, _ = fetched(model(seen="0123456"), tmp_path)
    assert status.ok
    assert f"main is now {COMMIT}; others evaluated 0123456" in caplog.text
    caplog.clear()


def test_gated_weights_are_blocked_with_what_to_do(hub: Hub, tmp_path: Path) -> None:
    hub.gated = True
    status, _ = fetched(model(gate="terms"), tmp_path)
    assert status.state == "blocked"
    assert "its repository is gated and there is no token" in status.reason
    for words in (f"Accept the terms at https://huggingface.co/{REPOSITORY}", "set HF_TOKEN"):
        assert words in status.remedy


def test_damaged_weights_are_fetched_again(hub: Hub, tmp_path: Path) -> None:
    _, run = fetched(model(), tmp_path)
    assert not forget_trouble(run)
    path = Path(found_folder(run.layout, "tiny", "base").folder) / "model.safetensors"
    path.unlink()
    path.write_bytes(BIG[:-9])
    with pytest.raises(MedhebError, match=r"model.safetensors: has changed since the model was fetched"):
        found_folder(run.layout, "tiny", "base")
    assert forget_trouble(run) == [run.layout.model_status("tiny")], "so that the workflow fetches them again"
    status, run = fetched(model(), tmp_path)
    assert status.ok
    assert path.read_bytes() == BIG


def test_no_folder_and_a_missing_folder_block_with_the_remedy(tmp_path: Path) -> None:
    status, _ = fetched(own(None, remedy="Ask the authors"), tmp_path)
    assert (status.state, status.remedy) == ("blocked", "Ask the authors")
    status, _ = fetched(own(tmp_path / "nowhere"), tmp_path)
    assert status.state == "blocked"
    assert "nowhere: is not there; model tiny has its weights in it" in status.reason
    assert "weights: {tiny: FOLDER}" in status.remedy


def test_a_users_folder_is_read_in_place_and_counts_by_content(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    for name in ("config.json", "model.safetensors", "pytorch_model.bin"):
        (folder / name).write_bytes(FILES[name])
    status, run = fetched(own(folder), tmp_path)
    assert status.ok
    found = found_folder(run.layout, "tiny", "base")
    assert (Path(found.folder), names(found)) == (folder, ["config.json", "model.safetensors"])
    before = fingerprint(run.models["tiny"], run.layout)
    other = tmp_path / "moved"
    folder.rename(other)
    with pytest.raises(MedhebError, match=r"config.json: is missing"):
        found_folder(run.layout, "tiny", "base")
    _, run = fetched(own(other), tmp_path)
    assert fingerprint(run.models["tiny"], run.layout) == before, "where it lies does not count"
    (other / "model.safetensors").write_bytes(BIG[:-1] + b"!")
    os.utime(other / "model.safetensors", ns=(1, 1))
    with pytest.raises(MedhebError, match="has changed since the model was fetched"):
        fingerprint(run.models["tiny"], run.layout)
    _, run = fetched(own(other), tmp_path)
    assert fingerprint(run.models["tiny"], run.layout) != before


def test_the_workflow_sees_that_a_users_folder_changed(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    (folder / "deep").mkdir(parents=True)
    for name in ("config.json", "deep/model.safetensors", "notes.md"):
        (folder / name).write_bytes(BIG)
    seen = own_state(own(folder))
    (folder / "notes.md").write_bytes(b"other")
    assert own_state(own(folder)) == seen != ""
    os.utime(folder / "deep" / "model.safetensors", ns=(1, 1))
    touched = own_state(own(folder))
    (folder / "config.json").unlink()
    assert len({seen, touched, own_state(own(folder)), own_state(own(tmp_path / "nowhere"))}) == 4
    assert own_state(own(None)) == own_state(model()) == ""


def test_a_folder_without_weights_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    status, _ = fetched(own(tmp_path / "empty"), tmp_path)
    assert status.state == "failed"
    assert "holds no weights of model tiny" in status.reason


def test_a_damaged_record_is_told(tmp_path: Path) -> None:
    layout = Layout(tmp_path, tmp_path, tmp_path)
    with pytest.raises(MedhebError, match=r"weights.json: is missing. Run `medheb retry`"):
        read_found(layout, "tiny")
    layout.model_folder("tiny").mkdir(parents=True)
    (layout.model_folder("tiny") / "weights.json").write_text("[]")
    with pytest.raises(MedhebError, match=r"weights.json"):
        read_found(layout, "tiny")
