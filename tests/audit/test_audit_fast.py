"""A fast check: roots, sizes and a sample; what it did not read is counted, never called identical."""

from __future__ import annotations

import pytest
from audit_bench import A, Bench, encode, findings, only, pixels, unit

from medheb.audit import sample
from medheb.audit.commands import verify_command
from medheb.audit.present import as_text
from medheb.audit.verdicts import EXIT_MISMATCH, EXIT_OK
from medheb.audit.verify import verify


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two files of a source are read."""
    monkeypatch.setattr(sample, "SAMPLE", 2)


@pytest.mark.usefixtures("two")
def test_what_was_not_read_is_counted(whole: Bench) -> None:
    verification = verify(whole.run, sample_seed=3)
    assert (verification.verdict, verification.exit_code, verification.sample_seed) == ("IDENTICAL", EXIT_OK, 3)
    assert (unit(verification, "alpha").counts, unit(verification, "alpha").unread) == ({"IDENTICAL": 2}, 4)
    assert (unit(verification, "gamma").counts, unit(verification, "gamma").unread) == ({"IDENTICAL": 2}, 0)
    assert verification.skipped == ("embedded inputs", "origin of scores")
    text = as_text(verification)
    assert "4 more files have the recorded size; their content was not read" in text
    assert "Fast check, --seed 3" in text


@pytest.mark.usefixtures("two")
def test_the_seed_chooses_the_sample(whole: Bench) -> None:
    whole.image("a.png").write_bytes(flipped(whole.image("a.png").read_bytes()))
    found = [unit(verify(whole.run, sample_seed=seed), "alpha").verdict for seed in range(12)]
    assert found == [unit(verify(whole.run, sample_seed=seed), "alpha").verdict for seed in range(12)]
    assert set(found) == {"IDENTICAL", "UNREADABLE"}, "one of six files, two are read"


def flipped(content: bytes) -> bytes:
    """The same size, another byte."""
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


@pytest.mark.usefixtures("two")
def test_another_size_is_always_read(whole: Bench) -> None:
    whole.image("a.png").write_bytes(encode(pixels(77)[:20]))
    whole.image("notes.json").write_text('{ "a": [1,2], "b": 1}\n')
    for seed in range(4):
        found = findings(verify(whole.run, sample_seed=seed))
        assert (found[A].verdict, found["2D_Images/alpha/notes.json"].verdict) == ("MISMATCH", "EQUIVALENT")


@pytest.mark.usefixtures("two")
def test_missing_extra_and_edited_records_are_found(whole: Bench) -> None:
    whole.image("a.png").unlink()
    whole.image("extra.png").write_bytes(b"x")
    task = whole.layout.task_index(whole.run.tasks["alpha_i2i"].index)
    task.write_text("[]")
    whole.layout.score("random", "delta_i2i").unlink()
    verification = verify(whole.run, sample_seed=1)
    assert {name: found.verdict for name, found in findings(verification).items()} == {
        A: "MISSING",
        "2D_Images/alpha/extra.png": "EXTRA",
    }
    assert only(verification, "task JSONs").verdict == "MISMATCH"
    assert only(verification, "scores").verdict == "MISSING"
    assert verification.exit_code == EXIT_MISMATCH


def test_an_unguessable_seed_is_drawn_and_told(whole: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    seeds = set()
    for _ in range(2):
        assert verify_command(whole.run, "delta", fast=True) == EXIT_OK
        seeds.add(capsys.readouterr().out.partition("--seed ")[2].partition(":")[0])
    assert len(seeds) == 2
    assert all(seed.isdigit() for seed in seeds)
