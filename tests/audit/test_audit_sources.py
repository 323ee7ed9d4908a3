"""Sources that were not built or must not be shown, and inventories."""

from __future__ import annotations

import json
import shutil

import pytest
from audit_bench import (
    FOLDERS,
    OK,
    PICTURES,
    SECRETS,
    Bench,
    encode,
    findings,
    only,
    pixels,
    unit,
)

from medheb.audit.present import as_text
from medheb.audit.record import record_digests
from medheb.audit.verdicts import (
    EXIT_NOT_BUILT,
    CheckedLevel,
    Finding,
)
from medheb.audit.verify import verify
from medheb.build.inventory import read_inventory, write_inventory
from medheb.core.errors import MedhebError


def test_blocked_source_is_not_built_with_its_reason(recorded: Bench) -> None:
    verification = verify(recorded.run)
    assert (verification.verdict, verification.exit_code) == ("NOT-BUILT", EXIT_NOT_BUILT)
    assert only(verification, "beta") == Finding(name="beta", verdict="NOT-BUILT", reason="index: no network")
    assert findings(verification, "scores")["random/beta_i2i"].reason == "index: no network"
    assert findings(verification, "task JSONs")["2D_Task/beta/beta_i2i.json"].verdict == "NOT-BUILT"
    assert "index: no network" in as_text(verification)


def test_files_of_a_source_that_was_not_built_are_extra(recorded: Bench) -> None:
    recorded.image("x.png", "beta").write_bytes(encode(pixels(1)))
    found = findings(verify(recorded.run), "beta")
    assert found["2D_Images/beta/x.png"].verdict == "EXTRA"
    assert found["beta"].verdict == "NOT-BUILT"


def test_source_built_after_the_record_contradicts_it(recorded: Bench) -> None:
    recorded.image("x.png", "beta").write_bytes(encode(pixels(1)))
    recorded.inventory("beta", ["x.png"], OK)
    found = findings(verify(recorded.run), "audit folder")
    assert found["2D_Images/beta/beta.inventory.json"].verdict == "MISMATCH"


@pytest.mark.parametrize("level", ["L1", "L2"])
def test_restricted_source_shows_counts_only(whole: Bench, level: CheckedLevel) -> None:
    whole.image(PICTURES["gamma"][0], "gamma").write_bytes(encode(pixels(1)))
    whole.image("p10/p10000032_extra.png", "gamma").write_bytes(b"x")
    path = whole.layout.task_index(whole.run.tasks["gamma_i2i"].index)
    path.write_text(path.read_text().replace(SECRETS[-1], "p10000032 fell"))
    whole.layout.score("random", "gamma_i2i").write_text(json.dumps({"p10000032": 1}))
    verification = verify(whole.run, level=level)
    assert unit(verification, "gamma").counts == {"IDENTICAL": 1, "MISMATCH": 1, "EXTRA": 1}
    assert unit(verification, "gamma").findings == ()
    assert findings(verification, "task JSONs")["gamma_i2i"].verdict == "MISMATCH"
    assert findings(verification, "scores")["random/gamma_i2i"].verdict == "UNREADABLE"
    for text in (as_text(verification), verification.model_dump_json()):
        assert not any(secret in text for secret in (*SECRETS, "p10/", "2D_Task/gamma", "2D_Images/gamma"))


def test_restricted_source_without_its_inventory_is_judged_by_its_roots(whole: Bench) -> None:
    inventory = whole.layout.inventory(FOLDERS["gamma"], "gamma")
    inventory.unlink()
    assert unit(verify(whole.run), "gamma").verdict == "IDENTICAL"
    first = whole.image(PICTURES["gamma"][0], "gamma")
    first.write_bytes(encode(pixels(100 * ord("g")), 1))
    assert unit(verify(whole.run), "gamma").verdict == "EQUIVALENT"
    assert unit(verify(whole.run, level="L1"), "gamma").verdict == "MISMATCH"
    first.write_bytes(encode(pixels(5)))
    assert unit(verify(whole.run), "gamma").verdict == "MISMATCH"
    first.write_bytes(b"")
    assert unit(verify(whole.run), "gamma").verdict == "UNREADABLE"
    shutil.rmtree(whole.layout.benchmark / FOLDERS["gamma"])
    assert unit(verify(whole.run), "gamma").verdict == "MISMATCH"
    assert "2 files recorded, 0 here" in unit(verify(whole.run), "gamma").reason


def test_restricted_inventory_edited_to_fit_a_changed_file_is_not_believed(whole: Bench) -> None:
    whole.image(PICTURES["gamma"][0], "gamma").write_bytes(encode(pixels(5)))
    whole.inventory("gamma", PICTURES["gamma"], OK)
    verification = verify(whole.run)
    assert unit(verification, "gamma").verdict == "MISMATCH"
    assert findings(verification, "audit folder")["inventory of gamma"].verdict == "MISMATCH"


def test_extra_file_beside_a_restricted_source_is_not_named(whole: Bench) -> None:
    whole.run.datasets["gamma"] = whole.run.datasets["gamma"].model_copy(update={"images": FOLDERS["alpha"]})
    whole.image("p10000032.png").write_bytes(b"x")
    verification = verify(whole.run, "alpha")
    assert unit(verification, "alpha").counts == {"IDENTICAL": 6, "EXTRA": 1}
    assert "p10000032" not in as_text(verification) + verification.model_dump_json()
    with pytest.raises(MedhebError, match="source alpha: 1 files differ") as caught:
        record_digests(whole.run, "alpha")
    assert "p10000032" not in str(caught.value)


def test_the_inventory_is_no_built_file_but_must_not_contradict(whole: Bench) -> None:
    path = whole.layout.inventory(FOLDERS["delta"], "delta")
    inventory = read_inventory(path)
    write_inventory(path, inventory.model_copy(update={"files": inventory.files[:1]}))
    verification = verify(whole.run, "delta")
    assert unit(verification, "delta").verdict == "IDENTICAL"
    assert findings(verification, "audit folder")["2D_Images/alpha/delta.inventory.json"].verdict == "MISMATCH"
    path.write_text("{")
    assert findings(verify(whole.run, "delta"), "audit folder").keys() == {"2D_Images/alpha/delta.inventory.json"}
    path.unlink()
    assert unit(verify(whole.run, "delta"), "audit folder").verdict == "IDENTICAL"
