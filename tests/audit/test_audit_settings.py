"""Recipe options and switches that were changed after a source was built."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from audit_bench import OK, PICTURES, Bench, edit, findings, only, unit, write_roots
from make_stacks import mrnet
from making import built

from medheb.audit.compare import compare
from medheb.audit.record import record_digests
from medheb.audit.verdicts import EXIT_MISMATCH, EXIT_OK
from medheb.audit.verify import verify
from medheb.build.inventory import read_header, read_inventory, write_inventory
from medheb.build.settings import other_settings, settings_of
from medheb.manifest.load import load_dataset

MANIFEST = Path(__file__).resolve().parents[2] / "manifests" / "datasets" / "mrnet.yaml"


def change(bench: Bench, source: str, **options: Any) -> None:
    """Edit the options of a recipe in the manifest."""
    manifest = bench.run.datasets[source]
    recipe = manifest.recipe.model_copy(update={"options": options})
    bench.run.datasets[source] = manifest.model_copy(update={"recipe": recipe})


@pytest.mark.parametrize("source", ["alpha", "gamma"])
def test_options_edited_after_the_build_are_named(whole: Bench, source: str) -> None:
    assert verify(whole.run).exit_code == EXIT_OK
    change(whole, source, side=224, splits=["test"])
    for seed in (None, 1):
        verification = verify(whole.run, sample_seed=seed)
        found = only(verification, "audit folder")
        assert (found.name, verification.exit_code) == (f"{source}/digests.json", EXIT_MISMATCH)
        assert "another option side, option splits than it was built with" in found.reason
        assert f"snakemake dataset_{source}" in found.reason


def test_recording_again_does_not_hide_it(whole: Bench) -> None:
    """What a build noted is recorded, not what the manifest says when somebody records."""
    change(whole, "alpha", side=224)
    record_digests(whole.run, "alpha")
    write_roots(whole.run)
    assert "another option side" in only(verify(whole.run), "audit folder").reason
    whole.inventory("alpha", [*PICTURES["alpha"], "notes.json"], OK)
    found = findings(verify(whole.run), "audit folder")
    assert found["2D_Images/alpha/alpha.inventory.json"].verdict == "MISMATCH", "built again, the record is older"
    record_digests(whole.run, "alpha")
    write_roots(whole.run)
    assert verify(whole.run).exit_code == EXIT_OK


def test_two_audit_folders_name_the_settings(whole: Bench, tmp_path: Path) -> None:
    before = Path(whole.layout.audit.rename(tmp_path / "before"))
    for source in ("alpha", "gamma", "delta"):
        change(whole, source, side=224)
        whole.inventory(source, [*PICTURES[source], *(["notes.json"] if source == "alpha" else [])], OK)
        record_digests(whole.run, source)
    write_roots(whole.run)
    found = compare(before, whole.layout.audit)
    for source in ("alpha", "gamma"):
        assert "made with other settings: option side" in unit(found, source).reason


def test_a_build_notes_its_settings(tmp_path: Path) -> None:
    mrnet(tmp_path / "in", ["1130"])
    noted = {}
    for protocol in ("release", "corrected"):
        built("mrnet", tmp_path / "in", tmp_path / protocol, protocol, options={"splits": {"valid": "test"}})  # type: ignore[arg-type]
        noted[protocol] = read_header(tmp_path / protocol / "3D_Images" / "MRNet" / "mrnet.inventory.json").settings
    assert other_settings(noted["release"], noted["corrected"]) == ["protocol"]
    as_published = settings_of(load_dataset(MANIFEST), "corrected", "cone").named
    assert other_settings(noted["corrected"], as_published) == ["option splits"]


def test_training_counts_only_where_both_know_it() -> None:
    dataset = next(one for one in _datasets() if one.training)
    known = [settings_of(dataset, "corrected", "cone", training) for training in (None, False, True)]
    unknown, without, with_it = (settings.named for settings in known)
    assert other_settings(without, with_it) == ["training"]
    assert other_settings(unknown, with_it) == other_settings(without, unknown) == []
    assert known[0].digest == known[1].digest != known[2].digest


def _datasets() -> list[Any]:
    return [load_dataset(path) for path in sorted(MANIFEST.parent.glob("*.yaml"))]


def test_an_inventory_that_notes_no_settings_is_in_order(whole: Bench) -> None:
    path = whole.layout.inventory("2D_Images/alpha", "alpha")
    write_inventory(path, read_inventory(path).model_copy(update={"settings": {}}))
    record_digests(whole.run, "alpha")
    write_roots(whole.run)
    change(whole, "alpha", side=224)
    assert verify(whole.run).exit_code == EXIT_OK


def test_evaluation_that_was_configured_otherwise_afterwards_is_named(whole: Bench) -> None:
    run = whole.run
    assert verify(run).exit_code == EXIT_OK
    protocol = run.protocol.model_copy(update={"name": "another"})
    others = replace(run, config=run.config.model_copy(update={"seed": 7}), protocol=protocol)
    verification = verify(others)
    found = only(verification, "audit folder")
    assert (found.name, found.verdict, verification.exit_code) == ("provenance.json", "MISMATCH", EXIT_MISMATCH)
    assert (
        "another protocol (scores/random/alpha_i2i), protocol_digest (scores/random/alpha_i2i), seed (" in found.reason
    )


@pytest.mark.parametrize("source", ["alpha", "gamma"])
def test_unpack_rules_and_task_rows_edited_by_hand_are_named(whole: Bench, source: str) -> None:
    manifest, task = whole.run.datasets[source], whole.run.tasks[f"{source}_i2i"]
    unpack = manifest.unpack.model_copy(update={"include": ("other/*",)})
    whole.run.datasets[source] = manifest.model_copy(update={"unpack": unpack})
    whole.run.tasks[task.task] = task.model_copy(update={"qry_inst": "Find another picture."})
    found = only(verify(whole.run), "audit folder")
    assert (found.name, found.verdict) == ("provenance.json", "MISMATCH")
    assert f"row_digest (index/{source}_i2i), unpack_digest (archives/{source}) than it states" in found.reason


def test_parameters_edited_in_the_record_are_named(whole: Bench) -> None:
    edit(whole.layout.audit / "provenance.json", '"bootstrap_resamples": 2000', '"bootstrap_resamples": 200')
    found = only(verify(whole.run), "audit folder")
    assert (found.name, found.verdict) == ("provenance.json", "MISMATCH")
    assert "another bootstrap_resamples (scores/" in found.reason
