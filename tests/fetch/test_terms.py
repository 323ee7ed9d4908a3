"""The licence gate: nothing passes before its terms, as they stand now, are accepted."""

import io
import json
from pathlib import Path

import pytest
import yaml
from plan_samples import closed, dataset, make_run
from rich.console import Console

from medheb.core.errors import BlockedError, MedhebError
from medheb.fetch.accept import accept, accept_file, ask, selected
from medheb.fetch.terms import (
    acceptance_text,
    current_user,
    decision_file,
    read_decision,
    record_decision,
    require_accepted,
    terms_of,
)

QUIET = Console(file=io.StringIO(), width=160)


@pytest.fixture(autouse=True)
def who(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEDHEB_WHO", "A. Reader")


def changed_terms(**changes: object) -> object:
    return dataset("a", licence={"spdx": "CC-BY-NC-4.0", "url": "https://example.org/a/terms"}, **changes)


def test_nothing_passes_before_it_is_accepted(tmp_path: Path) -> None:
    run = make_run(tmp_path, dataset("a"))
    with pytest.raises(BlockedError) as refused:
        require_accepted(run, run.datasets["a"])
    assert str(refused.value) == "Source a: its terms have not been accepted. Read them with `medheb accept a`"
    record_decision(run.layout, run.datasets["a"], "A. Reader")
    require_accepted(run, run.datasets["a"])


def test_the_line_accept_open_covers_open_sources_only(tmp_path: Path) -> None:
    run = make_run(tmp_path, dataset("a"), closed("b"), dataset("c", access="gated"), accept="open")
    require_accepted(run, run.datasets["a"])
    assert "accept: open" in acceptance_text(run, run.datasets["a"])
    for key in ("b", "c"):
        with pytest.raises(BlockedError, match="have not been accepted"):
            require_accepted(run, run.datasets[key])


def test_changed_terms_void_the_decision_and_say_so(tmp_path: Path) -> None:
    run = make_run(tmp_path, dataset("a"))
    decision = record_decision(run.layout, run.datasets["a"], "A. Reader")
    for changed in (changed_terms(), dataset("a", access="gated"), dataset("a", redistribution=False)):
        with pytest.raises(BlockedError) as refused:
            require_accepted(run, changed)
        assert f"changed since A. Reader accepted them on {decision.when[:10]}" in refused.value.fault
        assert "medheb accept a" in refused.value.remedy
        assert "terms changed" in acceptance_text(run, changed)
    # Other words of the manifest are no terms.
    require_accepted(run, dataset("a", title="Another title", note="thin"))


@pytest.mark.parametrize("content", ["{", "[]", '{"dataset": "a"}'])
def test_damaged_record_blocks(tmp_path: Path, content: str) -> None:
    run = make_run(tmp_path, dataset("a"))
    path = decision_file(run.layout, "a")
    path.parent.mkdir(parents=True)
    path.write_text(content)
    with pytest.raises(BlockedError, match=r"a\.json"):
        require_accepted(run, run.datasets["a"])
    assert accept(run, [run.datasets["a"]], QUIET, lambda _: True) == []
    require_accepted(run, run.datasets["a"])


def test_record_of_other_terms_or_of_another_source_does_not_count(tmp_path: Path) -> None:
    run = make_run(tmp_path, dataset("a"), dataset("b"))
    record_decision(run.layout, run.datasets["a"], "A. Reader")
    content = json.loads(decision_file(run.layout, "a").read_text())
    decision_file(run.layout, "b").write_text(json.dumps(content))
    with pytest.raises(BlockedError, match="is about source 'a'"):
        require_accepted(run, run.datasets["b"])
    content["terms"]["access"] = "gated"
    decision_file(run.layout, "a").write_text(json.dumps(content))
    with pytest.raises(BlockedError, match="not those of its digest"):
        require_accepted(run, run.datasets["a"])


def test_record_tells_who_when_and_what(tmp_path: Path) -> None:
    run = make_run(tmp_path, dataset("a"))
    accept(run, [run.datasets["a"]], QUIET, lambda _: True)
    decision = read_decision(run.layout, "a")
    assert decision is not None
    assert (decision.who, decision.digest) == ("A. Reader", terms_of(run.datasets["a"]).digest)
    assert decision.terms.licence.url == "https://example.org/a/terms"
    assert decision.digest[:12] in acceptance_text(run, run.datasets["a"])
    before = decision_file(run.layout, "a").read_bytes()
    accept(run, [run.datasets["a"]], QUIET, lambda _: pytest.fail("asked again"))
    assert decision_file(run.layout, "a").read_bytes() == before


def test_declined_terms_leave_no_record(tmp_path: Path) -> None:
    run = make_run(tmp_path, dataset("a", title="Source [red]a[/red]"), dataset("b"))
    shown = Console(file=io.StringIO(), width=200)
    assert accept(run, list(run.datasets.values()), shown, lambda entry: entry.id == "b") == ["a"]
    assert read_decision(run.layout, "a") is None
    assert read_decision(run.layout, "b") is not None
    text = shown.file.getvalue()
    for part in (
        "Source [red]a[/red]",
        "open: anybody",
        "CC-BY-4.0",
        "https://example.org/a/terms",
        "may be passed on",
        "cite it",
    ):
        assert part in text
    assert "this source stays blocked" in text


def test_asking_needs_a_terminal_and_the_whole_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("yes\n"))
    with pytest.raises(MedhebError, match="give --yes or --file"):
        ask(dataset("a"))
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    answers = iter(["y", "", "Yes "])
    monkeypatch.setattr("builtins.input", lambda _: next(answers))
    assert [ask(dataset("a")) for _ in range(3)] == [False, False, True]


def test_file_of_decisions_names_the_text_that_was_read(tmp_path: Path) -> None:
    run = make_run(tmp_path, dataset("a"), closed("b"))
    digests = {key: terms_of(entry).digest for key, entry in run.datasets.items()}
    path = tmp_path / "decisions.yaml"
    path.write_text(yaml.safe_dump({"who": "B. Batch", "accept": {"a": digests["a"][:12], "b": digests["b"]}}))
    accept_file(run, path, QUIET)
    for entry in run.datasets.values():
        require_accepted(run, entry)
        assert "B. Batch" in acceptance_text(run, entry)


@pytest.mark.parametrize("digest", ["0" * 12, "", "f"])
def test_file_of_decisions_for_another_text_writes_nothing(tmp_path: Path, digest: str) -> None:
    run = make_run(tmp_path, dataset("a"), dataset("b"))
    good = terms_of(run.datasets["a"]).digest
    path = tmp_path / "decisions.yaml"
    path.write_text(yaml.safe_dump({"who": "B. Batch", "accept": {"a": good, "b": digest}}))
    with pytest.raises(MedhebError) as refused:
        accept_file(run, path, QUIET)
    assert "source b" in refused.value.fault
    assert terms_of(run.datasets["b"]).digest[:12] in refused.value.remedy
    assert read_decision(run.layout, "a") is None


def test_unknown_source_and_odd_names_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run(tmp_path, dataset("a"))
    with pytest.raises(MedhebError, match="source 'zzz': is not part of this run"):
        selected(run, ["zzz"])
    path = tmp_path / "decisions.yaml"
    path.write_text("who: x\naccept: [a]\n")
    with pytest.raises(MedhebError, match="key 'accept'"):
        accept_file(run, path, QUIET)
    for name in ("a\nb", "x" * 101):
        monkeypatch.setenv("MEDHEB_WHO", name)
        with pytest.raises(MedhebError, match="Set MEDHEB_WHO"):
            current_user()


def test_login_name_is_used_where_no_variable_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MEDHEB_WHO")
    monkeypatch.setenv("LOGNAME", "jane")
    assert current_user() == "jane"
