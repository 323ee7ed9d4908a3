"""What a partition really gives, against what the description says of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from medheb.cluster.refusals import place_of
from medheb.cluster.submission import call_slurm
from medheb.fetch.doctor import Check
from medheb.manifest.cluster import Cluster

TIME = re.compile(r"(?:(?:(?P<days>\d+)-)?(?P<hours>\d+):)?(?P<minutes>\d+):(?P<seconds>\d+)")


@dataclass(frozen=True)
class Given:
    """The largest of each that one node of a partition gives; None: no limit."""

    hours: float | None
    cores: int
    memory_gb: float
    gpus: int


def given(partition: str) -> Given | None:
    """Limits of a partition as Slurm knows them; None if it knows no such partition."""
    result = call_slurm(["sinfo", "--noheader", f"--partition={partition}", "--format=%l|%c|%m|%G"])
    rows = [line.strip().split("|") for line in result.stdout.splitlines() if line.strip()]
    if result.returncode or not rows:
        return None
    # A "+" says that other nodes of the row have more.
    return Given(
        hours=hours_of(rows[0][0]),
        cores=max(int(row[1].rstrip("+")) for row in rows),
        memory_gb=max(int(row[2].rstrip("+")) for row in rows) / 1000,
        gpus=max(gpus_of(row[3]) for row in rows),
    )


def hours_of(text: str) -> float | None:
    """``1-00:00:00`` as 24 hours; ``infinite`` as None."""
    match = TIME.fullmatch(text)
    if match is None:
        return None
    days, hours, minutes, seconds = (int(match[part] or 0) for part in ("days", "hours", "minutes", "seconds"))
    return days * 24 + hours + minutes / 60 + seconds / 3600


def gpus_of(text: str) -> int:
    """``gpu:h100:2(S:0-1),gpu:a100:1`` as 3."""
    return sum(int(number) for number in re.findall(r"\bgpu(?::[A-Za-z0-9_.]+)?:(\d+)", text))


def beyond_limits(name: str, cluster: Cluster, description: Path) -> Iterator[Check]:
    """Limits of the description that are above the real ones: later attempts of a job would be refused, or wait."""
    real, said = given(name), cluster.partitions[name]
    if real is None:
        return  # the request tells it, with Slurm's own words
    for key in ("hours", "cores", "memory_gb", "gpus"):
        wanted, limit = getattr(said, key), getattr(real, key)
        if wanted and limit is not None and wanted > limit:
            yield Check(
                topic="slurm",
                about=f"partition {name}",
                ok=False,
                found=f"{key} is {wanted:g}, the cluster gives {limit:g}",
                remedy=f"{place_of(description, f'partitions.{name}.{key}')}: set it to {limit:g} or less",
            )
