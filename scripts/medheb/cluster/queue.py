"""The jobs that a run of this folder has in Slurm's queue, by the name that the profile gives them."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from medheb.core.errors import MedhebError

PREFIX = "medheb_"  # slurm-jobname-prefix of the profile
WAITING = {"PENDING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT"}
SECONDS_BETWEEN_LOOKS = 5.0
SECONDS_BETWEEN_LINES = 60.0
SECONDS_FOR_AN_ANSWER = 120.0


@dataclass(frozen=True)
class QueuedJob:
    """One job.

    Args:
        number: Slurm's id.
        state: as squeue calls it.
        run: name of the job, which all jobs of one start of Snakemake share.
        work: rule and wildcards.
    """

    number: str
    state: str
    run: str
    work: str

    @property
    def waiting(self) -> bool:
        """It has not begun: nothing is lost with it."""
        return self.state in WAITING


def queued_jobs(folder: Path) -> list[QueuedJob]:
    """All jobs that Snakemake submitted from a folder and that are not over.

    Args:
        folder: the one in which Snakemake was started.

    Raises:
        MedhebError: there is no Slurm here, or it does not answer.
    """
    # The folder comes last: it may hold any sign.
    lines = _slurm(["squeue", "--me", "--noheader", "--format=%i|%T|%j|%k|%Z"]).splitlines()
    home = os.path.realpath(folder)
    jobs = []
    for line in lines:
        number, state, name, comment, place = line.strip().split("|", 4)
        if name.startswith(PREFIX) and os.path.realpath(place) == home:
            work = comment.removeprefix("rule_").replace("_wildcards_", " ", 1)
            jobs.append(QueuedJob(number, state, name, work))
    return jobs


def cancel_jobs(jobs: Sequence[QueuedJob]) -> None:
    """Tell Slurm to end jobs; they leave the queue a little later.

    Raises:
        MedhebError: Slurm does not answer.
    """
    for start in range(0, len(jobs), 500):  # the length of a command line is limited
        _slurm(["scancel", *(job.number for job in jobs[start : start + 500])])


def end_orphans(folder: Path, *, cancel: bool, tell: Callable[[str], None]) -> None:
    """Return when no job of an earlier start is left: those that wait are cancelled, those that run are waited for.

    Args:
        folder: the one in which Snakemake was started.
        cancel: cancel those that run too.
        tell: receives lines about what is waited for.

    Raises:
        MedhebError: Slurm does not answer.
    """
    told = 0.0
    while jobs := queued_jobs(folder):
        ended = [job for job in jobs if cancel or job.waiting]
        if ended:
            tell(f"cancelled: {len(ended)} jobs of an earlier start ({summary(ended)})")
            cancel_jobs(ended)
        elif time.monotonic() - told > SECONDS_BETWEEN_LINES:
            told = time.monotonic()
            tell(
                f"waiting for {len(jobs)} running jobs of an earlier start, whose results will count"
                f" ({summary(jobs)}); --cancel ends them"
            )
        time.sleep(SECONDS_BETWEEN_LOOKS if not ended else 1.0)


def summary(jobs: Sequence[QueuedJob]) -> str:
    """Jobs by rule, or the job itself if it is the only one."""
    if len(jobs) == 1:
        return f"{jobs[0].work}, Slurm job {jobs[0].number}"
    counts = Counter(job.work.split(" ")[0] for job in jobs)
    return ", ".join(f"{count} {rule}" for rule, count in sorted(counts.items()))


def _slurm(command: list[str]) -> str:
    if shutil.which(command[0]) is None:
        raise MedhebError(command[0], "is not on this machine", "Run this on a login node of the cluster")
    end = time.monotonic() + SECONDS_FOR_AN_ANSWER
    while True:
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode == 0:
            return result.stdout
        if time.monotonic() > end:
            said = (result.stderr or result.stdout).strip().splitlines()
            raise MedhebError(command[0], f"failed: {said[-1] if said else result.returncode}", "Try again later")
        time.sleep(SECONDS_BETWEEN_LOOKS)  # a controller that restarts
