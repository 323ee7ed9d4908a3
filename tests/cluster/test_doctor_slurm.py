"""`medheb doctor --slurm` against a real Slurm: probes run, and each refusal points to the line to change."""

from __future__ import annotations

from pathlib import Path

import pytest
from cluster_bench import Bench
from throwaway_slurm import call
from tiny_benchmark import medheb

from medheb.fetch.doctor import Check, Diagnosis

GOOD = """\
partitions:
  cpu: {hours: 24, cores: 8, memory_gb: 16}
  gpu: {hours: 12, cores: 4, memory_gb: 16, gpus: 2}
"""


def diagnose(bench: Bench, description: str) -> tuple[dict[str, Check], Path]:
    path = bench.folder / "my_cluster.yaml"
    path.write_text(description)
    assert medheb(bench.folder, "cluster", "apply", path.name).returncode == 0
    result = medheb(bench.folder, "doctor", "--slurm", "--cluster", path.name, "--minutes", "2", "--json")
    diagnosis = Diagnosis.model_validate_json(result.stdout)
    assert result.returncode == (0 if diagnosis.ok else 1)
    return {check.about: check for check in diagnosis.checks}, path


def test_probes_run_in_each_partition_and_tell_which_gpu_they_were_granted(bench: Bench) -> None:
    checks, _ = diagnose(bench, GOOD)
    assert checks["a job without GPU in cpu"].ok
    assert checks["a job with GPU in gpu"].ok
    assert checks["a probe in cpu"].found.startswith("ran on cpu1: medheb ")
    assert checks["a probe in gpu"].found.startswith("ran on gpu")
    (gpu,) = [check for about, check in checks.items() if about.startswith("GPU of gpu")]
    assert gpu.found.startswith("granted: 0"), "a device of Slurm's"
    assert [check.about for check in checks.values() if not check.ok] in ([], [gpu.about]), "no real GPU is here"


@pytest.mark.parametrize(
    ("change", "about", "found", "remedy"),
    [
        (("  cpu:", "  cpus:"), "a job without GPU in cpus", "Invalid partition name", "line 2 (partitions.cpus)"),
        (
            ("hours: 12", "hours: 99"),
            "partition gpu",
            "hours is 99, the cluster gives 12",
            "line 3 (partitions.gpu.hours)",
        ),
        (
            ("8, memory_gb: 16", "8, memory_gb: 99"),
            "partition cpu",
            "memory_gb is 99",
            "line 2 (partitions.cpu.memory_gb)",
        ),
        (("gpus: 2", "gpus: 8"), "partition gpu", "gpus is 8, the cluster gives 2", "line 3 (partitions.gpu.gpus)"),
        (("2}\n", "2}\ngpu:\n  type: b200\n"), "a job with GPU in gpu", "not available", "line 5 (gpu.type)"),
        (("2}\n", "2}\ngpu:\n  constraint: b200\n"), "a job with GPU in gpu", "feature", "line 5 (gpu.constraint)"),
        (("2}\n", "2}\nsbatch_options: --nicer\n"), "a job without GPU in cpu", "--nicer", "line 4 (sbatch_options)"),
        (("2}\n", "2}\nfetch: wan\n"), "a download in wan", "Invalid partition name", "line 4 (fetch)"),
        (("2}\n", "2}\naccount: nobodys\n"), "account", "nobodys", "line 4 (account)"),
    ],
    ids=["partition", "hours", "memory", "gpus", "type", "constraint", "option", "fetch", "account"],
)
def test_a_refusal_points_to_the_line_to_change(
    bench: Bench, change: tuple[str, str], about: str, found: str, remedy: str
) -> None:
    checks, path = diagnose(bench, GOOD.replace(*change))
    assert not checks[about].ok
    assert found in checks[about].found
    assert f"{path.name} {remedy}" in checks[about].remedy
    assert checks["probes"].found == "not sent, before the above is mended"


def test_a_probe_that_cannot_start_is_cancelled_and_said_to_wait(bench: Bench) -> None:
    call("scontrol", "update", "nodename=cpu1", "state=drain", "reason=test")
    try:
        path = bench.folder / "my_cluster.yaml"
        path.write_text(GOOD)
        result = medheb(bench.folder, "doctor", "--slurm", "--cluster", path.name, "--minutes", "0.1", "--json")
        checks = {check.about: check for check in Diagnosis.model_validate_json(result.stdout).checks}
        wrong = checks.get("a probe in cpu") or checks["a job without GPU in cpu"]
        assert not wrong.ok
        assert call("squeue", "--noheader").strip() == ""
    finally:
        call("scontrol", "update", "nodename=cpu1", "state=resume")
