"""Two audit folders side by side, without files, configuration or our run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from audit_bench import OK, PICTURES, SECRETS, A, B, Bench, edit, encode, findings, pixels, unit, write_roots

from medheb.audit.commands import compare_command
from medheb.audit.compare import Comparison, compare
from medheb.audit.present import comparison_text
from medheb.audit.provenance import provenance_path, write_provenance
from medheb.audit.record import record_digests
from medheb.audit.roots import summary_of
from medheb.audit.schema import Roots, overall_roots, read_roots, read_source_record, roots_path
from medheb.audit.verdicts import EXIT_MISMATCH, EXIT_NOT_BUILT, EXIT_OK, EXIT_UNUSABLE
from medheb.core.files import write_json


def again(bench: Bench, *sources: str) -> None:
    """Record a run anew."""
    for source in sources:
        record_digests(bench.run, source)
    write_roots(bench.run)


@pytest.fixture
def before(whole: Bench, tmp_path: Path) -> Path:
    """The audit folder as it was."""
    return Path(shutil.copytree(whole.layout.audit, tmp_path / "before"))


def test_equal_folders(whole: Bench, before: Path) -> None:
    found = compare(before, whole.layout.audit)
    assert (found.verdict, found.exit_code) == ("IDENTICAL", EXIT_OK)
    assert (found.levels, found.environment, found.made, found.explanation) == ({}, {}, {}, ())
    assert unit(found, "alpha").counts == {"IDENTICAL": 6}


def test_another_encoder_is_explained_by_the_environment(whole: Bench, before: Path) -> None:
    for name in ("alpha", "gamma"):
        whole.build(name, level=1)
        whole.evaluate(name)
    again(whole, "alpha", "gamma")
    path = whole.layout.audit / "environment.json"
    content = json.loads(path.read_bytes())
    content["encoders"]["zlib"] = "1.3.1.zlib-ng"
    write_json(path, content)
    found = compare(before, whole.layout.audit)
    assert (found.verdict, found.exit_code) == ("EQUIVALENT", EXIT_OK)
    assert found.levels == {"alpha": ("L1",), "gamma": ("L1",)}
    assert unit(found, "alpha").counts == {"IDENTICAL": 1, "EQUIVALENT": 5}
    assert unit(found, "gamma").verdict == "EQUIVALENT"
    assert findings(found, "embedded inputs")["random/alpha"].verdict == "EQUIVALENT"
    (line,) = found.explanation
    assert "encoders.zlib" in line
    assert "1.3.1.zlib-ng in the second" in line


def test_differences_go_down_to_the_files(whole: Bench, before: Path) -> None:
    whole.image("a.png").write_bytes(whole.image("b.png").read_bytes())
    whole.image("b.png").write_bytes(encode(pixels(77)))
    whole.image("with blank.png").rename(whole.image("other.png"))
    names = [name for name in PICTURES["alpha"] if name != "with blank.png"]
    whole.inventory("alpha", [*names, "other.png", "notes.json"], OK)
    record_digests(whole.run, "alpha")
    roots = read_roots(roots_path(whole.layout))
    replaced_roots(whole.layout.audit, roots)
    found = compare(before, whole.layout.audit)
    assert {name: (one.verdict, one.reason) for name, one in findings(found).items()} == {
        A: ("MISMATCH", f"holds in the second what {B} holds in the first"),
        B: ("MISMATCH", "content differs"),
        "2D_Images/alpha/with blank.png": ("MISSING", "is in the first only"),
        "2D_Images/alpha/other.png": (
            "EXTRA",
            "is in the second only; its content is that of 2D_Images/alpha/with blank.png in the first",
        ),
    }
    assert found.levels == {"alpha": ("L1", "L2")}
    assert found.exit_code == EXIT_MISMATCH
    assert "alpha: differs at L1, L2" in comparison_text(found)


def replaced_roots(folder: Path, roots: Roots) -> None:
    """Let roots.json take over what the record of alpha says now."""
    sources = roots.sources | {"alpha": summary_of(read_source_record(folder / "alpha" / "digests.json"))}
    sections = {"index": roots.index, "scores": roots.scores, "embeddings": roots.embeddings}
    changed = roots.model_copy(update={"sources": sources, "overall": overall_roots(sources, sections)})
    write_json(folder / "roots.json", changed.model_dump())


def test_upstream_change_is_named(whole: Bench, before: Path) -> None:
    manifest = whole.run.datasets["delta"]
    other = manifest.files[0].model_copy(update={"sha256": "0" * 64})
    whole.run.datasets["delta"] = manifest.model_copy(update={"files": (other,)})
    again(whole, "delta")
    found = compare(before, whole.layout.audit)
    assert found.levels == {"delta": ("L0",)}
    assert "upstream changed" in unit(found, "delta").reason
    assert found.explanation == ("Archives differ (L0), so files may: delta",)
    assert found.exit_code == EXIT_OK, "the files are the same"


def test_other_code_and_scores(whole: Bench, before: Path) -> None:
    class Told:
        def __init__(self, code: str) -> None:
            self._code = code

        def __getattr__(self, name: str) -> object:
            return lambda *names: self._code if name == "code" and names == ("evaluate",) else name

    roots = read_roots(roots_path(whole.layout))
    write_provenance(whole.run, roots, Told("one"))
    shutil.copy(provenance_path(whole.layout), before / "provenance.json")
    whole.score("random", whole.run.tasks["alpha_i2i"], len(PICTURES["alpha"]), OK, above=3)
    write_provenance(whole.run, write_roots(whole.run), Told("two"))
    found = compare(before, whole.layout.audit)
    assert findings(found, "scores")["random/alpha_i2i"].verdict == "MISMATCH"
    assert set(found.made.values()) == {"other code"}
    assert found.made.keys() == {f"scores/{model}/{task}" for model in whole.run.models for task in whole.run.tasks}
    assert any("a model's vectors differ" in line for line in found.explanation)


def test_built_here_and_not_there(recorded: Bench, tmp_path: Path) -> None:
    first = Path(shutil.copytree(recorded.layout.audit, tmp_path / "first"))
    whole = recorded.without_beta()
    write_roots(whole.run)
    found = compare(first, whole.layout.audit)
    assert findings(found, "beta")["beta"].verdict == "MISSING"
    other = compare(first, first)
    assert (other.verdict, other.exit_code) == ("NOT-BUILT", EXIT_NOT_BUILT)


def test_restricted_source_stays_nameless(whole: Bench, before: Path) -> None:
    whole.image(PICTURES["gamma"][0], "gamma").write_bytes(encode(pixels(1)))
    whole.inventory("gamma", PICTURES["gamma"], OK)
    whole.evaluate("gamma")
    again(whole, "gamma")
    found = compare(before, whole.layout.audit)
    assert (unit(found, "gamma").verdict, unit(found, "gamma").withheld) == ("MISMATCH", True)
    assert unit(found, "gamma").reason == "by roots alone; 2 files in the first, 2 in the second"
    for text in (comparison_text(found), found.model_dump_json()):
        assert not any(secret in text for secret in (*SECRETS, "p10/"))


def test_edited_missing_and_damaged_folders(whole: Bench, before: Path, tmp_path: Path) -> None:
    content = json.loads((before / "alpha" / "digests.json").read_bytes())
    edit(before / "alpha" / "digests.json", content["files"][A]["L2"], content["files"][B]["L2"])
    (before / "delta" / "digests.json").write_text("{")
    (before / "environment.json").write_text("[")
    found = compare(before, whole.layout.audit)
    reasons = {name: one.reason for name, one in findings(found, "audit folders").items()}
    assert "edited after recording" in reasons["first/alpha/digests.json"]
    assert reasons["first/delta/digests.json"] == "is not JSON"
    assert reasons["first/environment.json"] == "is not JSON"
    assert found.exit_code == EXIT_MISMATCH
    for damage in ("", '{"schema_version": 9}'):
        (before / "roots.json").write_text(damage)
        assert compare(whole.layout.audit, before).exit_code == EXIT_UNUSABLE
    assert compare(tmp_path / "nowhere", before).exit_code == EXIT_UNUSABLE


def test_what_a_folder_does_not_tell_is_said(whole: Bench, before: Path) -> None:
    (before / "provenance.json").unlink()
    (before / "environment.json").unlink()
    found = compare(before, whole.layout.audit)
    assert (found.verdict, found.environment, found.made) == ("IDENTICAL", {}, {})
    assert found.explanation == (
        "The first folder has no provenance.json: code and parameters are not compared",
        "The first folder has no environment.json: machines are not compared",
    )


def test_command_prints_text_and_json(whole: Bench, before: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert compare_command(before, whole.layout.audit) == EXIT_OK
    assert "Verdict: IDENTICAL (exit code 0)" in capsys.readouterr().out
    assert compare_command(before, whole.layout.audit, as_json=True) == EXIT_OK
    assert Comparison.model_validate_json(capsys.readouterr().out).verdict == "IDENTICAL"
