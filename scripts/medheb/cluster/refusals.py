"""What Slurm's refusals mean in ``config/cluster.yaml``: which key to change, and on which line it stands."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import yaml

NODES = "nodes"  # no node has what was asked for: what that is depends on the job
# Messages of sbatch and reasons of squeue -> key of the description, and what to do. {partition} is the probe's.
MEANINGS: tuple[tuple[str, str, str], ...] = (
    (r"invalid partition|partition.*(not available|is down)", "partitions.{partition}", "Name one that `sinfo` shows"),
    (r"no partition specified", "partitions", "The cluster has no default partition: name its partitions there"),
    (r"invalid account|account.*not allowed|AssocNotAllowed|InvalidAccount", "account", "Set the account to charge"),
    (r"group not permitted|not permitted to use this partition", "partitions", "Leave out a partition closed to you"),
    (r"invalid qos|QOSNotAllowed|InvalidQOS", "qos", "Set a quality of service that you may use, or null"),
    (r"invalid generic resource|gres specification", "gpu.type", "Set a type that `sinfo -o %G` shows, or null"),
    (r"invalid feature|BadConstraints", "gpu.constraint", "Set features that `sinfo -o %f` shows, or null"),
    (r"time limit|PartitionTimeLimit", "partitions.{partition}.hours", "Lower it to what `sinfo -o %l` shows"),
    (r"memory (specification|per)", "partitions.{partition}.memory_gb", "Lower it to the memory of a node"),
    (r"(cpu|core) count|more processors|CPUs?PerJob", "partitions.{partition}.cores", "Lower it to a node's cores"),
    (r"unrecognized option|invalid option|unrecognised", "sbatch_options", "Remove what this sbatch does not know"),
    (r"PartitionNodeLimit|node configuration is not available", NODES, ""),
)
UNCLEAR = "Ask the administrators with this message; docs/cluster.md says what to send"


@dataclass(frozen=True)
class Meaning:
    """What a refusal means.

    Args:
        key: of the description, with dots; empty if none is at fault.
        advice: what to do.
    """

    key: str
    advice: str


def meaning_of(message: str, partition: str | None, gpu: str | None) -> Meaning:
    """Which key a refusal is about.

    Args:
        message: of sbatch, or a reason of squeue.
        partition: of the refused job, as the description names it.
        gpu: of this type the job asked for a GPU (empty: any); None: it asked for none.
    """
    for pattern, key, advice in MEANINGS:
        if re.search(pattern, message, flags=re.IGNORECASE):
            if key == NODES:
                key, advice = _nodes(partition, gpu)
            if "{partition}" in key and partition is None:
                key = "partitions"
            return Meaning(key.format(partition=partition), advice)
    return Meaning("", UNCLEAR)


def _nodes(partition: str | None, gpu: str | None) -> tuple[str, str]:
    if partition is None:
        return "partitions", "The default partition has no such nodes: name the cluster's partitions there"
    if gpu is None:
        return "partitions.{partition}", "Lower cores and memory_gb to what its nodes have"
    if gpu:
        return "gpu.type", "Set a type that `sinfo -o %G` shows, or null"
    return "gpu.request", "Set the other of gpus and gres, or gpus of the partition to what its nodes have"


def place_of(path: Path, key: str) -> str:
    """Where a key stands: ``config/cluster.yaml line 23 (gpu.request)``, or that it is to be added.

    Args:
        path: the description.
        key: with dots.
    """
    node: yaml.Node | None = yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    line = None
    for part in key.split("."):
        pairs = node.value if isinstance(node, yaml.MappingNode) else []
        found = [(name, value) for name, value in pairs if name.value == part]
        if not found:
            where = f"{path}" if line is None else f"{path} line {line}"
            return f"{where} (add {key})"
        line, node = found[0][0].start_mark.line + 1, found[0][1]
    return f"{path} line {line} ({key})"
