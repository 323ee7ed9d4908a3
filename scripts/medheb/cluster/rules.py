"""What the Snakefile asks about the cluster: where a rule runs, and how its jobs ask for a GPU.

The profile says it (see :mod:`medheb.cluster.profile`); rules name neither partitions nor options of Slurm.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# Key of default-resources by which a profile says how a GPU is asked for: gpus, gpus:h100, gres or gres:h100.
REQUEST = "gpu_request"
# Key by which it names features of the nodes that GPU jobs may use.
CONSTRAINT = "gpu_constraint"
# In a profile's expressions, where a job's own resources are not known: whether it has a GPU (see inputs_by_kind).
HAS_GPU = "input.get('gpu')"
GpusOf = Callable[[Any], int]


def runs_here(workflow: Any, rule: str) -> bool:
    """Whether a rule that needs the internet runs beside Snakemake: unless the profile names a partition for it."""
    return "slurm_partition" not in workflow.resource_settings.overwrite_resources.get(rule, {})


def gpu_resources(workflow: Any, count: GpusOf, nodes: int = 1) -> dict[str, Callable[[Any], int | str]]:
    """Resources of a rule some of whose jobs need GPUs.

    Args:
        workflow: of Snakemake, while it reads the Snakefile.
        count: wildcards -> number of GPUs of that job.
        nodes: machines of each job, which share its GPUs evenly.

    Returns:
        resource -> function of the wildcards, for ``resources: **gpu_resources(...)``.
    """
    option, _, kind = (_default(workflow, REQUEST) or "gpus").partition(":")

    def with_gpu(text: Callable[[int], str]) -> Callable[[Any], str]:
        # A job without GPUs must not have the type either: the plugin takes a type alone as one GPU.
        return lambda wildcards: text(gpus) if (gpus := count(wildcards)) else ""

    resources: dict[str, Callable[[Any], int | str]] = {}
    if nodes > 1:
        resources["nodes"] = lambda _: nodes
        # One process a machine. With GPUs the plugin would take it for processes a GPU; Slurm then starts one anyway.
        resources["tasks"] = lambda wildcards: 0 if count(wildcards) else nodes
    if option == "gres" or nodes > 1:
        # --gpus counts over all machines and may share them out unevenly; --gres is for each.
        name = f"gpu:{kind}" if kind else "gpu"
        resources["gres"] = with_gpu(lambda gpus: f"{name}:{gpus // nodes}")
    else:
        resources["gpu"] = count
        if kind:
            resources["gpu_model"] = with_gpu(lambda _: kind)
    if constraint := _default(workflow, CONSTRAINT):
        resources["constraint"] = with_gpu(lambda _: constraint)
    return resources


def inputs_by_kind(gpus: int, inputs: list[str]) -> dict[str, list[str]]:
    """Inputs of a job under a name that tells the profile whether the job gets a GPU: for ``unpack``.

    A name, and not a file more: what a job was made from stays the same.
    """
    return {"gpu" if gpus else "cpu": inputs}


def _default(workflow: Any, key: str) -> str:
    """A text among the default-resources of the profile."""
    given = workflow.resource_settings.default_resources or {}
    return str(given[key].raw).strip("'") if key in given else ""
