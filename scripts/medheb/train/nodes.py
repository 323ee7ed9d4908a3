"""The ranks of a training job on several machines: Slurm starts torchrun once on each, torchrun a rank a GPU.

Three processes replace one another on the first machine: the job's command, ``srun``, and torchrun; the others begin
with ``srun``. All run the same command line.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from medheb.core.errors import MedhebError
from medheb.embed.ranks import start_ranks

# What a step needs to find its job; the rest describes the step that we are in, and srun would take it for its own.
KEPT = ("SLURM_JOB_ID", "SLURM_JOBID", "SLURM_CLUSTER_NAME", "SLURM_SUBMIT_DIR", "SLURM_SUBMIT_HOST", "SLURM_CONF")


@dataclass(frozen=True)
class Geometry:
    """Ranks of a job.

    Args:
        ranks: in all.
        nodes: machines; each has the same number of ranks.
    """

    ranks: int
    nodes: int = 1

    def __post_init__(self) -> None:
        """Refuse machines that would have different numbers of ranks.

        Raises:
            MedhebError: the ranks cannot be shared out evenly.
        """
        if self.ranks % self.nodes:
            raise MedhebError(
                "medemb.ranks",
                f"is {self.ranks}, which {self.nodes} machines cannot share evenly",
                f"Choose a multiple of medemb.nodes ({self.nodes})",
            )

    @property
    def each(self) -> int:
        """Ranks of one machine."""
        return self.ranks // self.nodes


def start(geometry: Geometry, threads: int, meet: str | None) -> None:
    """Replace this process by the ranks of the job; does nothing in one that is a rank already.

    Args:
        geometry: how many, and on how many machines.
        threads: CPUs of the job on each machine.
        meet: host and port at which the machines meet; None on the first, which decides it.

    Raises:
        MedhebError: several machines without a job of Slurm that has them, or without its tools.
    """
    if "WORLD_SIZE" in os.environ:
        return
    if geometry.nodes == 1:
        start_ranks(geometry.ranks)
        return
    if meet is None:
        command, environment = step_command(geometry, threads, f"{socket.gethostname()}:{_free_port()}", os.environ)
    else:
        command, environment = torchrun_command(geometry, meet, os.environ), dict(os.environ)
    try:
        os.execvpe(command[0], command, environment)  # noqa: S606 - no shell
    except OSError as error:
        remedy = "Let Slurm's tools be in the PATH of its jobs"
        raise MedhebError(command[0], f"cannot be started ({error.strerror})", remedy) from error


def step_command(
    geometry: Geometry, threads: int, meet: str, environment: Mapping[str, str], arguments: Sequence[str] | None = None
) -> tuple[list[str], dict[str, str]]:
    """``srun`` with one process a machine, and the environment for it.

    The step overlaps with the one that it is started from, which does nothing but wait.

    Raises:
        MedhebError: no job of Slurm.
    """
    if "SLURM_JOB_ID" not in environment:
        raise MedhebError(
            f"medemb.nodes is {geometry.nodes}",
            "but this is no job of Slurm",
            "Start it by `snakemake --profile slurm train_medemb`, or set medemb.nodes: 1",
        )
    kept = {
        name: value
        for name, value in environment.items()
        if name in KEPT or not name.startswith(("SLURM_", "SRUN_", "SBATCH_"))
    }
    count = str(geometry.nodes)
    step = ["srun", "--overlap", "--nodes", count, "--ntasks", count, "--ntasks-per-node", "1"]
    step += ["--cpus-per-task", str(threads), "--kill-on-bad-exit=1"]
    own = list(sys.argv[1:] if arguments is None else arguments)
    return [*step, sys.executable, "-m", "medheb", *own, "--meet", meet], kept


def torchrun_command(
    geometry: Geometry, meet: str, environment: Mapping[str, str], arguments: Sequence[str] | None = None
) -> list[str]:
    """The command of torchrun for the ranks of this machine.

    Raises:
        MedhebError: no step of Slurm says which machine this is.
    """
    host, _, port = meet.rpartition(":")
    number = environment.get("SLURM_NODEID", "")
    if not number.isdigit() or not host or not port.isdigit():
        raise MedhebError("--meet", f"is {meet} outside of a step of Slurm", "Leave it out: the job sets it itself")
    places = ["--nnodes", str(geometry.nodes), "--node-rank", number, "--nproc-per-node", str(geometry.each)]
    places += ["--master-addr", host, "--master-port", port]
    own = list(sys.argv[1:] if arguments is None else arguments)
    return [sys.executable, "-m", "torch.distributed.run", *places, "-m", "medheb", *own]


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("", 0))
        port: int = found.getsockname()[1]
        return port
