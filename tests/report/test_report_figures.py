"""The analyses and their figures: right numbers, drawn the same every time, or a sentence why not."""

from __future__ import annotations

import dataclasses
import io
import re
from xml.etree import ElementTree

import make_scores as make
import pytest
from PIL import Image
from test_report_paper import from_published, full, published  # noqa: F401 - fixtures

from medheb.core.status import Status
from medheb.manifest.load import Run
from medheb.report.analysis import (
    DOMAINS,
    NONE,
    SEVERAL,
    TISSUE,
    assignment,
    baselines,
    bucket,
    by_domain_and_form,
    difficulty,
    domain,
    pair_to_compare,
    target_lengths,
    transfer,
)
from medheb.report.collect import collect
from medheb.report.figure_style import INK, LINE, MUTED, PAPER
from medheb.report.published import Published
from medheb.report.sections import draw, figures_section

NAMES = [
    "heat-map", "family-profile", "accuracy-cv", "difficulty", "transfer", "anatomy-form", "target-length", "pair",
]  # fmt: skip


def test_gaps_between_relations_are_those_of_the_paper(full: Run, published: Published) -> None:  # noqa: F811
    """Paper section 5.3: a 7.7 to 26.6 drop from established to underexplored relations across all models."""
    table = transfer(from_published(full, published))
    assert round(table["gap"].min(), 1) == 7.7
    assert round(table["gap"].max(), 1) == 26.6
    assert table["established_tasks"].unique().tolist() == [79]
    assert table["underexplored_tasks"].unique().tolist() == [17]


def test_baselines_are_the_papers_public_ones_or_all_real_models(full: Run, published: Published, run: Run) -> None:  # noqa: F811
    assert len(baselines(from_published(full, published), published)) == 8
    assert [model.id for model in baselines(collect(run), Published())] == ["efficient", "dino"]


def test_two_sizes_of_one_model_are_the_pair(full: Run, published: Published, run: Run) -> None:  # noqa: F811
    pair = pair_to_compare(from_published(full, published))
    assert pair is not None
    assert [model.title for model in pair] == ["MedEmb-2B", "MedEmb-8B"]
    other = pair_to_compare(collect(run))
    assert other is not None
    assert [model.id for model in other] == ["dino", "efficient"]


@pytest.mark.parametrize(
    ("percent", "name"),
    [
        (0, "Collapse"),
        (2.99, "Collapse"),
        (3, "Weak"),
        (9.99, "Weak"),
        (10, "Medium"),
        (30, "Tractable"),
        (100, "Tractable"),
    ],
)
def test_buckets_of_the_paper(percent: float, name: str) -> None:
    assert bucket(percent) == name


def test_difficulty_is_the_mean_of_real_models_only(run: Run) -> None:
    results = collect(run)
    table = difficulty(results, Published()).set_index("task")
    values = [100 * results.score(model, "vqa_1").metrics["hit@1"].value for model in ("efficient", "dino")]  # type: ignore[union-attr]
    assert table.loc["vqa_1", "mean"] == pytest.approx(sum(values) / 2)
    assert table.loc["vqa_1", "std"] == pytest.approx(abs(values[0] - values[1]) / 2)
    assert table["mean"].is_monotonic_increasing


def test_every_source_of_the_benchmark_has_a_domain(full: Run) -> None:  # noqa: F811
    found = {key: domain(dataset) for key, dataset in full.datasets.items()}
    assert found["aptos_2019"] == "Ophthalmology"
    assert found["pathmnist"] == found["pannuke"] == "Tissue microscopy"
    assert found["mrnet"] == "Musculoskeletal"
    assert found["mimic_cxr"] == "Thorax"
    assert found["vqa_rad"] == found["m3d"] == "Multi-organ"
    assert found["medmcqa"] == "No image"
    assert set(found.values()) >= {"Dermatology", "Abdomen", "Head and neck"}


def test_domains_and_forms_hold_all_tasks_once(run: Run) -> None:
    table = by_domain_and_form(collect(run))
    for kind in ("domain", "form"):
        own = table[(table["kind"] == kind) & (table["model"] == "dino")]
        assert own["tasks"].sum() == len(run.tasks)


def test_the_assignment_of_every_task_of_the_benchmark(full: Run, published: Published) -> None:  # noqa: F811
    table = assignment(from_published(full, published), published).set_index("task")
    assert len(table) == 107
    assert set(table["domain"]) == {*DOMAINS, TISSUE, SEVERAL, NONE}
    assert table.loc["APTOS_i2i", "domain"] == "Ophthalmology"
    assert table.loc["PanNuke_VG", "domain"] == TISSUE
    assert table.loc["CT_RATE_vqa", "form"] == "3D volumes"
    assert table["relation"].value_counts().to_dict() == {"established": 79, "underexplored": 17, "": 11}
    assert (table["domain"] == NONE).sum() == (table["form"] == "Text only").sum() == 7


def test_target_lengths_are_of_the_right_text(run: Run) -> None:
    table = target_lengths(collect(run)).set_index("task")
    assert set(table.index) == {"image_label_1", "image_report_1", "vqa_1", "text_text_1"}
    assert table.loc["vqa_1", "group"] == "Answers"
    assert 30 < table.loc["vqa_1", "characters"] < 60


def test_all_figures_are_drawn_the_same_twice(run: Run) -> None:
    first, second = draw(collect(run), Published()), draw(collect(run), Published())
    assert list(first) == NAMES
    for name in NAMES:
        drawn, again = first[name], second[name]
        assert drawn is not None
        assert drawn == again
        assert not re.search("#0[1-9a]0", drawn.document), "a stand-in colour is left"
        assert not any(stand_in in drawn.page for stand_in in (INK, MUTED, LINE, PAPER))
        document = ElementTree.fromstring(drawn.document)
        titles = [element.text or "" for element in document.iter() if element.tag.endswith("title")]
        assert titles[0] == drawn.title
        if name != "heat-map":
            assert any("%" in title for title in titles[1:])
        with Image.open(io.BytesIO(drawn.picture)) as picture:
            assert picture.width >= 1000
            colours = {tuple(colour) for _, colour in picture.convert("RGB").getcolors(picture.width * picture.height)}
        assert (255, 255, 255) in colours
        assert not colours & {(1, 2, 3), (4, 5, 6), (7, 8, 9), (10, 11, 12)}, "a stand-in colour is left in the PNG"
        assert 'href="#' not in drawn.document.replace('xlink:href="#m', "").replace('xlink:href="#D', "")


@pytest.mark.parametrize("kept", ["image_label_1", "text_text_1", "image_image_1"])
def test_all_figures_are_drawn_where_real_models_have_a_single_task(
    run: Run, kept: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a model's first task, when the canaries have all of theirs. The mean of one length is not quite it."""
    results = collect(run)
    lengths = target_lengths(results)
    lengths.loc[lengths["task"] == kept, "characters"] = 9.0  # exp(log(9)) is 9.000000000000002
    monkeypatch.setattr("medheb.report.figures_tasks.target_lengths", lambda _: lengths)
    gone = Status(state="failed", origin="x", reason="not here", remedy="run it")
    cells = {
        key: cell if key[1] == kept or cell.model.canary else dataclasses.replace(cell, score=None, status=gone)
        for key, cell in results.cells.items()
    }
    figures = draw(dataclasses.replace(results, cells=cells), Published())
    assert list(figures) == NAMES
    drawn = figures["target-length"]
    assert drawn is not None
    assert "Answers (" in drawn.document


def test_marks_say_their_numbers_and_their_model(run: Run) -> None:
    page = draw(collect(run), Published())["accuracy-cv"].page  # type: ignore[union-attr]
    assert re.search(
        r'class="mark" data-model="dino"><title>DINOv2-small \+ MiniLM: mean \d+\.\d %, CV 0\.\d+ over 8 families', page
    )


def test_hostile_titles_stay_text_in_tips(run: Run) -> None:
    evil = '"><script>alert(1)</script>'
    models = {**run.models, "dino": make.model("dino", evil)}
    for drawn in draw(collect(dataclasses.replace(run, models=models)), Published()).values():
        assert drawn is not None
        assert "<script" not in drawn.page
        ElementTree.fromstring(drawn.document)


def test_without_scores_figures_give_a_reason(run: Run) -> None:
    for model in ("efficient", "dino"):
        for task in run.tasks:
            run.layout.score(model, task).unlink()
    results = collect(run)
    figures = draw(results, Published())
    assert [name for name, drawn in figures.items() if drawn is None] == NAMES[2:]
    for entry in figures_section(results, Published(), figures):
        assert entry["svg"] is None
        assert entry["note"] == "Nothing to draw: no model has the scores it needs."


def test_one_family_is_no_balance(run: Run) -> None:
    few = dataclasses.replace(run, tasks={"vqa_1": run.tasks["vqa_1"]})
    figures = draw(collect(few), Published())
    assert figures["accuracy-cv"] is None
    assert figures["transfer"] is None
    assert figures["pair"] is not None
