"""The audit folder under audit, task JSONs, scores, receipts, and what is printed."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest
from audit_bench import (
    BLOCKED,
    OK,
    PICTURES,
    A,
    B,
    Bench,
    edit,
    encode,
    findings,
    folder_for_file,
    only,
    pixels,
    unit,
    write_roots,
)

from medheb.audit.commands import verify_command
from medheb.audit.measure import Measured, measure
from medheb.audit.present import as_text
from medheb.audit.record import record_digests
from medheb.audit.schema import roots_path
from medheb.audit.verdicts import (
    EXIT_MISMATCH,
    EXIT_MISSING_OR_EXTRA,
    EXIT_OK,
    EXIT_UNREADABLE,
    EXIT_UNUSABLE,
    Finding,
    Verification,
)
from medheb.audit.verify import verify
from medheb.core.errors import MedhebError
from medheb.core.files import write_json
from medheb.evaluate.score import read_score, write_score


def test_hand_edited_record_is_found(whole: Bench) -> None:
    """Somebody changes a picture and its digests in digests.json, so that the file seems in order."""
    record = whole.layout.audit / "alpha" / "digests.json"
    before = json.loads(record.read_bytes())["files"][A]
    whole.image("a.png").write_bytes(encode(pixels(77)))
    after = measure(whole.layout.benchmark, A, "L2")
    assert isinstance(after, Measured)
    edit(record, before["L1"], after.L1)
    edit(record, before["L2"], str(after.L2))
    verification = verify(whole.run)
    assert unit(verification, "alpha").verdict == "IDENTICAL"
    found = findings(verification, "audit folder")
    assert "its L1 root is not that of the digests it lists" in found["alpha/digests.json"].reason
    assert found["alpha/SHA256SUMS"].reason == "lists other digests than the JSON beside it"
    assert verification.exit_code == EXIT_MISMATCH


def test_content_digest_edited_alone_is_found(whole: Bench) -> None:
    record = whole.layout.audit / "alpha" / "digests.json"
    content = json.loads(record.read_bytes())["files"]
    edit(record, content[A]["L2"], content[B]["L2"])
    assert "the record was edited" in only(verify(whole.run)).reason
    assert "its L2 root" in only(verify(whole.run, level="L1"), "audit folder").reason


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        (("overall", "L2"), "the overall L2 root"),
        (("index", "roots", "L1"), "the roots of index"),
        (("scores", "entries", "random/alpha_i2i", "digests", "L2"), "the roots of scores"),
        (("embeddings", "entries", "random/alpha", "digests", "L1"), "the roots of embeddings"),
        (("sources", "alpha", "roots", "L0"), "the overall L0 root"),
    ],
)
def test_hand_edited_roots_are_found(whole: Bench, place: tuple[str, ...], reason: str) -> None:
    content = json.loads(roots_path(whole.layout).read_bytes())
    inner = content
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = "0" * 64
    write_json(roots_path(whole.layout), content)
    verification = verify(whole.run)
    assert reason in findings(verification, "audit folder")["roots.json"].reason
    assert verification.exit_code == EXIT_MISMATCH


def test_record_and_roots_of_different_times_are_found(whole: Bench) -> None:
    whole.image("a.png").write_bytes(encode(pixels(77)))
    whole.inventory("alpha", (*PICTURES["alpha"], "notes.json"), OK)
    record_digests(whole.run, "alpha")
    found = findings(verify(whole.run), "audit folder")
    assert "roots.json says something else" in found["alpha/digests.json"].reason


def test_hand_edited_access_manifest_is_found(whole: Bench) -> None:
    manifest = whole.run.datasets["alpha"]
    other = manifest.files[0].model_copy(update={"sha256": "0" * 64})
    whole.run.datasets["alpha"] = manifest.model_copy(update={"files": (other,)})
    assert "other archives than were recorded (L0)" in only(verify(whole.run), "audit folder").reason
    whole.run.datasets["alpha"] = manifest.model_copy(update={"show_content": False})
    assert "show_content was changed" in findings(verify(whole.run), "audit folder")["alpha/digests.json"].reason


@pytest.mark.parametrize(
    ("damage", "verdict", "reason"),
    [
        (lambda path: path.unlink(), "MISSING", "is missing. Record it again: snakemake audit"),
        (lambda path: path.write_text("{"), "UNREADABLE", "is not JSON"),
        (lambda path: path.write_text("[" * 100_000), "UNREADABLE", "is not JSON"),
        (lambda path: path.write_bytes(b""), "UNREADABLE", "is not JSON"),
        (lambda path: path.write_text("[]"), "UNREADABLE", "has schema version None"),
        (lambda path: edit(path, '"schema_version": 1', '"schema_version": 7'), "UNREADABLE", "Allowed: 1"),
        (lambda path: edit(path, '"state": "built"', '"state": "fine"'), "UNREADABLE", "is 'fine'"),
        (folder_for_file, "UNREADABLE", "cannot be read"),
    ],
    ids=["missing", "cut", "deep", "empty", "list", "version", "value", "folder"],
)
@pytest.mark.parametrize("name", ["roots.json", "alpha/digests.json"])
def test_unusable_audit_folder(
    whole: Bench, name: str, damage: Callable[[Path], object], verdict: str, reason: str
) -> None:
    damage(whole.layout.audit / name)
    verification = verify(whole.run)
    found = findings(verification, "audit folder")[name]
    assert found.verdict == verdict
    assert reason in found.reason
    assert verification.exit_code == EXIT_UNUSABLE


def test_record_cannot_lead_out_of_the_benchmark_folder(whole: Bench) -> None:
    edit(whole.layout.audit / "alpha" / "digests.json", f'"{A}"', '"../../etc/passwd"')
    verification = verify(whole.run)
    assert "no .." in only(verification, "audit folder").reason
    assert verification.exit_code == EXIT_UNUSABLE


def test_recorded_source_outside_the_configuration_is_named(recorded: Bench) -> None:
    verification = verify(recorded.without_beta().run)
    assert only(verification, "audit folder").name == "beta"
    assert verification.exit_code == EXIT_MISSING_OR_EXTRA


def test_task_json(whole: Bench) -> None:
    path = whole.layout.task_index(whole.run.tasks["alpha_i2i"].index)
    rows = json.loads(path.read_bytes())
    path.write_text(json.dumps(rows))
    assert only(verify(whole.run), "task JSONs").verdict == "EQUIVALENT"
    rows[0]["tgt_img_path"].reverse()
    write_json(path, rows)
    verification = verify(whole.run)
    assert only(verification, "task JSONs") == Finding(
        name="2D_Task/alpha/alpha_i2i.json", verdict="MISMATCH", reason="content differs"
    )
    assert "another task JSON" in findings(verification, "scores")["random/alpha_i2i"].reason
    path.unlink()
    assert only(verify(whole.run), "task JSONs").verdict == "MISSING"


def test_scores(whole: Bench) -> None:
    one = whole.run.tasks["alpha_i2i"]
    number = len(PICTURES["alpha"])
    whole.score("random", one, number, OK, seconds=99.0, cosine=0.1)
    assert verify(whole.run).exit_code == EXIT_OK
    whole.score("random", one, number, OK, above=3)
    assert only(verify(whole.run), "scores") == Finding(
        name="random/alpha_i2i", verdict="MISMATCH", reason="metrics or ranks differ"
    )
    whole.layout.per_query("random", one.task).unlink()
    assert only(verify(whole.run), "scores").reason == "alpha_i2i.parquet is missing"
    whole.layout.score("random", one.task).unlink()
    assert only(verify(whole.run), "scores").verdict == "MISSING"
    folder_for_file(whole.layout.score("constant", one.task))
    assert findings(verify(whole.run), "scores")["constant/alpha_i2i"].verdict == "UNREADABLE"
    whole.score("random", one, 0, BLOCKED)
    assert findings(verify(whole.run), "scores")["random/alpha_i2i"].verdict == "MISSING"


def test_score_of_other_images_is_found_even_if_it_was_recorded(whole: Bench) -> None:
    path = whole.layout.score("random", "gamma_i2i")
    write_score(path, read_score(path).model_copy(update={"data_root": "0" * 64}))
    write_roots(whole.run)
    assert only(verify(whole.run), "scores").reason.startswith("withheld")
    path = whole.layout.score("random", "delta_i2i")
    write_score(path, read_score(path).model_copy(update={"data_root": "0" * 64}))
    write_roots(whole.run)
    found = findings(verify(whole.run), "scores")["random/delta_i2i"]
    assert found.reason == "was computed from other images than are recorded"


def test_store_that_lost_a_key(whole: Bench) -> None:
    for shard in (whole.layout.store("random")).rglob("*.safetensors"):
        shard.unlink()
    found = findings(verify(whole.run), "embedded inputs")
    assert found.keys() == {"random/alpha", "random/gamma", "random/delta"}
    assert found["random/alpha"].reason == "alpha.json counts 5 inputs, the tasks have 5, lacking 5 parts"


def test_things_that_are_not_recorded(whole: Bench) -> None:
    content = json.loads(roots_path(whole.layout).read_bytes())
    del content["scores"]["entries"]["random/alpha_i2i"], content["index"]["entries"]["alpha_i2i"]
    write_json(roots_path(whole.layout), content)
    verification = verify(whole.run)
    assert only(verification, "scores").verdict == "EXTRA"
    assert only(verification, "task JSONs").verdict == "EXTRA"


def test_one_source_only(recorded: Bench) -> None:
    recorded.image("a.png").write_bytes(b"")
    verification = verify(recorded.run, "delta")
    assert verification.exit_code == EXIT_OK
    assert [unit.name for unit in verification.units] == ["delta", "task JSONs", "scores", "audit folder"]
    assert unit(verification, "scores").counts == {"IDENTICAL": 2}
    with pytest.raises(MedhebError, match=r"source 'kvasir': is not part of this run.*alpha, beta, gamma, delta"):
        verify(recorded.run, "kvasir")


def test_gravest_verdict_decides_the_exit_code(recorded: Bench) -> None:
    recorded.image("x.png").write_bytes(b"x")
    assert verify(recorded.run).exit_code == EXIT_MISSING_OR_EXTRA
    recorded.image("a.png").write_bytes(b"")
    assert verify(recorded.run).exit_code == EXIT_UNREADABLE
    recorded.image("b.png").write_bytes(encode(pixels(7)))
    assert verify(recorded.run).exit_code == EXIT_MISMATCH
    roots_path(recorded.layout).unlink()
    assert verify(recorded.run).exit_code == EXIT_UNUSABLE


def test_another_machine_with_another_encoder_is_equivalent_as_a_whole(whole: Bench, tmp_path: Path) -> None:
    """The audit folder of one site holds for the results of another, whose PNG encoder differs."""
    other = Bench(tmp_path / "elsewhere")
    for name in ("alpha", "gamma", "delta"):
        other.build(name, level=1)
        other.evaluate(name)
    other.without_beta()
    shutil.copytree(whole.layout.audit, other.layout.audit)
    verification = verify(other.run)
    assert (verification.verdict, verification.exit_code) == ("EQUIVALENT", EXIT_OK)
    assert unit(verification, "alpha").counts == {"IDENTICAL": 1, "EQUIVALENT": 5}
    assert unit(verification, "gamma").verdict == "EQUIVALENT"
    assert unit(verification, "embedded inputs").verdict == "EQUIVALENT"
    assert unit(verification, "scores").verdict == "IDENTICAL"


def test_commands_print_text_and_json(whole: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    assert verify_command(whole.run, None, "L2") == EXIT_OK
    assert "Verdict on everything at level L2: IDENTICAL (exit code 0)" in capsys.readouterr().out
    whole.image("größe/Ω.png").unlink()
    assert verify_command(whole.run, "alpha", "L1", as_json=True) == EXIT_MISSING_OR_EXTRA
    printed = capsys.readouterr().out
    assert printed.isascii()
    parsed = Verification.model_validate_json(printed)
    assert only(parsed).name == "2D_Images/alpha/größe/Ω.png"
    assert (parsed.level, parsed.source, parsed.exit_code) == ("L1", "alpha", EXIT_MISSING_OR_EXTRA)


def test_terminal_without_unicode(whole: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    whole.image("größe/Ω.png").unlink()
    stream = BytesIO()
    monkeypatch.setattr(sys, "stdout", TextIOWrapper(stream, encoding="ascii"))
    assert verify_command(whole.run) == EXIT_MISSING_OR_EXTRA
    sys.stdout.flush()
    assert b"gr\\xf6\\xdfe/\\u03a9.png" in stream.getvalue()


def test_long_lists_are_cut_and_say_so(whole: Bench) -> None:
    for number in range(14):
        whole.image(f"extra{number:02}.png").write_bytes(b"x")
    whole.image("a.png").write_bytes(b"")
    text = as_text(verify(whole.run, "alpha"), names=3)
    assert "... and 12 more; --json names them all" in text
    assert text.index("UNREADABLE        2D_Images/alpha/a.png") < text.index(
        "EXTRA             2D_Images/alpha/extra00.png"
    )
