"""Released index and ``medheb index check``: resolution, completeness by pattern, and what stops a task."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import make_sources as make
import pytest
from typer.testing import CliRunner

from medheb.build.inventory import BuiltFile, Inventory, write_inventory
from medheb.build.places import link_places
from medheb.cli import app
from medheb.core.errors import MedhebError
from medheb.core.status import OK, Status, read_status, write_status
from medheb.index.commands import check_command, in_folder, tasks_named
from medheb.index.quality import Quality, read_quality
from medheb.index.records import read_records
from medheb.index.run import build_index
from medheb.manifest.dataset import Place
from medheb.manifest.load import Run
from medheb.manifest.released import RELEASED_ID, ReleasedIndex
from medheb.manifest.task import Task

KEY = "Some_task"
INDEX = ReleasedIndex.model_validate(
    {
        "title": "Made up",
        "access": "open",
        "licence": {"spdx": None, "url": "https://example.org"},
        "redistribution": False,
        "host": {"kind": "huggingface", "repository": "group/set"},
        "files_note": "made by the tests",
        "by_case": ["b"],
        "links": ["https://example.org"],
        "citation": "nobody",
    }
)


def pictures(count: int, folder: str = "p", **facts: Any) -> list[BuiltFile]:
    return [make.built_file(f"{folder}/{number:03d}.png", kind="picture", **facts) for number in range(count)]


def on_disk(run: Run, inventory: Inventory) -> None:
    for file in inventory.files:
        path = run.layout.benchmark / inventory.images / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")


def released(
    folder: Path, task: Task, rows: list[dict[str, Any]], status: Status = OK, **inventories: Inventory
) -> Run:
    """A run of the released index whose task file holds ``rows``, with the pictures on disk."""
    run = make.run_of(folder, [task], **inventories)
    run = replace(run, config=run.config.model_copy(update={"task_index": "released"}), released=INDEX)
    path = run.layout.source_files(RELEASED_ID) / task.index
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(rows))
    write_status(run.layout.source_status(RELEASED_ID), status)
    for inventory in inventories.values():
        on_disk(run, inventory)
    return run


def rows_of(paths: list[str]) -> list[dict[str, Any]]:
    """One row a path: the query, and two candidates from the others."""
    return [
        {"qry_inst": "Find it:", "qry_text": "", "qry_img_path": path, "tgt_text": ["", ""]}
        | {"tgt_img_path": [paths[(place + 1) % len(paths)], paths[(place + 2) % len(paths)]]}
        for place, path in enumerate(paths)
    ]


def quality_of(run: Run, task: Task) -> Quality:
    return read_quality(run.layout.task_quality(task.index))


def test_released_paths_resolve_under_either_root(tmp_path: Path) -> None:
    task = make.task("released", "b", image_root="3D_Images/b/p", card_root="3D_Images/b")
    paths = [*[f"{number:03d}.png" for number in range(6)], *[f"p/{number:03d}.png" for number in range(6, 12)]]
    run = released(tmp_path, task, rows_of(paths), b=make.inventory("b", pictures(12)))
    assert build_index(run, KEY) == OK
    records = read_records(run.layout.task_index(task.index))
    assert [record.query.images for record in records] == [(f"{number:03d}.png",) for number in range(12)]
    facts = quality_of(run, task).released
    assert facts is not None
    assert facts.paths == {"root": 6, "other root": 6}
    assert facts.generation == "published"
    assert check_command(run, [], as_json=False) == 0


def test_released_paths_resolve_at_places_of_a_source(tmp_path: Path) -> None:
    task = make.task("released", "b", image_root="3D_Images/elsewhere")
    run = released(tmp_path, task, rows_of([f"{n:03d}.png" for n in range(12)]), b=make.inventory("b", pictures(12)))
    place = Place(path="3D_Images/elsewhere", folder="p")
    dataset = run.datasets["b"].model_copy(update={"places": (place,)})
    run = replace(run, datasets={"b": dataset})
    link_places(run.layout.benchmark, dataset, [file.path for file in pictures(12)])
    assert build_index(run, KEY) == OK
    assert check_command(run, [KEY], as_json=False) == 0
    (run.layout.benchmark / "3D_Images/elsewhere").unlink()
    assert check_command(run, [KEY], as_json=False) == 1


def stacks() -> list[BuiltFile]:
    return [
        make.built_file(f"{part}/C{case}/{number:03d}.png", kind="slice", case=f"C{case} {part}", group=f"C{case}")
        for part in ("t1n", "t2w")
        for case in range(3)
        for number in range(4)
    ]


def test_paths_with_unknown_folders_resolve_by_case_and_are_counted(tmp_path: Path) -> None:
    task = make.task(
        "released", "b", form="3d", family="modality-bridging", pool="global", index="3D_Task/S/S_test.json"
    )
    rows = [
        {"qry_inst": "Find it:", "qry_text": "", "qry_img_path": [f"valid/C{case}/t1n/{n:03d}.png" for n in range(4)]}
        | {"tgt_text": [""], "tgt_img_path": [[f"valid/C{case}/t2w/{n:03d}.png" for n in range(4)]]}
        for case in range(3)
    ]
    run = released(tmp_path, task, rows, b=make.inventory("b", stacks()))
    assert build_index(run, KEY) == OK
    records = read_records(run.layout.task_index(task.index))
    assert records[1].query.images[0] == "b/t1n/C1/000.png"
    assert records[1].candidates[0].images[3] == "b/t2w/C1/003.png"
    facts = quality_of(run, task).released
    assert facts is not None
    assert facts.paths == {"case": 24}


def test_a_case_that_two_stacks_share_is_not_guessed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    task = make.task("released", "b", form="3d", family="image-report", index="3D_Task/S/S_test.json")
    rows = [{"qry_inst": "Find it:", "qry_img_path": ["valid/C1/000.png", "valid/C1/001.png"], "tgt_text": ["a", "b"]}]
    run = released(tmp_path, task, rows, b=make.inventory("b", stacks()))
    status = build_index(run, KEY)
    assert (
        "names 2 images that no inventory lists: 2 like valid/C#/#.png of b (row 0: valid/C1/000.png)" in status.reason
    )
    other = replace(run, released=INDEX.model_copy(update={"by_case": ()}))
    assert build_index(other, KEY).reason == status.reason
    assert check_command(run, [], as_json=False) == 1
    assert "Some_task: 2 of 2 pictures are missing" in capsys.readouterr().out


def test_two_sources_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    task = make.task("released", "a+b")
    files = pictures(4)
    rows = rows_of(["a/p/000.png", "b/p/000.png", "b/p/009.png", "b/p/008.png", "c/x.png"])
    run = released(tmp_path, task, rows, a=make.inventory("a", files), b=make.inventory("b", files))
    reason = build_index(run, KEY).reason
    listed = "2 like b/p/#.png of b (row 1: b/p/008.png); 1 like c/x.png of a or b (row 2: c/x.png)"
    assert f"names 3 images that no inventory lists: {listed}" in reason


def test_a_hundred_removed_pictures_are_named_by_pattern(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    task = make.task("released", "b")
    names = [f"b/p/{number:03d}.png" for number in range(150)]
    run = released(tmp_path, task, rows_of(names), b=make.inventory("b", pictures(150)))
    assert build_index(run, KEY) == OK
    rebuilt = replace(run, config=run.config.model_copy(update={"task_index": "rebuilt"}))
    for each in (run, rebuilt):
        assert check_command(each, [], as_json=False) == 0
    assert "Some_task: complete, 150 pictures" in capsys.readouterr().out
    for name in names[:100]:
        (run.layout.benchmark / "3D_Images" / name).unlink()
    for each in (run, rebuilt):
        assert check_command(each, [], as_json=False) == 1
        told = capsys.readouterr().out
        assert "Some_task: 100 of 150 pictures are missing\n  100 like b/p/#.png of b (row 0: b/p/000.png)" in told
        assert "source b: 100 of 150 built files are no longer in 3D_Images/b\n  100 like p/#.png (p/000.png)\n" in told
        assert "0 of 1 tasks are complete, 1 lack 100 pictures, 100 built files are gone\n" in told
    assert check_command(rebuilt, [KEY], as_json=True) == 1
    found = json.loads(capsys.readouterr().out)
    (entry,) = found["tasks"]
    assert found["sources"][0]["missing"] == [{"pattern": "p/#.png", "count": 100}]
    assert entry["missing"] == [
        {"pattern": "b/p/#.png", "count": 100, "source": "b", "row": 0, "example": "b/p/000.png"}
    ]
    shutil.rmtree(run.layout.benchmark / "3D_Images" / "b" / "p")
    assert check_command(rebuilt, [], as_json=False) == 1
    assert "150 like b/p/#.png of b" in capsys.readouterr().out


def test_a_removed_picture_that_no_task_names_is_missing_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    task = make.task("released", "b")
    files = pictures(12)
    rows = rows_of([f"b/p/{number:03d}.png" for number in range(11)])
    run = released(tmp_path, task, rows, b=make.inventory("b", files))
    assert build_index(run, KEY) == OK
    (run.layout.benchmark / "3D_Images/b/p/011.png").unlink()
    assert check_command(run, [], as_json=False) == 1
    out = capsys.readouterr().out
    assert "Some_task: complete, 11 pictures\nsource b: 1 of 12 built files are no longer in 3D_Images/b\n" in out


def test_paths_of_a_restricted_source_are_not_printed_or_logged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    task = make.task("released", "b")
    names = [f"b/p10/p1000{number}/s5{number}/0a1b2c3d-4e5f6071-8293a4b5-c6d7e8f9.png" for number in range(3)]
    run = released(tmp_path, task, rows_of(names), b=make.inventory("b", pictures(12)))
    run = replace(run, datasets={"b": run.datasets["b"].model_copy(update={"show_content": False})})
    status = build_index(run, KEY)
    assert "3 like b/p#/p#/s#/#.png of b (row 0)" in status.reason
    assert "p1000" not in caplog.text
    assert "3 like b/p#/p#/s#/#.png of b (row 0)" in caplog.text
    assert not run.layout.results.exists()
    check_command(run, [KEY], as_json=False)
    check_command(run, [KEY], as_json=True)
    out = capsys.readouterr().out
    assert "3 like b/p#/p#/s#/#.png of b (row 0)\n" in out
    assert "p1000" not in out


def test_trouble_of_the_released_index_is_passed_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    blocked = Status(state="blocked", origin="fetch released_index", reason="no network", remedy="Try again")
    task = make.task("released", "b")
    run = released(tmp_path, task, [], blocked, b=make.inventory("b", pictures(12)))
    assert build_index(run, KEY) == blocked
    assert run.layout.task_index(task.index).read_text() == "[]\n"
    assert quality_of(run, task).rows == 0
    assert check_command(run, [], as_json=False) == 0
    assert "Some_task: blocked: no network. Try again" in capsys.readouterr().out


@pytest.mark.parametrize("show", [True, False])
@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda path: path.unlink(), "is missing: the released index has no file for task Some_task"),
        (lambda path: path.write_text("[]"), "holds no record"),
        (lambda path: path.write_text(path.read_text()[:-9]), "row 11: is cut off"),
        (
            lambda path: path.write_text(path.read_text().replace('"b/p/005', '"/p1000', 1)),
            "row 3: field 'tgt_img_path",
        ),
    ],
)
def test_a_bad_released_file_fails_its_task_only(
    tmp_path: Path,
    spoil: Callable[[Path], object],
    message: str,
    show: bool,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    task, rows = make.task("released", "b"), rows_of([f"b/p/{number:03d}.png" for number in range(12)])
    run = released(tmp_path, task, rows, b=make.inventory("b", pictures(12)))
    run = replace(run, datasets={"b": run.datasets["b"].model_copy(update={"show_content": show})})
    spoil(run.layout.source_files(RELEASED_ID) / task.index)
    assert message in build_index(run, KEY).reason
    assert read_status(run.layout.task_status(task.index)).state == "failed"
    assert run.layout.task_index(task.index).read_text() == "[]\n"
    assert check_command(run, [], as_json=False) == 1
    for text in (caplog.text, capsys.readouterr().out):
        assert message in text  # for restricted sources too, but then without what the file holds
        assert show or "p1000" not in text


def build_in(folder: Path) -> None:
    """Build a released task of pictures, labels and splits in ``folder``."""
    task = make.task("released", "b")
    files = [
        make.built_file(
            f"p/{n:03d}.png", str(n % 9), label=f"l{n % 4}", split=("test", "train")[n % 2], group=f"g{n % 5}"
        )
        for n in range(30)
    ]
    rows = [{**row, "extra": 1, "more": 2} for row in rows_of([f"b/p/{n:03d}.png" for n in range(30)])]
    run = released(folder, task, rows, b=make.inventory("b", files))
    assert build_index(run, KEY) == OK


def test_task_and_quality_do_not_depend_on_the_hash_seed(tmp_path: Path) -> None:
    here = Path(__file__).resolve()
    code = (
        f"import sys; sys.path.insert(0, {str(here.parent)!r})\nimport {here.stem} as test\nfrom pathlib import Path\n"
    )
    written: list[dict[str, bytes]] = []
    for seed in ("0", "1"):
        folder = tmp_path / seed
        environment = {
            **os.environ,
            "PYTHONHASHSEED": seed,
            "LC_ALL": "C",
            "TZ": "Asia/Tokyo" if seed == "1" else "UTC",
        }
        call = [sys.executable, "-c", f"{code}test.build_in(Path({str(folder)!r}))"]
        subprocess.run(call, env=environment, check=True)
        written.append({path.name: path.read_bytes() for path in (folder / "MedHEB/2D_Task/Some").iterdir()})
    assert written[0] == written[1]
    assert set(written[0]) == {"Some_test.json", "Some_test.quality.json", "Some_test.status.json"}


def test_an_image_root_that_does_not_exist_is_missing_pictures(tmp_path: Path) -> None:
    task = make.task("released", "b", image_root="3D_Images/nowhere")
    run = released(tmp_path, task, rows_of(["p/000.png"]), b=make.inventory("b", pictures(12)))
    status = build_index(run, KEY)
    assert task.index in status.reason
    assert "1 like p/#.png of b" in status.reason
    assert status.remedy == "Build the sources again, or the index"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"protocol": "release"}, "is of protocol release, but this run has protocol corrected.*`--protocol release`"),
        ({"recipe_version": 7}, "is of recipe version 7, but this run has recipe version 1"),
        ({"recipe": "other"}, "is of recipe other, but this run has recipe none"),
        ({"dataset": "c"}, "is of source c, but this run has source b"),
        ({"schema_version": 1}, "is an inventory of version 1; this code reads"),
    ],
)
def test_an_inventory_of_something_else_is_refused(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    task = make.task("label", "b")
    inventory = make.inventory("b", make.person("b"))
    run = make.run_of(tmp_path, [task], b=inventory)
    assert build_index(run, KEY) == OK
    write_inventory(run.layout.inventory("3D_Images/b", "b"), inventory.model_copy(update=change))
    with pytest.raises(MedhebError, match=message) as caught:
        build_index(run, KEY)
    assert "b.inventory.json" in str(caught.value)
    assert "medheb rebuild b" in caught.value.remedy or "schema_version" in change
    assert check_command(run, [], as_json=False) == 1


def test_names_are_tasks_or_sources(tmp_path: Path) -> None:
    tasks = [make.task("label", "b"), make.task("label", "b+a", task="Other", index="2D_Task/O/O.json")]
    run = make.run_of(tmp_path, tasks, b=make.inventory("b", []), a=make.inventory("a", []), c=make.inventory("c", []))
    assert tasks_named(run, ["b"]) == [KEY, "Other"]
    assert tasks_named(run, ["a"]) == ["Other"]
    assert tasks_named(run, [KEY]) == [KEY]
    assert tasks_named(run, []) == [KEY, "Other"]
    with pytest.raises(MedhebError, match="c: is a source that no task of this run uses"):
        tasks_named(run, ["c"])
    with pytest.raises(
        MedhebError, match=r"nothing: is neither a task nor a source .*Tasks: Some_task, Other; sources"
    ):
        tasks_named(run, ["nothing"])
    with pytest.raises(MedhebError, match=r"Some_tsk: .*of this run. Did you mean Some_task[?]"):
        tasks_named(run, ["Some_tsk"])


def test_tasks_that_are_not_made_count_if_named_or_if_there_is_no_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    built = make.inventory("b", make.person("b"))
    other = make.task("label", "b", task="Other_task", index="2D_Task/Other/Other_test.json")
    run = make.run_of(tmp_path, [make.task("label", "b"), other], b=built)
    on_disk(run, built)
    assert check_command(run, [], as_json=False) == 1
    assert capsys.readouterr().out == "0 of 2 tasks are complete, 2 not made\n"
    assert build_index(run, KEY) == OK
    assert check_command(run, [], as_json=False) == 0
    assert check_command(run, ["Other_task"], as_json=False) == 1
    assert "Other_task: not made" in capsys.readouterr().out


def test_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).resolve().parents[2])
    runner = CliRunner()
    found = runner.invoke(app, ["index", "check", "--out", str(tmp_path)])
    assert (found.exit_code, found.stdout) == (1, "0 of 107 tasks are complete, 107 not made\n")
    found = runner.invoke(app, ["index", "check", "kvasir", "--out", str(tmp_path)])
    assert found.exit_code == 1
    assert found.stdout.startswith("Kvasir_cls: not made\nKvasir_i2i: not made\n")
    assert "train" in runner.invoke(app, ["index"]).stdout
    assert "got no task and no source" in str(runner.invoke(app, ["index", "--out", str(tmp_path)]).exception)
    for names in (["kvasir"], ["make", "kvasir"]):
        for given in ([*names, "--out", str(tmp_path)], ["--out", str(tmp_path), "kvasir"]):
            assert "kvasir.inventory.json: is missing" in str(runner.invoke(app, ["index", *given]).exception)


def test_another_folder_and_protocol(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).resolve().parents[2])
    run = make.run_of(tmp_path, [make.task("label", "b")], b=make.inventory("b", []))
    with pytest.raises(MedhebError, match="out: is no folder"):
        in_folder(run, tmp_path / "out", None)
    (tmp_path / "out").mkdir()
    other = in_folder(run, tmp_path / "out", "release")
    assert other.layout.benchmark == tmp_path / "out"
    assert (other.config.protocol, other.protocol.name) == ("release", "release")
    assert in_folder(run, None, None) == run
