"""The pages in a real browser: no network, no complaint; sorting, filters, links, figures, keys, themes, print."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import make_scores as make
import pytest
from browser import Tab, browser, find_browser

from medheb.manifest.load import Run
from medheb.report.preference import write_preference
from medheb.report.run import collect_report

PROGRAM = find_browser()
pytestmark = pytest.mark.skipif(
    PROGRAM is None, reason="no Chromium found: install chromium, or name one in MEDHEB_BROWSER"
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("browsed")
    run = make.small_run(folder, per_family=2)
    make.fill(run)
    run.layout.score("dino", "vqa_2").unlink()
    collect_report(run)
    return run


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    assert PROGRAM is not None
    with browser(PROGRAM, tmp_path_factory.mktemp("profile")) as opened:
        opened.size(1280, 900)
        yield opened


@pytest.fixture
def page(tab: Tab, made: Run) -> Tab:
    tab.open(made.layout.report / "index.html")
    return tab


def quiet(tab: Tab) -> None:
    """Nothing was asked of a network, and nothing complained."""
    assert tab.complaints == []
    assert [url for url in tab.requests if not url.startswith(("file:", "data:"))] == []
    assert len([url for url in tab.requests if url.startswith("file:")]) == 1


def shown_rows(tab: Tab, table: str) -> list[str]:
    return tab.js(f"[...document.querySelectorAll('#{table} tbody tr')].filter(r => !r.hidden).map(r => r.innerText)")


def test_it_loads_without_network_and_without_complaints(page: Tab) -> None:
    quiet(page)
    assert page.js("document.querySelectorAll('figure svg').length") == 8
    broken = "[...document.images].filter(i => i.complete && i.naturalWidth === 0).length"
    page.js("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert page.js("document.images.length") > 20
    assert page.js(broken) == 0
    assert page.js("document.documentElement.scrollWidth <= innerWidth"), "the page itself never scrolls sideways"


def test_columns_sort_by_number_and_back(page: Tab) -> None:
    values = "[...document.querySelectorAll('#task-table tbody tr')].map(r => r.cells[2].dataset.v)"
    button = "document.querySelector('#task-table th:nth-child(3) button')"
    page.js(f"{button}.focus()")
    page.key("Enter", "\r")
    falling = page.js(values)
    assert falling[-1] == "", "a missing number sorts last"
    numbers = [float(value) for value in falling if value]
    assert numbers == sorted(numbers, reverse=True)
    page.js(f"{button}.click()")
    rising = page.js(values)
    assert [float(value) for value in rising if value] == sorted(numbers)
    assert rising[-1] == ""
    assert page.js(f"{button}.parentElement.getAttribute('aria-sort')") == "ascending"
    quiet(page)


def test_filters_hide_rows_and_say_how_many_are_left(page: Tab) -> None:
    page.key("/", "/")
    assert page.js("document.activeElement.type") == "search"
    page.js("document.querySelector('input[data-filter=task-table]').focus()")
    page.call("Input.insertText", text="vqa dino")
    rows = shown_rows(page, "task-table")
    assert len(rows) == 2
    assert all("vqa" in row and "DINO" in row for row in rows)
    assert page.js("document.querySelector('output[data-count=task-table]').textContent") == "2 of 64 rows"
    quiet(page)


def test_graded_tasks_are_filtered_and_sorted(page: Tab) -> None:
    page.js("document.querySelector('#graded details').open = true")
    page.js("document.querySelector('input[data-filter=graded-cells]').focus()")
    page.call("Input.insertText", text="cross-source dino")
    (row,) = shown_rows(page, "graded-cells")
    assert "graded_across" in row
    page.js("document.querySelector('#graded-table th:nth-child(2) button').click()")
    values = page.js("[...document.querySelectorAll('#graded-table tbody tr')].map(r => Number(r.cells[1].dataset.v))")
    assert values == sorted(values, reverse=True)
    quiet(page)


def test_links_open_what_they_point_at(tab: Tab, made: Run) -> None:
    tab.open(made.layout.report / "index.html", "#task-vqa_1")
    assert tab.js("document.getElementById('task-vqa_1').open") is True
    tab.wait_for("Math.abs(document.getElementById('task-vqa_1').getBoundingClientRect().top) < 100")
    tab.js("document.querySelector('#task-table a[href=\"#task-region_1\"]').click()")
    tab.wait_for("document.getElementById('task-region_1').open")
    tab.js("location.hash = '#paper-7'")
    tab.wait_for("document.getElementById('table-7').open")
    dead = (
        "[...document.querySelectorAll('a[href^=\"#\"]')].filter(a => !document.getElementById(a.hash.slice(1))).length"
    )
    assert tab.js(dead) == 0
    assert tab.js("document.querySelectorAll('[target=_blank]').length") == 0
    quiet(tab)


def test_one_model_of_a_figure_is_singled_out_and_let_go(page: Tab) -> None:
    svg = "document.querySelector('#families figure svg')"
    mark = f"{svg}.querySelector('[id*=legend] [data-model=dino]')"
    page.js(f"{mark}.focus()")
    assert page.js("document.activeElement.dataset.model") == "dino"
    page.key("Enter", "\r")
    assert page.js(f"{svg}.classList.contains('single')") is True
    on = page.js(f"[...{svg}.querySelectorAll('.on')].map(m => m.dataset.model)")
    assert set(on) == {"dino"}
    assert len(on) >= 16
    page.key("Escape")
    assert page.js(f"{svg}.classList.contains('single')") is False
    assert "8 families" in page.js("document.querySelector('#figures .mark title').textContent")
    quiet(page)


def test_dark_and_light(page: Tab) -> None:
    paper = "getComputedStyle(document.body).backgroundColor"
    assert page.js(paper) == "rgb(255, 255, 255)"
    page.js("document.getElementById('theme').click()")
    assert page.js(paper) == "rgb(18, 23, 29)"
    page.js("document.getElementById('theme').click()")
    page.js("localStorage.clear()")
    page.js("delete document.documentElement.dataset.theme")
    page.size(1280, 900, dark=True)
    assert page.js(paper) == "rgb(18, 23, 29)"
    page.size(1280, 900)
    quiet(page)


def test_it_prints_and_fits_a_telephone(page: Tab) -> None:
    assert page.pdf().startswith(b"%PDF")
    page.size(390, 800)
    assert page.js("document.documentElement.scrollWidth <= innerWidth")
    page.size(1280, 900)
    quiet(page)


def test_the_examples_show_pictures_and_which_is_right(page: Tab) -> None:
    page.js("document.querySelector('button[data-details=open]').click()")
    assert page.js("[...document.querySelectorAll('details.task')].every(d => d.open)") is True
    assert page.js("document.querySelectorAll('.card.right').length") >= 30
    page.js("document.querySelector('button[data-details=close]').click()")
    assert page.js("[...document.querySelectorAll('details.task')].some(d => d.open)") is False
    quiet(page)


def test_choices_of_the_preference_page_are_kept_and_saved(tab: Tab, made: Run, tmp_path: Path) -> None:
    path = write_preference(made, "efficient", "dino", 12)
    tab.open(path)
    tab.js("localStorage.clear()")
    tab.open(path)
    said = "document.getElementById('made').textContent"
    assert tab.js(said) == "Comparison 1 of 12; 0 made"
    visible = "[...document.querySelectorAll('article.question')].filter(a => !a.hidden).length"
    assert tab.js(visible) == 1
    tab.key("1", "1")
    tab.key("2", "2")
    tab.js("document.querySelector('button[data-choice=right]').click()")
    assert tab.js(said) == "Comparison 4 of 12; 3 made"
    tab.key("ArrowLeft")
    assert tab.js("document.querySelector('button[data-choice=right]').getAttribute('aria-pressed')") == "true"
    tab.js("const saved = []; URL.createObjectURL = (blob) => (blob.text().then((t) => saved.push(t)), 'data:,')")
    tab.js("HTMLAnchorElement.prototype.click = function () {}")
    tab.js("document.getElementById('save').click()")
    tab.wait_for("saved.length > 0")
    content = json.loads(tab.js("saved[0]"))
    assert sorted(content["choices"].values()) == ["left", "right", "tie"]
    assert len(content["key"]) == 64
    tab.open(path)
    assert tab.js(said) == "Comparison 4 of 12; 3 made", "a closed page remembers"
    quiet(tab)
