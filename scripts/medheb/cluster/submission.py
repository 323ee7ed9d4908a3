"""Submit a job as Snakemake would, ask whether Slurm would take it, and wait for what it leaves behind."""

from __future__ import annotations

import shlex
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medheb.core.json_text import parse_json
from medheb.manifest.cluster import Cluster

MINUTES, MEMORY = 1, 500
SECONDS_BETWEEN_LOOKS = 2.0
SECONDS_FOR_FILES = 60.0  # a shared file system may show a file late
OVER = {
    "COMPLETED",
    "FAILED",
    "CANCELLED",
    "TIMEOUT",
    "NODE_FAIL",
    "OUT_OF_MEMORY",
    "BOOT_FAIL",
    "DEADLINE",
    "PREEMPTED",
}


@dataclass(frozen=True)
class Request:
    """A job that Slurm is asked for.

    Args:
        what: in words, for messages.
        partition: as the description names it; None: the cluster's default.
        gpu: one GPU.
        cores: CPUs.
        memory: MB.
        minutes: time limit.
    """

    what: str
    partition: str | None
    gpu: bool
    cores: int = 1
    memory: int = MEMORY
    minutes: int = MINUTES

    def options(self, cluster: Cluster) -> list[str]:
        """Options of sbatch, as Snakemake's plugin passes them."""
        options = [f"--time={self.minutes}", f"--mem={self.memory}", "--ntasks=1", f"--cpus-per-task={self.cores}"]
        options += [f"--partition={self.partition}"] if self.partition else []
        options += [f"--account={cluster.account}"] if cluster.account else []
        options += [f"--qos={cluster.qos}"] if cluster.qos else []
        if self.gpu:
            kind = f"{cluster.gpu.type}:1" if cluster.gpu.type else "1"
            options.append(f"--gpus={kind}" if cluster.gpu.request == "gpus" else f"--gres=gpu:{kind}")
            options += [f"--constraint={cluster.gpu.constraint}"] if cluster.gpu.constraint else []
        return options + shlex.split(cluster.sbatch_options or "")


@dataclass(frozen=True)
class Ended:
    """How a probe ended: what it found, or what went wrong."""

    found: dict[str, Any] | None
    state: str
    reason: str = ""


def refusal(request: Request, cluster: Cluster) -> str | None:
    """Why Slurm would not take a job, without running one; None if it would."""
    result = call_slurm(["sbatch", "--test-only", *request.options(cluster), "--wrap=true"])
    return None if result.returncode == 0 else _last_line(result)


def run_probe(request: Request, cluster: Cluster, command: list[str], folder: Path, wait_minutes: float) -> Ended:
    """Submit a probe and wait for it; one that does not start in time is cancelled.

    Args:
        request: what to ask for.
        cluster: how.
        command: to run, with the file for its findings last.
        folder: shared by login node and nodes; receives findings and output.
        wait_minutes: in the queue and running.
    """
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{request.partition or 'default'}_{'gpu' if request.gpu else 'cpu'}"
    found, output = folder / f"{name}.json", folder / f"{name}.log"
    found.unlink(missing_ok=True)
    options = [*request.options(cluster), "--parsable", "--job-name=medheb-doctor", f"--output={output.absolute()}"]
    line = shlex.join([*command, str(found.absolute())])
    result = call_slurm(["sbatch", *options, f"--wrap={line}"])
    if result.returncode:
        return Ended(None, "REFUSED", _last_line(result))
    number = result.stdout.strip().split(";")[0]
    state, reason = _wait(number, wait_minutes)
    if state not in OVER:
        call_slurm(["scancel", number])
        return Ended(None, state, reason)
    end = time.monotonic() + SECONDS_FOR_FILES
    while state == "COMPLETED" and not found.exists() and time.monotonic() < end:
        time.sleep(SECONDS_BETWEEN_LOOKS)
    if found.exists():
        return Ended(parse_json(found.read_bytes()), state)
    said = output.read_text(encoding="utf-8", errors="replace").strip().splitlines() if output.exists() else []
    return Ended(None, state, said[-1] if said else f"no output in {output}")


def _wait(number: str, minutes: float) -> tuple[str, str]:
    """State and reason of a job when it is over, or when the time is."""
    end = time.monotonic() + minutes * 60
    while True:
        result = call_slurm(["squeue", "--noheader", "--states=all", f"--jobs={number}", "--format=%T|%r"])
        state, _, reason = result.stdout.strip().partition("|")
        if result.returncode == 0 and not state:
            return "COMPLETED", ""  # it has left the list already
        if state in OVER or time.monotonic() > end:
            return state or "UNKNOWN", reason or _last_line(result)
        time.sleep(SECONDS_BETWEEN_LOOKS)


def call_slurm(command: list[str]) -> subprocess.CompletedProcess[str]:
    """Run one of Slurm's commands; its refusals are results."""
    return subprocess.run(command, capture_output=True, text=True, check=False)


def _last_line(result: subprocess.CompletedProcess[str]) -> str:
    lines = (result.stderr or result.stdout).strip().splitlines()
    lines = [line for line in lines if not line.startswith("Try ")]  # ... "sbatch --help" for more information
    return lines[-1] if lines else f"exit code {result.returncode}"
