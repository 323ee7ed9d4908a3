"""Human preference: drawn over all tasks, blinded, discreet, and counted against the right key."""

from __future__ import annotations

import json
from pathlib import Path

import make_scores as make
import pytest
from test_report_page import Page, with_source
from typer.testing import CliRunner

from medheb import cli
from medheb.core.errors import MedhebError
from medheb.manifest.load import Run
from medheb.report.preference import Key, spread, write_preference
from medheb.report.preference_score import Choices, score_choices


def key_of(page: Path) -> Key:
    return Key.model_validate_json((page.parent / "key.json").read_bytes())


def test_comparisons_are_spread_evenly_and_no_task_gives_more_than_it_has() -> None:
    assert spread(530, [700] * 107) == [5] * 102 + [4] * 5
    assert spread(530, [2, *[700] * 2]) == [2, 264, 264]
    assert spread(10, [1, 2]) == [1, 2]
    assert spread(0, [5]) == [0]
    assert sum(spread(530, [3] * 50 + [40] * 57)) == 530


def test_the_page_is_blinded_and_self_contained(run: Run) -> None:
    path = write_preference(run, "efficient", "dino", 40)
    text = path.read_text(encoding="utf-8")
    for leak in ("efficient", "EfficientNet", "dino", "DINOv2", "vqa_1", "region_1", "right answer"):
        assert leak not in text
    page = Page(text)
    assert page.open == []
    for attributes in page.of("img"):
        assert (attributes["src"] or "").startswith("data:image/jpeg;base64,")
    key = key_of(path)
    assert len(key.questions) == 40
    assert {question.task for question in key.questions} == set(run.tasks)
    lefts = [question.left for question in key.questions]
    assert 8 < lefts.count("efficient") < 32, "sides are drawn"
    assert key.digest in text
    assert write_preference(run, "efficient", "dino", 40).read_text(encoding="utf-8") == text


def test_what_may_not_be_shown_is_left_out_unless_the_page_stays_here(tmp_path: Path) -> None:
    run = make.small_run(tmp_path, per_family=2)
    run = with_source(run, "alpha", access="credentialed", redistribution=False, show_content=False)
    make.fill(run)
    path = write_preference(run, "efficient", "dino", 500)
    shown = {question.task for question in key_of(path).questions}
    assert shown == {task.task for task in run.tasks.values() if "alpha" not in task.sources}
    open_page, open_key = path.read_text(encoding="utf-8"), key_of(path)
    assert "For this machine only" not in open_page
    local = write_preference(run, "efficient", "dino", 500, local_only=True)
    assert {question.task for question in key_of(local).questions} == set(run.tasks)
    text = local.read_text(encoding="utf-8")
    assert "<title>For this machine only: which list" in text
    assert "Source alpha" in text
    # Beside the page that may be published, which stays as it was, and outside the folder that people copy whole.
    assert (path.read_text(encoding="utf-8"), key_of(path)) == (open_page, open_key)
    assert local == run.layout.local_only / "preference" / "efficient_dino" / "local_only.html"
    assert not local.is_relative_to(run.layout.report)
    # The other way round as well.
    write_preference(run, "efficient", "dino", 5)
    assert local.read_text(encoding="utf-8") == text
    run = with_source(run, "beta", access="credentialed", redistribution=False, show_content=False)
    with pytest.raises(MedhebError, match="share no task whose content may be shown"):
        write_preference(run, "efficient", "dino", 5)


@pytest.mark.parametrize(("first", "second", "said"), [("nobody", "dino", "no model"), ("dino", "dino", "given twice")])
def test_wrong_models_are_refused(run: Run, first: str, second: str, said: str) -> None:
    with pytest.raises(MedhebError, match=said):
        write_preference(run, first, second, 5)


def test_scores_of_another_task_file_are_refused(run: Run) -> None:
    path = run.layout.task_index(run.tasks["vqa_1"].index)
    path.write_text(path.read_text(encoding="utf-8").replace("Row 3", "Row 33"), encoding="utf-8")
    with pytest.raises(MedhebError, match="was scored on another task file"):
        write_preference(run, "efficient", "dino", 40)


def test_choices_are_counted_by_who_was_right(run: Run) -> None:
    path = write_preference(run, "efficient", "dino", 60)
    key = key_of(path)
    choices = {}
    for question in key.questions:
        choices[question.id] = "left" if question.left == "efficient" else "right"
    last = key.questions[-1]
    choices[last.id] = "tie"
    rows = {
        row["stratum"]: row for row in score_choices(key, Choices(schema_version=1, key=key.digest, choices=choices))
    }
    assert rows["all"]["choices"] == 60
    assert rows["all"]["first_share"] == pytest.approx(59 / 60)
    assert rows["all"]["tie_share"] == pytest.approx(1 / 60)
    assert rows["all"]["second_share"] == 0
    assert rows["all"]["p"] < 1e-9
    strata = [row["choices"] for name, row in rows.items() if name != "all"]
    assert sum(strata) == 60
    both = sum(question.first_right and question.second_right for question in key.questions)
    assert rows["both right"]["choices"] == both
    empty = score_choices(key, Choices(schema_version=1, key=key.digest, choices={}))
    assert all(row["choices"] == 0 and row["p"] is None and row["first_share"] is None for row in empty)


def test_choices_of_something_else_are_refused(run: Run) -> None:
    key = key_of(write_preference(run, "efficient", "dino", 5))
    with pytest.raises(MedhebError, match="belong to another page or key"):
        score_choices(key, Choices(schema_version=1, key="0" * 64, choices={}))
    with pytest.raises(MedhebError, match="have schema version 2"):
        score_choices(key, Choices(schema_version=2, key=key.digest, choices={}))
    with pytest.raises(MedhebError, match="name question 'abc'"):
        score_choices(key, Choices(schema_version=1, key=key.digest, choices={"abc": "tie"}))


def test_the_commands(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "current_run", lambda: run)
    done = CliRunner().invoke(cli.app, ["preference", "efficient", "dino", "--queries", "8"])
    assert done.exit_code == 0, done.output
    key = key_of(run.layout.report / "preference" / "efficient_dino" / "index.html")
    path = tmp_path / "choices.json"
    content = {"schema_version": 1, "key": key.digest, "choices": {key.questions[0].id: "tie"}}
    path.write_text(json.dumps(content), encoding="utf-8")
    done = CliRunner().invoke(cli.app, ["preference-score", str(path)])
    assert done.exit_code == 0, done.output
    assert "1 of 8 comparisons made" in done.output
    done = CliRunner().invoke(cli.app, ["preference-score", str(path), "--json"])
    assert json.loads(done.output)["rows"][0]["tie_share"] == 1
    # A page for this machine only has its own key, which is found as well.
    done = CliRunner().invoke(cli.app, ["preference", "efficient", "dino", "--queries", "9", "--local-only"])
    assert done.output.strip() == str(run.layout.local_only / "preference" / "efficient_dino" / "local_only.html")
    path.write_text(json.dumps(content | {"key": key_of(Path(done.output.strip())).digest}), encoding="utf-8")
    assert "1 of 9 comparisons made" in CliRunner().invoke(cli.app, ["preference-score", str(path)]).output
    path.write_text(json.dumps(content | {"choices": {"x": "maybe"}}), encoding="utf-8")
    done = CliRunner().invoke(cli.app, ["preference-score", str(path)])
    assert done.exit_code != 0
