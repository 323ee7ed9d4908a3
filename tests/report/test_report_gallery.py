"""Example retrievals: the right pictures, the right marks, and a plain word where there is nothing to show."""

from __future__ import annotations

import base64
from io import BytesIO
from pathlib import Path

import make_scores as make
import numpy as np
import pandas as pd
import pytest
from PIL import Image

from medheb.index.records import Item, read_records
from medheb.manifest.load import Run
from medheb.report import run as report_run
from medheb.report.collect import collect
from medheb.report.gallery import TaskGallery, gallery, within
from medheb.report.thumbnails import Thumbnails, data_uri


def part(run: Run, task: str) -> TaskGallery:
    return next(part for part in gallery(collect(run)) if part.task.task == task)


def decoded(uri: str) -> Image.Image:
    return Image.open(BytesIO(base64.b64decode(uri.removeprefix("data:image/jpeg;base64,"))))


def test_each_task_shows_the_best_real_model_by_turns_of_outcome(run: Run) -> None:
    parts = gallery(collect(run))
    assert {part.model for part in parts} == {"efficient"}
    assert [example.outcome for example in part(run, "image_image_1").examples] == ["first", "five", "missed"]


def test_top_candidates_are_those_of_the_parquet(run: Run) -> None:
    shown = part(run, "image_label_1")
    records = read_records(run.layout.task_index(shown.task.index))
    table = pd.read_parquet(run.layout.per_query("efficient", "image_label_1"))
    for example in shown.examples:
        assert example.query is not None
        texts = [candidate.item.text for candidate in example.candidates if candidate.item]
        row = next(row for row in table.itertuples() if records[row.row].tgt_text[row.top_position[0]] == texts[0])
        assert texts == [records[row.row].tgt_text[place] for place in row.top_position[:5]]
        assert [candidate.positive for candidate in example.candidates] == list(row.top_positive[:5])
        assert example.rank == row.above + 1
        assert example.chance == (pytest.approx(1 / 12), pytest.approx(5 / 12))


def test_the_right_answer_is_shown_even_if_it_is_far_down(run: Run) -> None:
    missed = part(run, "image_label_1").examples[2]
    assert not any(candidate.positive for candidate in missed.candidates)
    assert missed.answer is not None
    assert missed.answer.text


def test_a_volume_shows_its_middle_slice_and_a_montage(run: Run) -> None:
    item = part(run, "modality_bridging_1").examples[0].candidates[0].item
    assert item is not None
    assert [decoded(uri).size for uri in item.pictures] == [(48, 48), (126, 84)]
    assert item.picture_note == "middle slice, and 5 of 5 slices in order"


@pytest.mark.parametrize(
    ("count", "pictures", "note"), [(1, 1, "one slice"), (2, 2, "middle slice, and 2 of 2 slices in order")]
)
def test_short_volumes(tmp_path: Path, count: int, pictures: int, note: str) -> None:
    Image.new("L", (9, 9), 40).save(tmp_path / "a.png")
    Image.new("L", (9, 9), 90).save(tmp_path / "b.png")
    shown = Thumbnails(tmp_path).of(Item("volume", "", ("a.png", "b.png")[:count]))
    assert (len(shown[0]), shown[1]) == (pictures, note)


def test_the_number_of_examples_follows_the_configuration_and_the_budget(run: Run, tmp_path: Path) -> None:
    results = collect(run)
    assert {len(part.examples) for part in gallery(results)} == {3}
    full = sum(len(uri) for part in gallery(results) for uri in _pictures(part))
    fewer = within(gallery(results), full - 1)
    assert {len(part.examples) for part in fewer} == {2}
    assert {len(part.examples) for part in within(gallery(results), 0)} == {0}
    none = make.small_run(tmp_path, report={"examples": 0})
    assert {len(part.examples) for part in gallery(collect(none))} == {0}


def _pictures(part: TaskGallery) -> list[str]:
    items = [
        item
        for example in part.examples
        for item in (example.query, example.answer, *(candidate.item for candidate in example.candidates))
        if item
    ]
    return [uri for item in items for uri in item.pictures]


def test_without_parquet_or_task_json_the_reason_is_said(run: Run) -> None:
    run.layout.per_query("efficient", "vqa_1").unlink()
    run.layout.per_query("efficient", "region_1").write_bytes(b"PAR1 but not really")
    run.layout.task_index("2D_Task/text_text_1.json").write_text("[]")
    table = pd.read_parquet(run.layout.per_query("efficient", "image_label_1"))
    table.at[0, "top_position"] = [99] * 10
    table.to_parquet(run.layout.per_query("efficient", "image_label_1"))
    assert "vqa_1.parquet: is missing" in part(run, "vqa_1").reason
    assert "region_1.parquet: cannot be read" in part(run, "region_1").reason
    assert "do not belong to this score or task JSON" in part(run, "text_text_1").reason
    assert "do not belong to this score or task JSON" in part(run, "image_label_1").reason


def test_a_task_json_that_was_changed_after_scoring_shows_no_examples(run: Run) -> None:
    path = run.layout.task_index("2D_Task/text_text_1.json")
    path.write_text(path.read_text().replace("Row 3: the", "Row 3: not the"))
    assert part(run, "text_text_1").examples == ()
    assert "do not belong to this score or task JSON" in part(run, "text_text_1").reason


def test_a_picture_that_cannot_be_read_is_named_as_such(run: Run) -> None:
    for path in (run.layout.benchmark / "2D_Images/alpha").glob("*.png"):
        path.write_bytes(b"not a picture")
    shown = part(run, "image_image_1").examples[0].query
    assert shown is not None
    assert (shown.pictures, shown.picture_note) == ((), "a picture of it could not be read")


@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA", "P", "1", "LA", "I;16", "I", "F"])
def test_every_kind_of_picture_becomes_a_small_one(tmp_path: Path, mode: str) -> None:
    path = tmp_path / "a.tif"
    ramp = np.linspace(0, 255, 200 * 300).reshape(200, 300)
    if mode == "I;16":
        Image.fromarray((ramp * 250).astype(np.uint16)).save(path)
    else:
        Image.fromarray(ramp.astype(np.uint8)).convert(mode).save(path)
    uri = data_uri(path, 128)
    assert uri is not None
    picture = decoded(uri)
    assert max(picture.size) == 128
    low, high = np.asarray(picture.convert("L")).min(), np.asarray(picture.convert("L")).max()
    assert low < 20
    assert high > 235


def test_long_texts_are_shortened_with_the_whole_behind(run: Run) -> None:
    make.change_index(run, "text_text_1", "which organ", "which  organ " + "very " * 60)
    query = part(run, "text_text_1").examples[0].query
    assert query is not None
    assert len(query.text) <= 150
    assert query.text.endswith("\u2026")
    assert query.full_text.endswith("?")


def test_examples_that_do_not_fit_the_page_lie_in_a_folder_beside_it(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_run, "within", lambda parts: within(parts, 60_000))
    report_run.collect_report(run)
    page = (run.layout.report / "index.html").read_text(encoding="utf-8")
    for task in run.tasks:
        assert f'<a href="gallery/{task}.html">All 3 examples of this task</a>' in page
        own = (run.layout.report / "gallery" / f"{task}.html").read_text(encoding="utf-8")
        assert own.count('<article class="example">') == 3
        assert own.count("data:image/jpeg;base64,") >= (0 if "text_text" in task else 3)
        assert "http" not in own.replace("http-equiv", "")
