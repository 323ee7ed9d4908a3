"""Ranks on several machines: the commands that replace one another, and what a job of the cluster asks for."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

sys.path.append(str(Path(__file__).parents[1] / "end_to_end"))
from tiny_benchmark import make_workspace, snakemake
from training_workspace import with_training

from medheb.cluster.rules import gpu_resources
from medheb.core.errors import MedhebError
from medheb.manifest.medemb import MedEmb
from medheb.train import nodes
from medheb.train.nodes import Geometry, start, step_command, torchrun_command

JOB = {
    "PATH": "/bin",
    "SLURM_JOB_ID": "7",
    "SLURM_NNODES": "1",
    "SLURM_CPUS_PER_TASK": "2",
    "SRUN_DEBUG": "3",
    "SLURM_CONF": "/etc/slurm/slurm.conf",
}
OWN = ("train", "fit", "2b", "--ranks", "8", "--nodes", "2")


def test_the_step_has_one_process_a_machine_and_overlaps_with_its_job() -> None:
    command, environment = step_command(Geometry(8, 2), 64, "first:7000", JOB, OWN)
    assert command[:9] == [
        "srun",
        "--overlap",
        "--nodes",
        "2",
        "--ntasks",
        "2",
        "--ntasks-per-node",
        "1",
        "--cpus-per-task",
    ]
    assert command[9:11] == ["64", "--kill-on-bad-exit=1"]
    assert command[11:] == [sys.executable, "-m", "medheb", *OWN, "--meet", "first:7000"]
    assert environment == {name: JOB[name] for name in ("PATH", "SLURM_JOB_ID", "SLURM_CONF")}


def test_torchrun_knows_its_machine_and_where_all_meet() -> None:
    command = torchrun_command(Geometry(8, 2), "first:7000", {"SLURM_NODEID": "1"}, OWN)
    assert command[1:] == [
        "-m", "torch.distributed.run", "--nnodes", "2", "--node-rank", "1", "--nproc-per-node", "4",
        "--master-addr", "first", "--master-port", "7000", "-m", "medheb", *OWN,
    ]  # fmt: skip


def test_first_srun_then_torchrun_then_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[list[str]] = []
    monkeypatch.setattr(nodes.os, "execvpe", lambda _, command, __: started.append(command))
    monkeypatch.setattr(sys, "argv", ["medheb", *OWN])
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    start(Geometry(8, 2), 64, None)
    meet = started[0][-1]
    monkeypatch.setenv("SLURM_NODEID", "0")
    start(Geometry(8, 2), 64, meet)
    monkeypatch.setenv("WORLD_SIZE", "8")
    start(Geometry(8, 2), 64, meet)
    assert [command[0] for command in started] == ["srun", sys.executable]
    assert started[1][started[1].index("--master-port") + 1] == meet.rpartition(":")[2]


def test_several_machines_need_a_job_of_slurm() -> None:
    with pytest.raises(MedhebError, match=r"no job of Slurm.*--profile slurm train_medemb"):
        step_command(Geometry(8, 2), 64, "first:7000", {}, OWN)
    for meet, environment in (("first:7000", {}), ("7000", {"SLURM_NODEID": "0"}), ("first:x", {"SLURM_NODEID": "0"})):
        with pytest.raises(MedhebError, match="outside of a step of Slurm"):
            torchrun_command(Geometry(8, 2), meet, environment, OWN)


def test_a_job_without_the_tools_of_slurm_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MedhebError, match=r"srun: cannot be started \(No such file"):
        start(Geometry(8, 2), 64, None)


def test_machines_share_the_ranks_evenly() -> None:
    assert Geometry(8, 2).each == 4
    with pytest.raises(MedhebError, match="8, which 3 machines cannot share evenly"):
        Geometry(8, 3)
    with pytest.raises(ValueError, match="no multiple of nodes"):
        MedEmb(ranks=8, nodes=3)


@pytest.mark.parametrize(
    ("request_", "gpus", "count", "wanted"),
    [
        ("gpus", 8, 1, {"gpu": 8}),
        ("gpus", 8, 2, {"nodes": 2, "tasks": 0, "gres": "gpu:4"}),
        ("gpus:h100", 8, 2, {"nodes": 2, "tasks": 0, "gres": "gpu:h100:4"}),
        ("gres:h100", 8, 1, {"gres": "gpu:h100:8"}),
        ("gpus", 0, 2, {"nodes": 2, "tasks": 2, "gres": ""}),
    ],
)
def test_gpus_of_several_machines_are_asked_for_machine_by_machine(
    request_: str, gpus: int, count: int, wanted: dict[str, object]
) -> None:
    given = {"gpu_request": SimpleNamespace(raw=repr(request_))}
    workflow = SimpleNamespace(resource_settings=SimpleNamespace(default_resources=given))
    resources = gpu_resources(workflow, lambda _: gpus, count)
    assert {name: value(None) for name, value in resources.items()} == wanted


@pytest.mark.parametrize(("count", "asks"), [(1, "gpu=2"), (2, "nodes=2, tasks=0, gres=gpu:1")])
def test_a_dry_run_shows_the_job_with_its_gpus(tmp_path: Path, count: int, asks: str) -> None:
    folder = with_training(make_workspace(tmp_path / "run"), nodes=count)
    result = snakemake(folder, "--profile", "slurm", "train_medemb", "-n")
    assert result.returncode == 0, (result.stdout + result.stderr)[-3000:]
    job = result.stdout.split("rule fit_medemb:")[1].split("\n\n")[0]
    assert asks in job
    assert "cpus_per_task=64" in job
