"""The index step: statuses, published format, completeness, rules of all tasks."""

from __future__ import annotations

import json
from pathlib import Path

import make_sources as make
import pytest

from medheb.core.errors import MedhebError
from medheb.core.status import OK, Status, read_status
from medheb.index.builders import registry
from medheb.index.checks import check_rows
from medheb.index.completeness import check_complete
from medheb.index.records import Record, read_records
from medheb.index.run import build_index

KEY = "Some_task"


def images(*candidates: str, query: str = "q.png", text: str = "") -> Record:
    return Record(
        qry_inst="Find it:",
        qry_text=text,
        qry_img_path=query,
        tgt_text=("",) * len(candidates),
        tgt_img_path=candidates,
    )


def test_task_is_written_in_the_published_format_with_its_status(tmp_path: Path) -> None:
    task = make.task("same_label_image", "b+a")
    run = make.run_of(
        tmp_path, [task], b=make.inventory("b", make.person("b")), a=make.inventory("a", make.person("a"))
    )
    assert build_index(run, KEY) == OK
    rows = json.loads(run.layout.task_index(task.index).read_bytes())
    assert set(rows[0]) == {"qry_inst", "qry_text", "qry_img_path", "tgt_text", "tgt_img_path"}
    assert len(read_records(run.layout.task_index(task.index))) == 12
    assert read_status(run.layout.task_status(task.index)) == OK
    first = run.layout.task_index(task.index).read_bytes()
    assert build_index(run, KEY) == OK
    assert run.layout.task_index(task.index).read_bytes() == first


def test_trouble_of_a_source_is_passed_on_with_an_empty_task(tmp_path: Path) -> None:
    blocked = Status(state="blocked", origin="fetch a", reason="no terms", remedy="accept them")
    task = make.task("same_label_image", "b+a")
    run = make.run_of(
        tmp_path, [task], b=make.inventory("b", make.person("b")), a=make.inventory("a", [], status=blocked)
    )
    assert build_index(run, KEY) == blocked
    assert run.layout.task_index(task.index).read_text() == "[]\n"
    assert read_status(run.layout.task_status(task.index)) == blocked


def test_a_refusal_becomes_a_failed_status(tmp_path: Path) -> None:
    few = make.person("b", make.ORGANS[:1])
    run = make.run_of(tmp_path, [make.task("label", "b")], b=make.inventory("b", few))
    status = build_index(run, KEY)
    assert (status.state, status.origin) == ("failed", f"rule of {KEY}")
    assert status.reason == f"task {KEY}: finds one class only, so that no candidate is wrong"
    assert run.layout.task_index("2D_Task/Some/Some_test.json").read_text() == "[]\n"


def test_a_missing_image_is_a_failed_status(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        registry.BUILDERS, "label", lambda *_: [images("b/crops/nowhere_7.png", query="b/crops/liver_2.png")]
    )
    run = make.run_of(tmp_path, [make.task("label", "b")], b=make.inventory("b", make.person("b")))
    assert "names 1 images that no inventory lists: 1 like b/crops/nowhere_#.png" in build_index(run, KEY).reason


def test_misuse_raises(tmp_path: Path) -> None:
    run = make.run_of(tmp_path, [make.task("label", "b")], b=make.inventory("b", make.person("b")))
    with pytest.raises(MedhebError, match="Other: is not a task of this run"):
        build_index(run, "Other")
    run.layout.inventory("3D_Images/b", "b").unlink()
    with pytest.raises(MedhebError, match=r"b\.inventory\.json: is missing"):
        build_index(run, KEY)


def test_missing_images_are_listed_by_pattern() -> None:
    records = [images(f"p{row // 10}/slice_{row:03d}.png", "there.png", query="q.png") for row in range(25)]
    records.append(images("other.png", query="q.png"))
    with pytest.raises(MedhebError) as caught:
        check_complete(records, {"there.png", "q.png"}, "task.json")
    assert str(caught.value) == (
        "task.json: names 26 images that no inventory lists: 25 like p#/slice_#.png (row 0: p0/slice_000.png); "
        "1 like other.png (row 25: other.png). Build the sources again, or the index"
    )
    check_complete(records[:1], {"p0/slice_000.png", "there.png", "q.png"}, "task.json")


def test_rules_of_all_tasks() -> None:
    fine = [images(f"{row}a.png", f"{row}b.png", query=f"{row}q.png") for row in range(10)]
    check_rows(fine, "local", {}, "task.json")
    check_rows(fine, "global", {}, "task.json")
    with pytest.raises(MedhebError, match="would have no query"):
        check_rows([], "local", {}, "task.json")
    with pytest.raises(MedhebError, match="row 3 holds one candidate twice"):
        check_rows(fine, "local", {"3a.png": "same", "3b.png": "same"}, "task.json")
    with pytest.raises(MedhebError, match="row 0 has no wrong candidate"):
        check_rows([images("a.png"), *fine], "local", {}, "task.json")
    with pytest.raises(MedhebError, match="rows 2 and 5 have one positive"):
        check_rows(fine, "global", {"2a.png": "same", "5a.png": "same"}, "task.json")
    with pytest.raises(MedhebError, match="rows 2 and 5 have one query"):
        check_rows(fine, "global", {"2q.png": "same", "5q.png": "same"}, "task.json")
