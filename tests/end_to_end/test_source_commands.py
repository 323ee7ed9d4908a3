"""Commands about sources, as users type them, and the lock as an input of the workflow."""

import json
import re
from pathlib import Path

import pytest
import yaml
from tiny_benchmark import make_workspace, medheb, snakemake

from medheb.fetch.lock import LockedFile, make_lock
from medheb.fetch.plan import Plan
from medheb.manifest.load import load_dataset


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """Nothing is accepted yet."""
    folder = make_workspace(tmp_path / "run")
    config = folder / "config" / "config.yaml"
    config.write_text(config.read_text().replace("accept: open", "accept: asked"))
    return folder


def planned(folder: Path) -> dict[str, int]:
    """Jobs by rule that a dry run lists."""
    result = snakemake(folder, "all", "-n", "--quiet", "rules")
    assert result.returncode == 0, result.stderr
    found = re.findall(r"^(\w+)\s+(\d+)$", result.stdout + result.stderr, flags=re.MULTILINE)
    return {rule: int(count) for rule, count in found if rule not in {"total", "all"}}


def write_lock(folder: Path, digest: str) -> Path:
    """As `medheb refresh codes` writes it."""
    dataset = load_dataset(folder / "manifests" / "tiny" / "datasets" / "codes.yaml")
    lock = make_lock(dataset, [LockedFile(path="codes.xml", bytes=1, sha256=digest, md5=None)], "2026-11-30")
    path = folder / "manifests" / "tiny" / "locks" / "codes.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(lock.model_dump(mode="json")))
    return path


def test_a_source_is_blocked_until_its_terms_are_accepted(workspace: Path) -> None:
    status = workspace / "results" / "sources" / "codes" / "status.json"
    refused = medheb(workspace, "fetch", "codes")
    assert refused.returncode == 0, refused.stderr
    assert json.loads(status.read_text())["state"] == "blocked"
    assert "medheb accept codes" in refused.stderr
    shown = medheb(workspace, "accept", "codes")
    assert shown.returncode == 1
    assert "CC0-1.0" in shown.stdout
    assert "no terminal to ask on" in shown.stderr
    accepted = medheb(workspace, "accept", "codes", "--yes")
    assert accepted.returncode == 0, accepted.stderr
    assert "accepted by" in accepted.stdout
    assert medheb(workspace, "fetch", "codes").returncode == 0
    assert json.loads(status.read_text())["state"] == "ok"


def test_accept_takes_a_file_and_refuses_nothing_at_all(workspace: Path) -> None:
    nothing = medheb(workspace, "accept")
    assert nothing.returncode == 1
    assert "neither a source nor --file" in nothing.stderr
    digest = re.search(r"digest  (\w{12})", medheb(workspace, "accept", "codes").stdout)
    assert digest
    decisions = workspace / "decisions.yaml"
    decisions.write_text(yaml.safe_dump({"who": "night run", "accept": {"codes": digest.group(1)}}))
    assert medheb(workspace, "accept", "--file", str(decisions)).returncode == 0
    record = json.loads((workspace / "results" / "sources" / "accepted" / "codes.json").read_text())
    assert (record["who"], record["dataset"]) == ("night run", "codes")


def test_plan_prints_a_table_and_valid_json(workspace: Path) -> None:
    table = medheb(workspace, "plan")
    assert table.returncode == 0, table.stderr
    for source in ("person_x", "person_y", "codes"):
        assert f"medheb accept {source}" in table.stdout
    made = Plan.model_validate_json(medheb(workspace, "--set", "accept=open", "plan", "--json").stdout)
    assert {source.state for source in made.sources} == {"ready"}
    size = (workspace / "shelf" / "tinydata-1.0-py3-none-any.whl").stat().st_size
    assert made.ready.remaining_bytes == size, "one wheel serves all three"


def test_the_full_benchmark_is_meant_where_nothing_else_is_said(workspace: Path) -> None:
    (workspace / "config" / "full.yaml").write_text("accept: open\npaths: {sources: elsewhere}\n")
    whole = Plan.model_validate_json(medheb(workspace, "plan", "--json").stdout)
    assert {source.state for source in whole.sources} == {"ready"}
    named = Plan.model_validate_json(medheb(workspace, "--config", "config/config.yaml", "plan", "--json").stdout)
    assert {source.state for source in named.sources} == {"blocked"}


def test_disk_that_is_too_small_stops_plan_and_run(workspace: Path) -> None:
    manifest = workspace / "manifests" / "tiny" / "datasets" / "person_y.yaml"
    manifest.write_text(yaml.safe_dump({**yaml.safe_load(manifest.read_text()), "disk_bytes": 10**18}))
    medheb(workspace, "accept", "person_y", "--yes")
    for command in (["plan"], ["run"]):
        result = medheb(workspace, *command)
        assert result.returncode == 1
        assert "source person_y: does not fit into" in result.stderr
    assert not (workspace / "results" / "scores").exists()


def test_doctor_tells_what_is_wrong_with_the_named_source(workspace: Path) -> None:
    result = medheb(workspace, "doctor", "codes", "--json")
    assert result.returncode == 1
    wrong = [check for check in json.loads(result.stdout)["checks"] if check["topic"] == "terms"]
    assert [(check["about"], check["ok"]) for check in wrong] == [("codes", False)]
    assert "something is wrong" in medheb(workspace, "doctor", "codes").stdout


def test_refresh_and_verify_copy_refuse_what_cannot_be(workspace: Path) -> None:
    assert "one version of a package cannot change" in medheb(workspace, "refresh", "codes").stderr
    assert "is not part of this run" in medheb(workspace, "refresh", "zzz").stderr
    result = medheb(workspace, "verify-copy", "codes")
    assert result.returncode == 1
    assert "local copy of codes" in result.stderr


def test_a_lock_makes_exactly_its_source_stale(run: Path) -> None:
    assert planned(run) == {}
    path = write_lock(run, "a" * 64)
    first = planned(run)
    assert first["fetch_source"] == 1
    assert "fetch_model" not in first
    listed = snakemake(run, "all", "-n").stdout
    assert "medheb fetch codes" in listed or "dataset=codes" in listed
    assert "dataset=person_x" not in re.findall(r"rule fetch_source:.*?(?=\n\n)", listed, flags=re.DOTALL)[0]
    assert snakemake(run, "all").returncode == 0
    assert planned(run) == {}
    # The same content, newer: nothing. Other content: this source again.
    path.write_text(path.read_text())
    assert planned(run) == {}
    write_lock(run, "b" * 64)
    assert planned(run)["fetch_source"] == 1
