"""Lay ``config/cluster.yaml`` over ``slurm/config.yaml``: the profile of one cluster, generated whole.

Snakemake takes the profile file with the highest version that it fits, so the generated ``config.v9+.yaml`` is
preferred to the ``config.yaml`` beside it, and ``snakemake --profile slurm all`` stays the command. A profile holds
its maps whole, so there is one file in the end and nothing to merge by hand.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from medheb.cluster.rules import CONSTRAINT, HAS_GPU, REQUEST
from medheb.core.digests import sha256_bytes
from medheb.core.errors import MedhebError
from medheb.core.files import write_text
from medheb.manifest.base import read_yaml
from medheb.manifest.cluster import CLUSTER_FILE, LOGIN, Cluster, Partition, load_cluster

BASE = Path("slurm/config.yaml")
GENERATED = Path("slurm/config.v9+.yaml")
PARTITIONS = Path("slurm/partitions.yaml")
# Rules whose jobs need a GPU; and those of which some jobs need one and others do not: canaries and gathering do not,
# X-rays of DeepDRR do.
GPU_RULES = ("embed_inputs", "embed_shard", "fit_bridge", "fit_medemb")
EITHER = ("build_images", "build_shard", "embed_inputs")
UNLIMITED = 10**9
# Not part of `all`: a cluster without room for them is in order.
TRAINING = ("plan_medemb", "fit_medemb", "merge_medemb")
FETCHING = ("fetch_source", "fetch_model")
HEAD = "# Made by `medheb cluster apply {source}`; change that file and apply it again.\n# inputs: {digest}\n"
MADE = re.compile(r"# Made by `medheb cluster apply (?P<source>.*)`; .*\n# inputs: (?P<digest>[0-9a-f]+)\n")


def apply_cluster(cluster: Cluster, source: Path, root: Path = Path()) -> list[Path]:
    """Write the profile of a cluster, and its partitions.

    Args:
        cluster: what differs.
        source: the file that it was read from.
        root: of the repository.

    Returns:
        What was written.

    Raises:
        MedhebError: the base profile is no profile.
    """
    base = read_yaml(root / BASE)
    if not isinstance(base, dict):
        raise MedhebError(root / BASE, "is no profile", "Get it from the repository again")
    head = HEAD.format(source=source, digest=inputs_digest(source, root))
    profile = profile_of(base, cluster)
    written = [root / GENERATED]
    if cluster.partitions:
        write_text(root / PARTITIONS, head + _text(partitions_of(cluster)))
        written.append(root / PARTITIONS)
    else:
        (root / PARTITIONS).unlink(missing_ok=True)
    write_text(root / GENERATED, head + _text(profile))
    return written


def inputs_digest(source: Path, root: Path = Path()) -> str:
    """Digest of both files behind the generated profile."""
    return sha256_bytes((root / BASE).read_bytes() + b"\0" + source.read_bytes())[:16]


def outdated(root: Path = Path(), description: Path | None = None) -> str | None:
    """What to do if the generated profile does not come from the files that are there now; None if it does.

    Args:
        root: of the repository.
        description: the one that is meant; None: whichever was applied.
    """
    path = root / GENERATED
    if not path.exists():
        return _never_applied(root, description or CLUSTER_FILE)
    made = MADE.match(path.read_text(encoding="utf-8"))
    if made and description and (root / made["source"]).resolve() != (root / description).resolve():
        return f"{GENERATED} was made from {made['source']}: medheb cluster apply {description}"
    try:
        if made and inputs_digest(root / made["source"], root) == made["digest"]:
            return None
    except OSError:
        pass  # the description was moved
    source = made["source"] if made else CLUSTER_FILE
    return f"{GENERATED} is older than {source} or {BASE}: medheb cluster apply {source}"


def _never_applied(root: Path, description: Path) -> str | None:
    try:
        if not (root / description).exists() or load_cluster(root / description) == Cluster():
            return None  # slurm/config.yaml as it is
    except MedhebError as error:
        return str(error)
    return f"{description} was never applied: medheb cluster apply {description}"


def profile_of(base: Mapping[str, Any], cluster: Cluster) -> dict[str, Any]:
    """The base profile with everything that differs on this cluster."""
    profile = copy.deepcopy(dict(base))
    profile["jobs"] = cluster.jobs
    profile["max-jobs-per-timespan"] = f"{cluster.submissions_per_second}/1s"
    profile["slurm-status-command"] = cluster.status
    if cluster.status == "sacct":
        # Five queries a second apart are not enough to outlast a restart of slurmdbd.
        profile |= {"slurm-status-attempts": 60, "max-status-checks-per-second": 0.2}
    if cluster.preemption:
        del profile["slurm-no-requeue"]
        profile["slurm-requeue"] = True
    if cluster.qos:
        profile["slurm-qos"] = cluster.qos
    if cluster.partitions:
        profile["slurm-partition-config"] = str(PARTITIONS)
    if cluster.software != "shared":
        profile["software-deployment-method"] = [cluster.software]
    if cluster.apptainer_args:
        profile["apptainer-args"] = cluster.apptainer_args
    everywhere, rules = profile["default-resources"], profile["set-resources"]
    if cluster.account:
        everywhere["slurm_account"] = _literal(cluster.account)
    if cluster.sbatch_options:
        everywhere["slurm_extra"] = _literal(cluster.sbatch_options)
    request = cluster.gpu.request + (f":{cluster.gpu.type}" if cluster.gpu.type else "")
    if request != "gpus":
        everywhere[REQUEST] = _literal(request)
    if cluster.gpu.constraint:
        everywhere[CONSTRAINT] = _literal(cluster.gpu.constraint)
    if cluster.fetch != LOGIN:
        for rule in FETCHING:
            rules[rule]["slurm_partition"] = cluster.fetch
    for rule, resources in [("", everywhere), *rules.items()]:
        _limit(resources, rule, cluster)
        if rule in profile["set-threads"]:
            _limit_cores(profile["set-threads"], rule, resources, cluster)
    return profile


def partitions_of(cluster: Cluster) -> dict[str, Any]:
    """The partitions as Snakemake's plugin reads them; it takes the tightest one that holds a job.

    A partition with GPUs loses one point for a job without one, and gains up to four for fitting tightly. So that no
    such job goes there, it shows only the limits that tell partitions with GPUs apart; jobs stay below the others.
    """
    limits = {name: _limits(partition) for name, partition in cluster.partitions.items()}
    with_gpus = [one for one in limits.values() if one["max_gpu"]]
    for key in ("max_runtime", "max_threads", "max_mem_mb"):
        if len({one.get(key) for one in with_gpus}) == 1:
            for one in with_gpus:
                one.pop(key, None)
    return {"partitions": limits}


def _limits(partition: Partition) -> dict[str, Any]:
    limits: dict[str, Any] = {"max_gpu": partition.gpus}
    if partition.hours:
        limits["max_runtime"] = round(partition.hours * 60)
    if partition.cores:
        limits["max_threads"] = partition.cores
    if partition.memory_gb:
        limits["max_mem_mb"] = round(partition.memory_gb * 1000)
    return limits


def _limit(resources: dict[str, Any], rule: str, cluster: Cluster) -> None:
    """Keep growing attempts below what the largest partition gives: beyond it, a job would wait for ever."""
    for key, limit, factor in (("runtime", "hours", 60), ("mem_mb", "memory_gb", 1000)):
        most = _of_job(rule, *_most(cluster, limit, factor))
        if key in resources and most != UNLIMITED:
            resources[key] = f"min({resources[key]}, {most})"


def _limit_cores(threads: dict[str, Any], rule: str, resources: dict[str, Any], cluster: Cluster) -> None:
    """Ask for no more cores than a node of the largest partition has."""
    with_gpu, without = (min(threads[rule], most) for most in _most(cluster, "cores", 1))
    threads[rule] = resources["cpus_per_task"] = _of_job(rule, with_gpu, without)


def _most(cluster: Cluster, limit: str, factor: int) -> tuple[int, int]:
    """The largest that partitions give to a job with a GPU, and to one without."""
    with_gpus = [partition for partition in cluster.partitions.values() if partition.gpus]
    others = [partition for partition in cluster.partitions.values() if not partition.gpus]
    # Where all nodes have GPUs, the other jobs run there too.
    return _largest(with_gpus, limit, factor), _largest(others or with_gpus, limit, factor)


def _largest(partitions: list[Partition], limit: str, factor: int) -> int:
    limits = [getattr(partition, limit) for partition in partitions]
    known = [one for one in limits if one]
    return round(max(known) * factor) if known and len(known) == len(limits) else UNLIMITED


def _of_job(rule: str, with_gpu: int, without: int) -> int | str:
    """What holds for the jobs of a rule: an expression where some have a GPU and others have none."""
    if rule in EITHER and with_gpu != without:
        return f"{with_gpu} if {HAS_GPU} else {without}"
    return with_gpu if rule in GPU_RULES else without


def _literal(text: str) -> str:
    """As an expression of Python, which is what a profile's values are read as first."""
    return repr(text)


def _text(content: Mapping[str, Any]) -> str:
    return yaml.safe_dump(dict(content), sort_keys=False, width=200)
