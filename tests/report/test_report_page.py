"""The page as a file: complete, self-contained, escaped, discreet, the same every time."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import io
import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import make_scores as make
import pandas as pd
import pytest
from rich.console import Console

from medheb.core.errors import MedhebError
from medheb.core.status import Status, write_status
from medheb.evaluate.score import METRICS
from medheb.manifest.load import Run
from medheb.report import run as report_run
from medheb.report.example import BANNER
from medheb.report.gallery import within
from medheb.report.run import collect_report
from medheb.report.terminal import print_leaderboard

FILES = {
    "index.html",
    "leaderboard.csv",
    "quality.csv",
    "quality.json",
    "tasks.csv",
    "summary.json",
    "tables",
    "figures",
    "mteb",
}
TABLES = {"leaderboard", "families", "tasks", "graded", "table4", "table5", "table6", "table7", "table8"}
EVIL = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>{{ 7*7 }}$\\frac{1}$&amp;"
VOID = {"meta", "img", "input", "br", "link", "hr"}


class Page(HTMLParser):
    """Collects elements and checks that every one of them is closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def page_of(run: Run) -> str:
    collect_report(run)
    return (run.layout.report / "index.html").read_text(encoding="utf-8")


def contents(run: Run) -> dict[str, bytes]:
    """Every file of the report by its path in the folder."""
    folder = run.layout.report
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def texts(run: Run) -> dict[str, str]:
    """Every file of the report as text; a Parquet file (compressed) as the CSV of its table."""
    return {
        name: pd.read_parquet(io.BytesIO(content)).to_csv() if name.endswith(".parquet") else content.decode("utf-8")
        for name, content in contents(run).items()
        if not name.endswith(".png")
    }


def targets_of(page: Page) -> set[str]:
    return {attributes.get("href") or attributes.get("xlink:href") or "" for attributes in page.of("a")}


def with_source(run: Run, source: str, **changes: object) -> Run:
    changed = make.dataset(source, **changes)
    return dataclasses.replace(run, datasets={**run.datasets, source: changed})


def test_the_report_holds_its_files_and_all_that_they_promise(run: Run) -> None:
    text = page_of(run)
    assert {path.name for path in run.layout.report.iterdir()} == FILES
    tables = {f"{name}.{kind}" for name in TABLES for kind in ("csv", "parquet", "md", "tex")}
    tables |= {f"{name}.{kind}" for name in ("assignment", "pairs", "ranks") for kind in ("csv", "parquet")}
    assert {path.name for path in (run.layout.report / "tables").iterdir()} == tables
    page = Page(text)
    assert page.open == []
    ids = [attributes["id"] for _, attributes in page.elements if attributes.get("id")]
    assert len(ids) == len(set(ids))
    sections = (
        "leaderboard",
        "graded",
        "map",
        "families",
        "tasks",
        "examples",
        "quality",
        "thin",
        "missing",
        "licences",
        "provenance",
    )
    assert set(sections) <= set(ids)
    assert {f"task-{task}" for task in run.tasks} <= set(ids)
    assert {target[1:] for target in targets_of(page) if target.startswith("#")} <= set(ids)
    words = " ".join(page.text)
    assert "Pictures of alpha are drawn, not measured." in words
    assert "2 of 14 pictures were skipped as empty." in words
    assert "Its picture half has seen no medical picture." in words
    assert "fitted on Source alpha only" in words
    assert "None: every model has a score on every task." in words
    assert len(text.encode()) < 15_000_000


def test_a_banner_stands_at_the_top_of_every_page(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("medheb.report.run.within", lambda galleries: within(galleries, budget=30_000))
    collect_report(run, BANNER)
    pages = [run.layout.report / "index.html", *(run.layout.report / "gallery").glob("*.html")]
    assert len(pages) > 1
    for path in pages:
        text = path.read_text(encoding="utf-8")
        assert text.index("generated by a program") < text.index("<header>"), path.name
    assert "<title>Example, not results." in pages[0].read_text(encoding="utf-8")
    assert 'class="banner"' not in page_of(run), "the pages of a real run have none"


def test_files_of_an_earlier_report_do_not_stay(run: Run) -> None:
    collect_report(run)
    for name in ("figures/old.svg", "tables/old.csv", "gallery/old.html", "mteb/old/x.json"):
        path = run.layout.report / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("old")
    collect_report(run)
    assert not [path for path in run.layout.report.rglob("*") if path.stem == "old"]


def test_nothing_is_loaded_from_anywhere(run: Run) -> None:
    page = Page(page_of(run))
    for tag, attributes in page.elements:
        for name in ("src", "srcset", "data", "poster", "action", "formaction", "background"):
            if name in attributes and not name.startswith("data-"):
                assert (attributes[name] or "").startswith("data:image/jpeg;base64,"), (tag, attributes)
        for name in ("href", "xlink:href"):
            if name in attributes:
                target = attributes[name] or ""
                assert target.startswith("#") or (tag == "a" and target.startswith("https://example.org/")), target
    assert page.of("link") == page.of("iframe") == page.of("object") == page.of("base") == []
    style = re.search(r"<style>(.*?)</style>", page_of(run), re.DOTALL)
    assert style
    assert "url(" not in style.group(1)
    assert "@import" not in style.group(1)


def test_the_policy_allows_this_script_and_no_other(run: Run) -> None:
    text = page_of(run)
    scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    assert len(scripts) == 1
    digest = base64.b64encode(hashlib.sha256(scripts[0].encode()).digest()).decode()
    (policy,) = [meta["content"] or "" for meta in Page(text).of("meta") if meta.get("http-equiv")]
    assert f"script-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy


def test_hostile_words_stay_words(tmp_path: Path) -> None:
    run = make.small_run(tmp_path)
    models = {**run.models, "efficient": make.model("efficient", EVIL, note=EVIL)}
    tasks = {key: task.model_copy(update={"qry_inst": EVIL}) for key, task in run.tasks.items()}
    run = dataclasses.replace(run, models=models, tasks=tasks)
    licence = {"spdx": None, "url": "javascript:alert(3)", "note": EVIL}
    links = ["data:text/html,<script>alert(4)</script>"]
    run = with_source(run, "alpha", title=EVIL, note=EVIL, citation=EVIL, licence=licence, links=links)
    make.fill(run)
    for key in run.tasks:
        if run.tasks[key].family in {"image-label", "image-report", "text-image", "vqa", "text-text"}:
            make.change_index(run, key, "Row ", EVIL)
        make.change_score(run, "efficient", key, warnings=[EVIL])
    make.change_score(run, "dino", "vqa_1", status={"state": "failed", "origin": EVIL, "reason": EVIL, "remedy": EVIL})
    page = Page(page_of(run))
    assert page.open == []
    assert len(page.of("script")) == 1
    assert not any("onerror" in attributes for _, attributes in page.elements)
    assert not any(attributes.get("src") == "x" for attributes in page.of("img"))
    assert {target for target in targets_of(page) if not target.startswith(("#", "https://example.org/"))} == set()
    words = " ".join(page.text)
    assert "<script>alert(1)</script>" in words
    assert "{{ 7*7 }}" in words
    assert "$\\frac{1}$" in words


def test_nothing_of_a_source_that_must_not_be_shown_is_in_any_file(tmp_path: Path) -> None:
    run = make.small_run(tmp_path)
    run = with_source(
        run, "beta", access="credentialed", redistribution=False, show_content=False, subject="Patient Zero"
    )
    make.fill(run)
    secret = "/data/physionet/files/p10/p10000032/s50414267/02aa804e.jpg"
    reason = f"{secret}: key 'findings' is 'The patient Jane Doe has a nodule', subject 10000032"
    for key in run.tasks:
        make.change_score(run, "efficient", key, warnings=[reason])
    failed = Status(
        state="failed", origin="build beta", reason=reason, remedy=f"Look at {secret} or https://example.org/beta"
    )
    make.change_score(run, "dino", "vqa_1", status=failed.model_dump())
    run.layout.score("random", "vqa_1").unlink()
    write_status(run.layout.task_status(run.tasks["vqa_1"].index), failed)
    page_of(run)
    for name, text in texts(run).items():
        for leak in ("p10000032", "s50414267", "02aa804e", "Jane", "nodule", "10000032", "physionet", "Patient Zero"):
            assert leak not in text, (name, leak)
        for leak in ("beta_0", "alpha_0", "data:image/", "seen in slice", "which organ"):
            assert leak not in text, (name, leak)
    text = (run.layout.report / "index.html").read_text(encoding="utf-8")
    assert "The terms of Source beta do not allow pictures, texts or paths to be shown: only ranks." in text
    assert "Right answer at place 1" in text
    assert "Look at [withheld] or https://example.org/beta" in text


def test_folders_of_this_machine_and_secrets_are_not_told(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_TOKEN", "very-secret-word")
    run.layout.score("dino", "vqa_1").write_text("{")
    status = {"state": "failed", "origin": "x", "reason": f"very-secret-word in {Path.home()}/a", "remedy": "b"}
    make.change_score(run, "dino", "region_1", status=status)
    page_of(run)
    for text in texts(run).values():
        assert str(run.layout.results) not in text
        assert "very-secret-word" not in text
        assert f"{Path.home()}/a" not in text
    assert "results/scores/dino/vqa_1.json: is not JSON" in (run.layout.report / "index.html").read_text()


def test_missing_cells_are_told_with_reason_and_remedy(run: Run) -> None:
    make.block(run, "beta", "the terms are not accepted by this account", "Accept them on the source's page")
    text = page_of(run)
    words = " ".join(" ".join(Page(text).text).split())
    assert "32 of 32 results are missing" in words
    assert "the terms are not accepted by this account" in words
    assert "Accept them on the source&#39;s page" in text
    assert "1 of 2 sources could be used, 1 blocked." in words
    summary = json.loads((run.layout.report / "summary.json").read_bytes())
    assert summary["counts"]["missing"] == 32
    assert summary["models"]["dino"]["mean"]["over_tasks"]["hit@1"]["value"] is None


def test_warnings_name_their_models_and_canaries_do_not_count(run: Run) -> None:
    for model in ("efficient", "dino", "constant"):
        make.change_score(run, model, "vqa_1", warnings=["3 candidates repeat"])
        make.change_score(run, model, "region_1", warnings=["all scores tie"] if model != "efficient" else [])
    words = " ".join(Page(page_of(run)).text)
    assert words.count("3 candidates repeat") == 1
    assert "DINOv2-small + MiniLM: all scores tie" in words
    assert "Constant vector: " not in words
    assert "Fewer than 50 queries" in words


def test_numbers_at_chance_are_marked_for_real_models_only_and_the_legend_follows(run: Run) -> None:
    sure = {"value": 0.5, "low": 0.4, "high": 0.6, "worst": 0.5, "chance": 0.1}
    for model in run.models:
        for task in run.tasks:
            make.change_score(run, model, task, metrics=dict.fromkeys(METRICS, sure))
    make.change_score(run, "random", "vqa_1", metrics=dict.fromkeys(METRICS, sure | {"low": 0.05}))
    page = page_of(run)
    assert "\u2248" not in page
    assert "Canaries are grey" in page
    make.change_score(run, "dino", "vqa_1", metrics=dict.fromkeys(METRICS, sure | {"low": 0.05}))
    page = page_of(run)
    assert page.count('<small class="below">\u2248 chance</small>') == 1
    assert "the interval of Hit@1 includes chance" in page
    assert "has chance in its interval" in page


def test_intervals_are_called_too_narrow_where_there_are_any(run: Run) -> None:
    assert page_of(run).count("so the true intervals are wider") == 1
    make.block(run, "beta")
    make.block(run, "alpha")
    assert "the true intervals are wider" not in page_of(run)


def test_summary_holds_the_numbers_and_keeps_time_apart(run: Run) -> None:
    page_of(run)
    before = (run.layout.report / "summary.json").read_bytes()
    for task in run.tasks:
        make.change_score(run, "dino", task, seconds=99.0)
    collect_report(run)
    after = json.loads((run.layout.report / "summary.json").read_bytes())
    first = json.loads(before)
    assert after.pop("timing") != first.pop("timing")
    assert after == first
    cell = first["models"]["constant"]["tasks"]["vqa_1"]
    assert abs(cell["metrics"]["hit@1"]["value"] - cell["metrics"]["hit@1"]["chance"]) < 1e-9
    assert (cell["queries"], cell["candidates"], cell["tied_fraction"]) == (24, 12, 1.0)
    assert first["protocol"]["name"] == "corrected"
    assert first["versions"]["python"]
    assert first["tasks"]["vqa_1"]["task_digest"]


def test_the_same_scores_give_the_same_bytes_in_any_process(run: Run, tmp_path: Path) -> None:
    page_of(run)
    first = contents(run)
    collect_report(run)
    assert contents(run) == first
    script = (
        "import sys; sys.path.insert(0, sys.argv[1]); from pathlib import Path; import make_scores as make; "
        "from medheb.report.run import collect_report; collect_report(make.small_run(Path(sys.argv[2])))"
    )
    changed = {"PYTHONHASHSEED": "4242", "TZ": "Asia/Tokyo", "LC_ALL": "C"}
    command = [sys.executable, "-c", script, str(Path(__file__).parent), str(tmp_path)]
    subprocess.run(command, check=True, env=os.environ | changed, capture_output=True)
    assert contents(run) == first


def test_a_page_that_is_too_large_is_refused_before_anything_is_written(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report_run, "MAX_PAGE_BYTES", 1000)
    with pytest.raises(MedhebError, match=r"index\.html: would have .* MB.*Lower 'report\.examples'"):
        collect_report(run)
    assert not run.layout.report.exists()


def test_the_terminal_shows_leaderboard_gaps_and_path(run: Run) -> None:
    run.layout.score("dino", "vqa_1").unlink()
    console = Console(record=True, width=140, force_terminal=False)
    print_leaderboard(run, console)
    text = console.export_text()
    order = [text.index(title) for title in ("EfficientNet-Lite0", "DINOv2-small", "Constant vector (canary)")]
    assert order == sorted(order)
    assert "7/8" in text
    assert "1 cell of 32 missing" in text
    assert str(run.layout.report / "index.html") in text


def test_a_terminal_of_80_columns_holds_a_name_of_30_characters_on_one_line(run: Run) -> None:
    name = "BiomedCLIP-PubMedBERT ViT-B/16"
    assert len(name) == 30
    renamed = {**run.models, "efficient": make.model("efficient", name)}
    for task in run.tasks:
        sure = {"value": 1.0, "low": 0.98, "high": 1.0, "worst": 1.0, "chance": 1 / 12}
        make.change_score(run, "efficient", task, metrics=dict.fromkeys(METRICS, sure))
    console = Console(record=True, width=80, force_terminal=False)
    print_leaderboard(dataclasses.replace(run, models=renamed), console)
    lines = console.export_text().splitlines()
    (heading,) = [line for line in lines if "Model" in line]
    assert heading.split() == ["#", "Model", "Hit@1", "95", "%", "CI", "Chance", "Hit@5", "MRR@5", "Tasks"]
    (row,) = [line for line in lines if name in line]
    assert row.split(name)[1].split()[0] == "100.0"
    assert row.rstrip().endswith(" 8.3 100.0 100.0    8/8")
    assert all(len(line.rstrip()) <= 80 for line in lines if not line.startswith("Report: "))
    assert "\u2026" not in "".join(lines)
