"""The chain on a real Slurm gives what it gives on one machine."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from cluster_bench import Bench, change, scores
from throwaway_slurm import Cluster
from tiny_benchmark import ROOT, copy_workspace, roots, snakemake

from conftest import apply

CHAIN = {"datasets": ["person_x", "codes"]}


def test_through_slurm_the_roots_and_scores_are_those_of_a_local_run(
    bench: Bench, fetched: Path, tmp_path: Path
) -> None:
    local = copy_workspace(fetched, tmp_path / "local")
    for folder in (local, bench.folder):
        change(folder, **CHAIN)
    assert bench.run("all") == 0, bench.log()[-5000:]
    result = snakemake(local, "all")
    assert result.returncode == 0, result.stderr
    assert roots(bench.folder) == roots(local)
    assert len(scores(local / "results")) == 4
    assert scores(bench.folder / "results") == scores(local / "results")
    assert {job.state for job in bench.jobs()} == {"COMPLETED"}
    works = [job.work for job in bench.jobs()]
    assert len(set(works)) == len(works), "a job was submitted twice"


@pytest.mark.slow
def test_the_demo_through_slurm_has_the_roots_that_every_machine_must_get(
    cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Real pictures, real small models, GPU jobs; held against the expectations of the repository."""
    folder = tmp_path_factory.mktemp("demo") / "run"
    folder.mkdir()
    for name in ("Snakefile", "workflow", "profiles", "envs", "manifests"):
        (folder / name).symlink_to(ROOT / name)
    for name in ("config", "slurm"):
        shutil.copytree(ROOT / name, folder / name)
    local = ROOT / "results" / "demo"
    if (local / "sources").is_dir():  # spare the second download; everything else is made anew
        shutil.copytree(local / "sources", folder / "results" / "demo" / "sources")
    demo = ("--config", "config/config.yaml", "--config", "config/demo.yaml")
    bench = Bench(folder, environment=dict(os.environ))
    try:
        assert apply(bench, "gpus") == 0
        assert bench.run("all", "--configfile", "config/demo.yaml", seconds=1800) == 0, bench.log()[-5000:]
        assert bench.run(*demo, "audit", "expect", command=("medheb",)) == 0, bench.log()[-5000:]
        gpu = [job for job in bench.jobs("embed_inputs") if job.partition == "gpu"]
        assert gpu, "models ask for GPUs"
        assert all("random" not in job.work and "constant" not in job.work for job in gpu), "canaries do not"
        if (local / "scores").is_dir():
            assert scores(folder / "results" / "demo") == scores(local)
    finally:
        bench.end()
