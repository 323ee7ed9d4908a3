"""The quality of the tasks on the page and as a table."""

from __future__ import annotations

import csv
import json
from dataclasses import replace

import make_scores as make
import pytest

from medheb.build.inventory import read_inventory, write_inventory
from medheb.core.files import write_json
from medheb.core.status import OK, Status
from medheb.index.measure import Measure
from medheb.index.paths import Images
from medheb.index.quality import Splits, read_quality, write_quality
from medheb.index.records import read_records
from medheb.index.train import Kept, Trained
from medheb.manifest.load import Run
from medheb.report.collect import collect
from medheb.report.quality import index_quality, quality_table, shown_spread
from medheb.report.run import collect_report


@pytest.fixture
def measured(run: Run) -> Run:
    """The run with the quality of its tasks, as the index step leaves it."""
    for task in run.tasks.values():
        measure = Measure(run, task, Images([]))
        for record in read_records(run.layout.task_index(task.index)):
            measure.add(record)
        write_quality(run.layout.task_quality(task.index), measure.result())
    return run


def test_the_page_shows_every_task_and_the_csv_every_figure(measured: Run) -> None:
    collect_report(measured)
    page = (measured.layout.report / "index.html").read_text(encoding="utf-8")
    section = page[page.index('<section id="quality"') : page.index('<section id="thin"')]
    assert all(f"#task-{key}" in section for key in measured.tasks)
    assert "None" not in section
    assert "nan" not in section
    with (measured.layout.report / "quality.csv").open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert {row["task"] for row in rows} == set(measured.tasks)
    assert all(int(row["rows"]) > 0 for row in rows)
    assert all(float(row["chance_hit1"]) == pytest.approx(1 / int(row["pool.minimum"])) for row in rows)


def test_tasks_without_a_report_or_without_rows_are_told_apart_from_measured_ones(run: Run) -> None:
    quality = index_quality(collect(run))
    assert quality.measured == []
    assert list(quality_table(collect(run)).columns) == ["task"]
    first = next(iter(run.tasks.values()))
    write_quality(run.layout.task_quality(first.index), Measure(run, first, Images([])).result())
    assert index_quality(collect(run)).measured == []
    collect_report(run)
    assert "No task has been measured." in (run.layout.report / "index.html").read_text(encoding="utf-8")


def test_leaks_stand_out(measured: Run) -> None:
    task = next(iter(measured.tasks.values()))
    path = measured.layout.task_quality(task.index)
    splits = Splits(pictures=9, by_split={"test": 7, "train": 2}, equal_in_train=3, groups=4, groups_in_train=1)
    write_quality(path, read_quality(path).model_copy(update={"splits": splits}))
    collect_report(measured)
    page = (measured.layout.report / "index.html").read_text(encoding="utf-8")
    assert 'lacking" data-v="5">5<small class="below">1 of 4 groups' in page


def test_pictures_that_sources_share_are_listed(measured: Run) -> None:
    names = list(measured.datasets)[:2]
    for name in names:
        dataset = measured.datasets[name]
        header = measured.layout.inventory(dataset.images, name)
        inventory = read_inventory(header)
        files = tuple(
            file.model_copy(update={"content": f"pix1:{number:02x}{0:062x}"})
            for number, file in enumerate(inventory.files)
        )
        write_inventory(header, inventory.model_copy(update={"files": files}))
    shared = index_quality(collect(measured)).shared
    assert [(pair.first, pair.second, pair.pictures) for pair in shared] == [(*sorted(names), make.CANDIDATES)]
    collect_report(measured)
    page = (measured.layout.report / "index.html").read_text(encoding="utf-8")
    assert f"{shared[0].first}, {shared[0].second}" in page


def test_training_rows_that_show_a_test_are_listed_by_name(measured: Run) -> None:
    layout, tasks = measured.layout, list(measured.tasks)
    quoting = Status(state="failed", origin="index train", reason="row 3: Secret finding", remedy="Mend it")
    kept = Kept(source="some_source", kind="patient", rows=1, split="its lists of cases")
    rows = [
        Trained(
            task=key,
            file=f"{key}.jsonl",
            status=OK,
            rows=7,
            overlaps={"patient": 2, "image": 1},
            kept=(kept,),
            removed={"other source": 1},
            listed=f"{key}.json",
        )
        for key in tasks[:2]
    ] + [Trained(task=tasks[2], file="c.jsonl", status=quoting)]
    write_json(layout.train_summary, [row.model_dump(mode="json") for row in rows])
    for key in tasks[:2]:
        listed = [{"row": f"{key}/picture_{number}", "shows": ["patient"], "kept": number == 1} for number in range(2)]
        write_json(layout.train_data / f"{key}.json", {"task": key, "rows": listed})
    closed = measured.tasks[tasks[1]].sources[0]
    shown = {
        name: entry.model_copy(update={"show_content": name != closed}) for name, entry in measured.datasets.items()
    }
    run = replace(measured, datasets=shown)
    found = {overlap.trained.task: overlap.names for overlap in index_quality(collect(run)).overlaps}
    # What is kept comes first.
    named = (f"{tasks[0]}/picture_1", f"{tasks[0]}/picture_0")
    assert found == {tasks[0]: named if closed not in run.tasks[tasks[0]].sources else (), tasks[1]: ()}
    collect_report(run)
    page = (layout.report / "index.html").read_text(encoding="utf-8")
    table = page.partition('id="training-overlaps"')[2].partition("</table>")[0]
    assert "some_source, patient: 1 <small>(its lists of cases)</small>" in table
    assert "other source: 1" in table
    assert f"<code>Train_Data/{tasks[1]}.json</code>" in table
    assert f"{tasks[1]}/picture_0" not in page
    found_json = {entry["task"]: entry for entry in json.loads((layout.report / "quality.json").read_text())["tasks"]}
    assert set(found_json) == set(measured.tasks)
    assert found_json[tasks[0]]["training"]["kept"] == [kept.model_dump(mode="json")]
    assert found_json[tasks[0]]["training"]["removed"] == {"other source": 1}
    assert found_json[tasks[0]]["training"]["state"] == "ok"
    assert "Secret finding" not in (layout.report / "quality.json").read_text()
    assert found_json[tasks[0]]["quality"] == read_quality(
        layout.task_quality(measured.tasks[tasks[0]].index)
    ).model_dump(mode="json")
    with (layout.report / "quality.csv").open(encoding="utf-8", newline="") as stream:
        line = next(row for row in csv.DictReader(stream) if row["task"] == tasks[1])
    assert (line["training.rows"], line["training.kept.patient"], line["training.removed.other source"]) == (
        "7",
        "1",
        "1",
    )
    layout.train_summary.write_text('{"cut')
    assert index_quality(collect(run)).overlaps == ()


def test_a_spread_of_one_number_is_that_number() -> None:
    assert shown_spread(None) == "\u2013"
