"""Numbers, figures and what may be said."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import make_scores as make
import pytest

from medheb.core.layout import Layout
from medheb.evaluate.score import METRICS
from medheb.report.collect import collect
from medheb.report.figures import AT_CHANCE_MARK, BELOW_CHANCE, family_profile, heat_map, lift
from medheb.report.privacy import WITHHELD, public_text, safe_link
from medheb.report.words import count, interval, percent, plural, position, sort_key

HIDDEN = make.dataset("hidden", show_content=False, redistribution=False, access="credentialed")
OPEN = make.dataset("open")


def test_numbers_are_written_with_sensible_digits() -> None:
    assert percent(0.56249) == "56.2"
    assert percent(math.nan) == "\u2013"
    assert interval(0.1, 0.256) == "10.0\u201325.6"
    assert interval(math.nan, 0.2) == "\u2013"
    assert (count(75233), count(None)) == ("75\u2009233", "\u2013")
    assert (position(1.2), position(0.5)) == ("100.00%", "50.00%")
    assert (sort_key(math.nan), sort_key(0.25)) == ("", "0.25")
    assert [plural(1, "family"), plural(8, "family"), plural(2, "task")] == ["1 family", "8 families", "2 tasks"]


@pytest.mark.parametrize(
    ("value", "chance", "expected"),
    [(0.1, 0.1, 0.0), (1.0, 0.1, 1.0), (0.55, 0.1, 0.5), (0.0, 0.1, -1.0), (1.0, 1.0, 0.0), (0.0, 0.0, 0.0)],
)
def test_lift_runs_from_never_over_chance_to_always(value: float, chance: float, expected: float) -> None:
    assert lift(value, chance) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("see /a/p1/x.png now", f"see {WITHHELD} now"),
        ("file scan_7.dcm is short", f"file {WITHHELD} is short"),
        ("key 'a' is \"Jane Doe\"", f"key {WITHHELD} is {WITHHELD}"),
        ("subject 10000032 of p10000032", f"subject {WITHHELD} of {WITHHELD}"),
        ("C:\\scans\\a", WITHHELD),
        ("open https://example.org/hidden.", "open https://example.org/hidden."),
        ("open https://example.org/hidden/p1/s2", f"open {WITHHELD}"),
        ("3 of 12 rows have no label", "3 of 12 rows have no label"),
    ],
)
def test_words_of_a_hidden_source(text: str, shown: str) -> None:
    layout = Layout(Path("s"), Path("b"), Path("r"))
    assert public_text(text, layout, [OPEN, HIDDEN]) == shown
    assert public_text(text, layout, [OPEN]) == text


@pytest.mark.parametrize(
    "url", ["javascript:alert(1)", "data:text/html,x", "//x.org", "https://a b", "ftp://x.org", ""]
)
def test_only_web_links_are_links(url: str) -> None:
    assert safe_link(url) is None
    assert safe_link("https://example.org/a?b=1&c=2") == "https://example.org/a?b=1&c=2"


def test_figures_are_sound_xml_without_dates_or_foreign_styles(tmp_path: Path) -> None:
    run = make.small_run(tmp_path)
    make.fill(run, queries=8)
    run.layout.score("dino", "vqa_1").unlink()
    results = collect(run)
    ids: list[str] = []
    for svg in (heat_map(results).page, family_profile(results).page):
        root = ElementTree.fromstring(svg)
        assert not root.findall(".//{http://www.w3.org/2000/svg}style")
        assert "<metadata" not in svg
        ids += [element.get("id", "") for element in root.iter() if element.get("id")]
    assert len(ids) == len(set(ids))
    text = heat_map(results).page
    assert 'href="#task-vqa_1"' in text
    assert text.count("missing") == 1
    assert "EfficientNet" in text


def test_canaries_have_no_colour_and_no_mark(tmp_path: Path) -> None:
    """A canary that is never right must not be the loudest cell; a real model that is never right is orange."""
    run = make.small_run(tmp_path)
    make.fill(run, queries=8)
    never = {"value": 0.0, "low": 0.0, "high": 0.0, "worst": 0.0, "chance": 1 / 12}
    unsure = never | {"high": 0.2}
    sure = never | {"value": 0.5, "low": 0.4, "high": 0.6}

    def drawn(**metrics: dict[str, float]) -> str:
        for key in run.models:
            for task in run.tasks:
                make.change_score(run, key, task, metrics=dict.fromkeys(METRICS, metrics.get(key, sure)))
        return heat_map(collect(run)).page

    plain = drawn()
    orange = "fill: " + BELOW_CHANCE
    # The scale below the map has its own patches, the same in every map: only the difference counts.
    canary = drawn(random=unsure, constant=never)
    assert canary.count(orange) == plain.count(orange)
    assert canary.count(AT_CHANCE_MARK) == plain.count(AT_CHANCE_MARK) == 0
    real = drawn(dino=never)
    assert real.count(orange) == plain.count(orange) + len(run.tasks)
    assert real.count(AT_CHANCE_MARK) == 0
    assert drawn(dino=unsure, random=unsure).count(f">{AT_CHANCE_MARK}<") == len(run.tasks)


def test_a_run_without_any_score_still_has_figures(tmp_path: Path) -> None:
    results = collect(make.small_run(tmp_path))
    assert heat_map(results).page.count("missing") == 32
    assert "Image-image" in family_profile(results).page
