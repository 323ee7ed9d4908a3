"""What differs between Slurm clusters: ``config/cluster.yaml``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from medheb.manifest.base import Strict, read_yaml, validate

CLUSTER_FILE = Path("config/cluster.yaml")
LOGIN = "login"
# Slurm's own names, without anything that a shell or a profile would read as more than a name.
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.\-]*$")]
Features = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.&|*\[\]()\-]+$")]
Options = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.,:=@%/+\- ]+$")]


class Partition(Strict):
    """Limits of a partition; null: none."""

    hours: float | None = Field(default=None, gt=0)
    cores: int | None = Field(default=None, ge=1)
    memory_gb: float | None = Field(default=None, gt=0)
    gpus: int = Field(default=0, ge=0)


class Gpu(Strict):
    """How a job asks for a GPU."""

    request: Literal["gpus", "gres"] = "gpus"
    type: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.]+$")] | None = None
    constraint: Features | None = None


class Cluster(Strict):
    """One cluster; ``config/cluster.yaml`` explains each key."""

    account: Name | None = None
    qos: Name | None = None
    partitions: dict[Name, Partition] = Field(default_factory=dict)
    gpu: Gpu = Gpu()
    fetch: Name = LOGIN
    jobs: int = Field(default=100, ge=1)
    submissions_per_second: int = Field(default=20, ge=1)
    preemption: bool = False
    status: Literal["squeue", "sacct"] = "squeue"
    software: Literal["shared", "conda", "apptainer"] = "shared"
    apptainer_args: Options | None = None
    sbatch_options: Options | None = None


def load_cluster(path: Path = CLUSTER_FILE) -> Cluster:
    """Read a description of a cluster.

    Raises:
        MedhebError: the file is missing, not YAML, or holds a wrong key or value.
    """
    return validate(Cluster, read_yaml(path) or {}, path)
