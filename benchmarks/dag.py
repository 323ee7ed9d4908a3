"""The workflow itself at full size: the dry run of everything, and scheduling with rules that do nothing.

python benchmarks/run.py dry_run noop
"""

from __future__ import annotations

import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from run import show

ROOT = Path(__file__).resolve().parents[1]
PARTS = ("Snakefile", "workflow", "profiles", "slurm", "config", "manifests", "scripts", "envs")
FULL = ("all", "--configfile", "config/full.yaml")
ROUNDS = 3
DRY_SECONDS, DRY_TIMES, JOBS_PER_SECOND, MOST_JOBS = 6, 4, 30, 4000
# Makes its outputs without starting a program (but for the three folders of the report): what remains is Snakemake.
NOTHING = "for made in {output:q}; do case $made in *.*) : > $made;; *) mkdir $made;; esac; done"
PLAIN = """\
NUMBERS = range({jobs})


rule all:
    input:
        expand("made/{{number}}.txt", number=NUMBERS),
    localrule: True


rule make:
    output:
        "made/{{number}}.txt",
    shell:
        ": > {{output}}"
"""


def timed(folder: Path, *arguments: str) -> tuple[float, float, str]:
    """Wall and processor seconds of a Snakemake, and what it said."""
    environment = {**os.environ, "PYTHONPATH": str(folder / "scripts")}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.monotonic()
    command = [sys.executable, "-m", "snakemake", *arguments]
    result = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    wall = time.monotonic() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if result.returncode:
        sys.exit(f"{' '.join(command)} ended with {result.returncode}:\n{result.stderr[-3000:]}")
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall, processor, result.stdout + result.stderr


def best(rounds: list[tuple[float, float, str]]) -> tuple[float, float]:
    """Least wall and least processor seconds."""
    return min(wall for wall, _, _ in rounds), min(cpu for _, cpu, _ in rounds)


def jobs_of(said: str) -> int:
    """Total of Snakemake's table of jobs."""
    return int(re.findall(r"^total +(\d+)", said, flags=re.MULTILINE)[0])


def bench_dry_run() -> None:
    """Dry run of the full benchmark against a bare start, the best of a few each, one after the other."""
    bare, dry = [], []
    for _ in range(ROUNDS):
        bare.append(timed(ROOT, "--version"))
        dry.append(timed(ROOT, *FULL, "-n", "--forceall", "--quiet", "rules"))
    (bare_wall, bare_cpu), (wall, cpu) = best(bare), best(dry)
    jobs = jobs_of(dry[0][2])
    show(
        "dag_dry_run",
        jobs=jobs,
        of_allowed_jobs=jobs / MOST_JOBS,
        seconds=wall,
        of_allowed_seconds=wall / DRY_SECONDS,
        times_bare_start=wall / bare_wall,
        cpu_times_bare_start=cpu / bare_cpu,
        of_allowed_times=cpu / bare_cpu / DRY_TIMES,
    )


def bench_noop() -> None:
    """Scheduling of the full benchmark with rules that do nothing, against as many jobs of one plain rule."""
    with tempfile.TemporaryDirectory() as name:
        folder, plain = Path(name) / "full", Path(name) / "plain"
        folder.mkdir()
        for part in PARTS:
            copy = shutil.copytree if (ROOT / part).is_dir() else shutil.copy2
            copy(ROOT / part, folder / part)
        jobs = jobs_of(timed(folder, *FULL, "-n", "--quiet", "rules")[2])
        emptied = sum(_empty_rules(path) for path in (folder / "workflow" / "rules").glob("*.smk"))
        cores = str(os.cpu_count() or 1)
        wall, cpu, _ = timed(folder, *FULL, "--cores", cores, "--quiet", "all")
        plain.mkdir()
        (plain / "Snakefile").write_text(PLAIN.format(jobs=jobs), encoding="utf-8")
        options = ("--cores", cores, "--quiet", "all", "--scheduler", "greedy")
        plain_wall, plain_cpu, _ = timed(plain, "all", *options)
    show(
        "dag_noop",
        rules=emptied,
        jobs=jobs,
        jobs_per_second=jobs / wall,
        of_wanted=jobs / wall / JOBS_PER_SECOND,
        jobs_per_cpu_second=jobs / cpu,
        plain_jobs_per_second=jobs / plain_wall,
        ratio_to_plain=wall / plain_wall,
        cpu_ratio_to_plain=cpu / plain_cpu,
    )


def _empty_rules(path: Path) -> int:
    """Let every rule of a file do nothing; how many there are."""
    text, count = re.subn(r'(    shell:\n)(?: +".*"\n)+', rf'\1        "{NOTHING}"\n', path.read_text(encoding="utf-8"))
    path.write_text(text, encoding="utf-8")
    return count
