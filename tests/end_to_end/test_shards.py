"""A large source: its shards are jobs of their own, and the build gathers what they made."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from tiny_benchmark import make_workspace, snakemake

from medheb.cluster.sizes import embed_shards
from medheb.manifest.load import load_config, load_run

INVENTORY = "results/MedHEB/3D_Images/Person_X/person_x.inventory.json"


def test_shards_run_as_jobs_and_the_build_gathers_them(tmp_path: Path) -> None:
    folder = make_workspace(tmp_path / "run")
    manifest = next(folder.rglob("person_x.yaml"))
    manifest.write_text(yaml.safe_dump(yaml.safe_load(manifest.read_text()) | {"build_bytes": 100}))
    config = folder / "config" / "config.yaml"
    config.write_text(yaml.safe_dump(yaml.safe_load(config.read_text()) | {"build": {"shard_gigabytes": 5e-8}}))
    result = snakemake(folder, INVENTORY)
    assert result.returncode == 0, result.stdout + result.stderr
    receipts = [json.loads((folder / f"results/build/person_x/shard_{n}_of_2.json").read_text()) for n in (1, 2)]
    assert [receipt["units"] for receipt in receipts] == [1, 0]
    (log,) = (folder / "results/logs/build/3D_Images/Person_X").glob("*.log")
    assert "1 of 1 units are there already" in log.read_text()
    assert json.loads((folder / INVENTORY).read_text())["count"] == receipts[0]["files"]


def test_a_large_group_is_embedded_by_several_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_workspace(tmp_path / "run")
    models = next(folder.rglob("models.yaml"))
    content = yaml.safe_load(models.read_text())
    (slow,) = [model for model in content["models"] if model["id"] == "random"]
    slow["facts"] = {"gpu_seconds": {"per_1000": 1000, "unit": "images"}}
    models.write_text(yaml.safe_dump(content))
    config = folder / "config" / "config.yaml"
    settings = {"embed": {"job_minutes": 6, "shard_inputs": 1}}
    config.write_text(yaml.safe_dump(yaml.safe_load(config.read_text()) | settings))
    receipt = "results/embeddings/random/person_x.json"
    monkeypatch.chdir(folder)
    parts = embed_shards(load_run(load_config([config])), "random", "person_x")
    assert parts == 3, "1,000 pictures at a second each"
    result = snakemake(folder, receipt)
    assert result.returncode == 0, result.stdout + result.stderr
    whole = json.loads((folder / receipt).read_text())
    shards = [json.loads(path.read_text()) for path in (folder / "results/embeddings/random/shards").rglob("*.json")]
    assert len(shards) == parts
    assert whole["status"]["state"] == "ok"
    assert whole["computed"] == sum(shard["computed"] for shard in shards) == whole["parts"] > 1
