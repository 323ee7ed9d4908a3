"""The released index is fetched by the ordinary code, from a loopback hub, and found by the index step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hub_samples import clean_home, tree
from servers.huggingface import COMMIT, REPOSITORY, Hub

from medheb.core.errors import MedhebError
from medheb.core.status import read_status
from medheb.fetch.source import fetch_source
from medheb.index.run import released_file
from medheb.manifest.load import Run, load_config, load_run
from medheb.manifest.released import RELEASED_ID

ROOT = Path(__file__).resolve().parents[2]
FILES = {
    "README.md": b"# card\n",
    "2D_Task/APTOS/APTOS_test.json": b"[]",
    "3D_Task/MRNet/MRNet_test.json": b"[]",
    "Text_Task/MedMCQA/medmcqa_test.json": b"[]",
    "Train_Data/2D_Task/APTOS/APTOS_train.jsonl": b"{}\n",
    "2D_Images/APTOS/train_images/1.png": b"png",
}


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    clean_home(tmp_path, monkeypatch)
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "no_token"))
    with Hub(dict(FILES), lfs=set()) as running:
        monkeypatch.setenv("HF_ENDPOINT", running.api.url)
        yield running


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The full benchmark with the released index of the loopback hub."""
    monkeypatch.chdir(ROOT)
    paths = {name: str(tmp_path / name) for name in ("sources", "benchmark", "results")}
    overrides = {"paths": paths, "task_index": "released", "accept": "open"}
    found = load_run(load_config([ROOT / "config" / "full.yaml"], overrides))
    assert found.released is not None
    host = found.released.host.model_copy(update={"repository": REPOSITORY, "revision": COMMIT})
    return replace(found, released=found.released.model_copy(update={"host": host}))


def test_only_test_files_come_and_are_found(hub: Hub, run: Run, tmp_path: Path) -> None:
    assert fetch_source(run.with_index(), RELEASED_ID).ok
    files = run.layout.source_files(RELEASED_ID)
    assert tree(files) == [name for name in sorted(FILES) if "_Task/" in name and not name.startswith("Train")]
    assert released_file(run, run.tasks["APTOS_cls"]) == files / "2D_Task/APTOS/APTOS_test.json"
    with pytest.raises(MedhebError, match="the released index has no file for task Kvasir_cls"):
        released_file(run, run.tasks["Kvasir_cls"])
    assert not (tmp_path / "benchmark").exists()
    assert not (tmp_path / "results").exists()


def test_an_index_that_cannot_be_had_is_blocked(hub: Hub, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = replace(run, config=run.config.model_copy(update={"accept": "asked"}))
    status = fetch_source(asked.with_index(), RELEASED_ID)
    assert status.state == "blocked"
    assert status.remedy == "Read them with `medheb accept released_index`"
    assert hub.api.requests == []
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr("medheb.fetch.sessions.pause", lambda _: None)
    monkeypatch.setattr("huggingface_hub.utils._http.time.sleep", lambda _: None)
    assert fetch_source(run.with_index(), RELEASED_ID).state == "blocked"
    assert read_status(run.layout.source_status(RELEASED_ID)).state == "blocked"


def test_runs_of_the_rebuilt_index_do_not_know_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    found = load_run(load_config([ROOT / "config" / "full.yaml"]))
    assert found.released is None
    assert RELEASED_ID not in found.with_index().datasets
    demo = {"task_index": "released"}
    with pytest.raises(MedhebError, match=r"index\.yaml: does not exist, so these tasks have no released index"):
        load_run(load_config([ROOT / "config" / "demo.yaml"], demo))
