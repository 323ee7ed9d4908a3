"""One throw-away cluster and one benchmark with its downloads, shared by all tests of this folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import psutil
import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.append(str(Path(__file__).parents[1] / "end_to_end"))

import throwaway_slurm
import tiny_benchmark
from cluster_bench import Bench, make_bench

REQUIRED = "MEDHEB_CLUSTER_TESTS"


def no_cluster(reason: str) -> NoReturn:
    """Skip what cannot be tried on this machine, or fail where it must be."""
    if os.environ.get(REQUIRED) == "required":
        pytest.fail(f"{reason}, although {REQUIRED}=required")
    pytest.skip(reason)


def _hindrance() -> str | None:
    if os.environ.get("PYTEST_XDIST_WORKER"):
        return "one cluster a machine: run `pytest tests/cluster` by itself, without -n"
    return throwaway_slurm.hindrance()


@pytest.fixture(scope="session")
def cluster() -> Iterator[throwaway_slurm.Cluster]:
    """The cluster; tests that need it are skipped where there can be none, with the reason."""
    if reason := _hindrance():
        no_cluster(f"no cluster: {reason}")
    with throwaway_slurm.running() as running:
        daemons = [process.pid for process in running.daemons.values()]
        yield running
    assert not any(psutil.pid_exists(number) for number in daemons)


@pytest.fixture(scope="session")
def fetched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace in which every source has been fetched; never change it."""
    folder = make_bench(tmp_path_factory.mktemp("fetched") / "run")
    statuses = [f"results/sources/{name}/status.json" for name in ("codes", "knees", "person_x", "person_y", "terms")]
    result = tiny_benchmark.snakemake(folder, "--cores", "2", *statuses)
    assert result.returncode == 0, result.stdout + result.stderr
    return folder


@pytest.fixture
def bench(cluster: throwaway_slurm.Cluster, fetched: Path) -> Iterator[Bench]:
    """A workspace of one's own; the queue is empty and all nodes are idle before and after."""
    # Slurm logs the folder of a job, and squeue cuts nothing off short ones
    with tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as temporary:
        folder = Path(temporary) / "run"
        shutil.copytree(fetched, folder, symlinks=True)
        bench = Bench(folder)
        assert apply(bench, "gpus") == 0
        try:
            yield bench
        finally:
            bench.end()
            throwaway_slurm.call("scancel", "-u", "root", check=False)
            assert cluster.quiet(60), "jobs are left"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Each scenario on a line, with how it ended and its seconds, whatever the verbosity."""
    lines = [
        f"{outcome:8}{getattr(report, 'duration', 0):6.0f} s  {scenario(report.nodeid)}"
        for outcome in ("passed", "failed", "error", "skipped")
        for report in terminalreporter.stats.get(outcome, [])
        if Path(report.nodeid.split("::")[0]).parent.name == "cluster"
    ]
    if lines:
        terminalreporter.section("scenarios on a Slurm cluster")
        terminalreporter.write("".join(f"{line}\n" for line in lines))


def scenario(nodeid: str) -> str:
    """``tests/cluster/test_a.py::test_node_drained_mid_run[x]`` as ``node drained mid run [x]``."""
    name, _, case = nodeid.split("::")[-1].partition("[")
    return name.removeprefix("test_").replace("_", " ") + (f" [{case}" if case else "")


def apply(bench: Bench, name: str) -> int:
    """Apply one of the example clusters."""
    return subprocess.run(
        [sys.executable, "-m", "medheb", "cluster", "apply", f"config/clusters/{name}.yaml"],
        cwd=bench.folder,
        env=bench.environment,
        stdout=subprocess.DEVNULL,
        check=False,
    ).returncode
