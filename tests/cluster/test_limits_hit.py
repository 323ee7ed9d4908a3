"""Memory, wall time and disk run out: what was done is kept, and the next attempt has more."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster_bench import CASES, KNEES, TERMS_RECEIPT, Bench, change

from conftest import no_cluster


def knees_log(bench: Bench) -> str:
    """Log of the last attempt at ``knees``."""
    (path,) = (bench.folder / "results/logs/build/3D_Images/Knees").glob("*.log")
    return path.read_text()


def test_job_killed_for_its_memory_is_retried_with_more(bench: Bench) -> None:
    # Two processes of Snakemake and ours do not fit into the first request.
    code = bench.run(KNEES, "--set-resources", "build_images:mem_mb=200 * 4 ** (attempt - 1)")
    assert code == 0, bench.log()[-5000:]
    assert bench.states("knees") in (["FAILED", "COMPLETED"], ["OUT_OF_MEMORY", "COMPLETED"])
    assert [job.memory for job in bench.jobs("knees")] == [200, 800]
    assert "Trying to restart job" in bench.log()
    assert json.loads((bench.folder / KNEES).read_text())["status"]["state"] == "ok"


def test_wall_time_hit_during_embed_and_during_a_3d_build_costs_only_what_was_unfinished(bench: Bench) -> None:
    first = "1 if attempt == 1 else 10"
    run = bench.start(
        KNEES, TERMS_RECEIPT, "--set-resources", f"build_images:runtime={first}", f"embed_inputs:runtime={first}"
    )
    build = bench.freeze("build", "knees", after=lambda: bench.units() > 5)
    built = bench.units()
    embed = bench.freeze("embed", "random", "terms", after=lambda: bench.vectors() > 5)
    stored = bench.vectors()
    assert 5 < built < CASES
    assert stored > 5
    bench.wait(lambda: "TIMEOUT" in bench.states("knees") and "TIMEOUT" in bench.states("embed"), "both end", 150)
    assert not build.is_running()
    assert not embed.is_running()
    assert bench.finish(run) == 0, bench.log()[-5000:]
    assert bench.states("knees") == ["TIMEOUT", "COMPLETED"]
    assert bench.states("embed") == ["TIMEOUT", "COMPLETED"]
    there = f"of {CASES} units are there already"
    assert there in knees_log(bench)
    assert int(knees_log(bench).split(there)[0].split()[-1]) >= built
    receipt = json.loads((bench.folder / TERMS_RECEIPT).read_text())
    assert 0 < receipt["computed"] <= receipt["inputs"] - 8 * (stored - 1)


@pytest.fixture
def small_disk(bench: Bench) -> Iterator[Path]:
    """The benchmark's folder on a file system of 3 MB, as a user over quota has it."""
    folder = bench.folder / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", folder], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        no_cluster(f"no small disk can be mounted here: {mounted.stderr.strip()}")
    change(bench.folder, paths={"benchmark": "disk/MedHEB"})
    yield folder
    bench.end()
    subprocess.run(["umount", "-l", folder], check=True)


def test_user_over_quota_is_told_and_goes_on_with_what_is_there_once_there_is_room(
    bench: Bench, small_disk: Path
) -> None:
    inventory = KNEES.replace("results", "disk")
    assert bench.run(inventory, "--retries", "0") == 1
    assert "No space left on device" in knees_log(bench) + bench.log()
    assert not (bench.folder / inventory).exists()
    built = len(list(small_disk.glob("MedHEB/3D_Images/.Knees*/.units/*.json")))
    assert 0 < built < CASES
    subprocess.run(["mount", "-o", "remount,size=200m", small_disk], check=True)
    assert bench.run(inventory) == 0, bench.log()[-5000:]
    assert f"{built} of {CASES} units are there already" in knees_log(bench)
