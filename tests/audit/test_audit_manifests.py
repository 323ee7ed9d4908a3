"""What manifests and descriptions say against the record: archives without fetched files, recipes, provenance."""

from __future__ import annotations

from pathlib import Path

import pytest
from audit_bench import Bench, Told, edit, findings, only, write_roots

from medheb.audit.provenance import provenance_path, write_provenance
from medheb.audit.record import record_digests
from medheb.audit.schema import environment_path, read_roots, record_path, roots_path
from medheb.audit.verdicts import EXIT_MISMATCH, EXIT_MISSING_OR_EXTRA, EXIT_OK, EXIT_UNUSABLE
from medheb.audit.verify import verify
from medheb.fetch.complete import Complete, write_complete


def fetched(bench: Bench, name: str) -> Path:
    """Leave the marker of fetch behind for a source whose manifest pins no digest, and record it."""
    manifest = bench.run.datasets[name]
    host = manifest.host
    write_complete(
        marker := bench.layout.sources / name / "COMPLETE.json",
        Complete(host=host, served_by=host, archives=manifest.files, unpack=manifest.unpack, root="", members=()),
    )
    pin(bench, name, None)
    record_digests(bench.run, name)
    write_roots(bench.run)
    return marker


def pin(bench: Bench, name: str, digest: str | None) -> None:
    """Edit the manifest of a source by hand."""
    manifest = bench.run.datasets[name]
    file = manifest.files[0].model_copy(update={"sha256": digest})
    bench.run.datasets[name] = manifest.model_copy(update={"files": (file,)})


@pytest.mark.parametrize("name", ["alpha", "gamma"])
def test_audit_without_fetched_files_holds_against_the_manifest_what_it_pins(whole: Bench, name: str) -> None:
    right = whole.run.datasets[name].files[0].sha256
    marker = fetched(whole, name)
    assert verify(whole.run).exit_code == EXIT_OK
    marker.unlink()
    assert verify(whole.run).exit_code == EXIT_OK, "nothing was pinned"
    pin(whole, name, right)
    assert verify(whole.run).exit_code == EXIT_OK
    pin(whole, name, "0" * 64)
    assert "other archives than were recorded (L0)" in only(verify(whole.run), "audit folder").reason


def test_archive_more_or_less_in_the_manifest_is_found(whole: Bench) -> None:
    fetched(whole, "alpha").unlink()
    manifest = whole.run.datasets["alpha"]
    second = manifest.files[0].model_copy(update={"path": "second.whl"})
    for files in ((*manifest.files, second), (second,)):
        whole.run.datasets["alpha"] = manifest.model_copy(update={"files": files})
        assert "(L0)" in only(verify(whole.run), "audit folder").reason


@pytest.mark.parametrize("change", [{"version": 7}, {"name": "volumes"}], ids=["version", "name"])
def test_other_recipe_in_the_manifest_is_found_by_a_fast_check_too(whole: Bench, change: dict[str, object]) -> None:
    manifest = whole.run.datasets["alpha"]
    recipe = manifest.recipe.model_copy(update=change)
    whole.run.datasets["alpha"] = manifest.model_copy(update={"recipe": recipe})
    verification = verify(whole.run, sample_seed=1)
    assert verification.exit_code == EXIT_MISMATCH
    assert f"the manifest names recipe {recipe.name} {recipe.version}" in only(verification, "audit folder").reason


def test_other_image_folder_in_the_record_is_found(whole: Bench) -> None:
    edit(record_path(whole.layout, "alpha"), '"images": "2D_Images/alpha"', '"images": "2D_Images"')
    reason = only(verify(whole.run), "audit folder").reason
    assert "about image folder 2D_Images, the manifest names 2D_Images/alpha" in reason


@pytest.mark.parametrize("place", [provenance_path, environment_path], ids=["provenance", "environment"])
@pytest.mark.parametrize("text", ["", "{", "[]", "[" * 100_000], ids=["empty", "cut", "list", "deep"])
def test_damaged_description_is_found(whole: Bench, place: object, text: str) -> None:
    write_provenance(whole.run, read_roots(roots_path(whole.layout)), Told())
    path = place(whole.layout)  # type: ignore[operator]
    path.write_text(text)
    verification = verify(whole.run)
    assert (only(verification, "audit folder").name, verification.exit_code) == (path.name, EXIT_UNUSABLE)


@pytest.mark.parametrize("place", [provenance_path, environment_path], ids=["provenance", "environment"])
def test_missing_description_is_found(whole: Bench, place: object) -> None:
    path = place(whole.layout)  # type: ignore[operator]
    path.unlink()
    verification = verify(whole.run)
    found = only(verification, "audit folder")
    assert (found.name, found.verdict, verification.exit_code) == (path.name, "MISSING", EXIT_UNUSABLE)


def test_provenance_that_states_other_digests_is_found(whole: Bench) -> None:
    write_provenance(whole.run, roots := read_roots(roots_path(whole.layout)), Told())
    assert verify(whole.run).exit_code == EXIT_OK
    edit(provenance_path(whole.layout), roots.sources["gamma"].roots["L2"], "0" * 64)
    found = findings(verify(whole.run), "audit folder")
    assert {name: finding.verdict for name, finding in found.items()} == {"provenance.json": "MISMATCH"}


def test_leftovers_in_the_audit_folder_are_extra(whole: Bench) -> None:
    names = ("gamma/SHA256SUMS", "alpha/old/list.txt", "notes.txt")
    for name in names:
        (whole.layout.audit / name).parent.mkdir(exist_ok=True)
        (whole.layout.audit / name).write_text("x")
    verification = verify(whole.run)
    found = findings(verification, "audit folder")
    assert {name: finding.verdict for name, finding in found.items()} == dict.fromkeys(names, "EXTRA")
    assert verification.exit_code == EXIT_MISSING_OR_EXTRA
