"""A large source: its shards are jobs of their own, and the build gathers what they made."""

from __future__ import annotations

import json
from pathlib import Path

import yaml
from tiny_benchmark import make_workspace, snakemake

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
