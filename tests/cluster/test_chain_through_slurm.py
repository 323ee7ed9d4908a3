"""The chain on a real Slurm gives what it gives on one machine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from cluster_bench import Bench, change, scores
from throwaway_slurm import Cluster
from tiny_benchmark import copy_workspace, roots, snakemake
from two_demos import ELSEWHERE, assert_audits_agree, assert_same_results, second_workspace

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
def test_the_demo_through_slurm_is_the_demo_without_it(
    cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Real pictures, real small models, GPU jobs; another locale, zone, hash seed and umask than the first."""
    usual = os.umask(0o077)  # Slurm's jobs have that of their sender
    folder = second_workspace(tmp_path_factory.mktemp("demo") / "run")
    bench = Bench(folder, environment=dict(ELSEWHERE))
    try:
        assert apply(bench, "gpus") == 0
        assert bench.run("all", "--configfile", "config/demo.yaml", seconds=3000) == 0, bench.log()[-5000:]
        assert_same_results(folder)
        assert_audits_agree(folder)
        gpu = [job for job in bench.jobs("embed_inputs") if job.partition == "gpu"]
        assert gpu, "models ask for GPUs"
        assert all("random" not in job.work and "constant" not in job.work for job in gpu), "canaries do not"
        table = folder / "results" / "demo" / "audit" / "roots.json"
        assert table.stat().st_mode & 0o077 == 0, "jobs had another umask"
    finally:
        os.umask(usual)
        bench.end()
