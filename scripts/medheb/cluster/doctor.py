"""``medheb doctor --slurm``: does this cluster take the jobs that ``config/cluster.yaml`` describes?"""

from __future__ import annotations

import logging
import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from snakemake_interface_common.exceptions import WorkflowError

from medheb.cluster.limits import beyond_limits
from medheb.cluster.profile import BASE, FETCHING, GPU_RULES, TRAINING, outdated, profile_of
from medheb.cluster.refusals import UNCLEAR, meaning_of, place_of
from medheb.cluster.rules import HAS_GPU
from medheb.cluster.submission import Ended, Request, call_slurm, refusal, run_probe
from medheb.fetch.doctor import Check, Diagnosis
from medheb.manifest.base import read_yaml
from medheb.manifest.cluster import LOGIN, Cluster, load_cluster
from medheb.manifest.load import Run

TOOLS = ("sbatch", "squeue", "scancel", "scontrol", "sinfo")
PINS = Path("envs/core.txt")
IMAGE = Path("envs/core.sif")
# A probe with a GPU imports torch, from a shared file system, and computes on the GPU.
GPU_PROBE = {"memory": 4000, "minutes": 5}
SHORTEST_MEMORY = 120  # seconds that Slurm must remember a job for `status: squeue`
CHOICE = re.compile(rf"(\d+) if {re.escape(HAS_GPU)} else (\d+)")
WAITS = {"PENDING", "CONFIGURING", "RUNNING", "COMPLETING"}


def diagnose_cluster(run: Run, description: Path, wait_minutes: float = 10.0, root: Path = Path()) -> Diagnosis:
    """Look at the description, ask Slurm about each kind of job, and run a probe of minutes in each partition.

    Args:
        run: the run; probes leave their findings below its results.
        description: ``config/cluster.yaml`` or another.
        wait_minutes: for each probe, in the queue and running.
        root: of the repository.

    Raises:
        MedhebError: the description is wrong.
    """
    cluster = load_cluster(description)
    lacking = [tool for tool in TOOLS if shutil.which(tool) is None]
    if lacking:
        return _diagnosis(
            [_wrong("Slurm", f"{', '.join(lacking)} not found", "Run this on a login node of the cluster")]
        )
    checks = [*_memory(cluster, description), *_software(cluster), *_account(cluster, description)]
    checks += [check for name in cluster.partitions for check in beyond_limits(name, cluster, description)]
    asked = [_asked(request, cluster, description) for request in requests(cluster, read_yaml(root / BASE))]
    checks += asked
    profile = list(_profile(root, description))
    if all(check.ok for check in checks):
        folder = run.layout.results / "logs" / "slurm" / "doctor"
        for request in probes(cluster):
            checks += _probed(request, cluster, description, folder, wait_minutes)
    else:
        checks.append(_right("probes", "not sent, before the above is mended"))
    return _diagnosis([*profile, *checks])


def requests(cluster: Cluster, base: Mapping[str, Any]) -> Iterator[Request]:
    """The largest first attempts of the workflow's rules, with and without a GPU, and a download."""
    profile = profile_of(base, cluster)
    for gpu in (False, True):
        fitting = [name for name, part in cluster.partitions.items() if bool(part.gpus) == gpu]
        partitions: list[str | None] = [*fitting] or [None]
        rules = [
            rule
            for rule in profile["set-resources"]
            if (rule in GPU_RULES) == gpu and rule not in (*FETCHING, *TRAINING)
        ]
        for partition in partitions:
            cores = cluster.partitions[partition].cores if partition else None
            wanted = [_size(profile, rule, gpu) for rule in rules]
            yield Request(
                what=f"a job {'with' if gpu else 'without'} GPU",
                partition=partition,
                gpu=gpu,
                cores=min(max(size[0] for size in wanted), cores or 10**6),
                memory=max(size[1] for size in wanted),
                minutes=max(size[2] for size in wanted),
            )
    if cluster.fetch != LOGIN:
        cores, memory, minutes = _size(profile, FETCHING[0], gpu=False)
        yield Request("a download", cluster.fetch, False, cores, memory, minutes)


def probes(cluster: Cluster) -> Iterator[Request]:
    """One small job in each partition; with none described, one without and one with a GPU in the default one."""
    for name, partition in cluster.partitions.items():
        yield Request("a probe", name, bool(partition.gpus), **(GPU_PROBE if partition.gpus else {}))
    if not cluster.partitions:
        yield Request("a probe without GPU", None, False)
    if not any(partition.gpus for partition in cluster.partitions.values()):
        yield Request("a probe with GPU", None, True, **GPU_PROBE)
    if cluster.fetch != LOGIN and cluster.fetch not in cluster.partitions:
        yield Request("a probe for downloads", cluster.fetch, False)


def _size(profile: Mapping[str, Any], rule: str, gpu: bool) -> tuple[int, int, int]:
    """Cores, MB and minutes of the first attempt of a rule's job, with a GPU or without."""
    resources = {**profile["default-resources"], **profile["set-resources"].get(rule, {})}
    cores = resources.get("cpus_per_task") or profile["set-threads"].get(rule, 1)
    cores, memory, minutes = (_first_attempt(one, gpu) for one in (cores, resources["mem_mb"], resources["runtime"]))
    return cores, memory, minutes


def _first_attempt(expression: str | int, gpu: bool) -> int:
    """``min((32000 if HAS_GPU else 4000) * attempt, 60000)`` -> 32000 with a GPU, 4000 without."""
    chosen = CHOICE.sub(r"\1" if gpu else r"\2", str(expression))
    return min(int(number) for number in re.findall(r"\b\d+\b", chosen))


def _asked(request: Request, cluster: Cluster, description: Path) -> Check:
    where = f"{request.what} in {request.partition or 'the default partition'}"
    size = f"{request.cores} cores, {request.memory} MB, {request.minutes} min"
    message = refusal(request, cluster)
    if message is None:
        return _right(where, f"Slurm would take it ({size})")
    return _wrong(where, f"refused ({size}): {message}", _advice(message, request, cluster, description))


def _probed(
    request: Request, cluster: Cluster, description: Path, folder: Path, wait_minutes: float
) -> Iterator[Check]:
    where = f"{request.what} in {request.partition or 'the default partition'}"
    ended = run_probe(request, cluster, _command(cluster), folder, wait_minutes)
    if ended.found is None:
        yield _wrong(where, *_trouble(ended, request, cluster, description, wait_minutes))
        return
    found = ended.found
    yield _right(where, f"ran on {found['node']}: medheb {found['medheb']}, Python {found['python']}")
    if request.gpu:
        yield _gpu(found, cluster, description)


def _gpu(found: Mapping[str, Any], cluster: Cluster, description: Path) -> Check:
    """A GPU must be granted, shown by the driver, and used by torch: the first that fails explains the others."""
    about, granted = f"GPU of {found['node']}", f"granted: {found['granted']}"
    if not found["granted"]:
        advice = f"Change {place_of(description, 'gpu.request')} to the other of gpus and gres"
        return _wrong(about, "no GPU was granted", advice)
    if not found["driver"]:
        advice = "Ask the administrators whether nvidia-smi -L works in jobs there"
        if cluster.software == "apptainer":
            advice = f"Add --nv in {place_of(description, 'apptainer_args')}"
        return _wrong(about, f"{granted}, but NVIDIA's driver shows none", advice)
    shown = f"{granted}, {found['driver'][0]}, driver {found['driver_version'] or 'of unknown version'}"
    if cluster.software == "conda":
        return _right(about, f"{shown}; not asked: torch of the environment that Snakemake makes")
    title, trouble = _torch(found["torch"])
    if trouble:
        return _wrong(about, f"{shown}, but {title} {trouble}", _other_torch(found["driver_version"], cluster))
    return _right(about, f"{shown}, {title} uses it")


def _torch(found: Mapping[str, Any]) -> tuple[str, str]:
    """Torch by version and build, and why jobs cannot compute on the GPU with it; empty if they can."""
    if not found["version"]:
        return "torch", f"cannot be imported: {found['trouble']}"
    title = f"torch {found['version']} ({'for CUDA ' + found['cuda'] if found['cuda'] else 'a build without CUDA'})"
    if not found["gpus"]:
        why = f" ({found['trouble']})" if found["trouble"] else ""
        return title, f"sees none{why}: jobs would compute on the CPU"
    return title, f"cannot compute on it: {found['trouble']}" if found["trouble"] else ""


def _other_torch(driver: str, cluster: Cluster) -> str:
    build = f"a build of torch for {'driver ' + driver if driver else 'the driver of that node'}"
    where = f"in the environment {sys.prefix}"
    if cluster.software == "apptainer":
        where = f"in {IMAGE.with_suffix('.def')}, make {IMAGE} again"
    return f"Install {build} {where}, with the pins of {PINS}: see Environments in docs/cluster.md"


def _trouble(
    ended: Ended, request: Request, cluster: Cluster, description: Path, wait_minutes: float
) -> tuple[str, str]:
    """What is wrong with a probe that found nothing, and what to do."""
    if ended.state == "REFUSED":
        return f"refused: {ended.reason}", _advice(ended.reason, request, cluster, description)
    if ended.state in WAITS:
        meaning = meaning_of(ended.reason, request.partition, _asked_gpu(request, cluster))
        if meaning.key:
            return f"would wait for ever: {ended.reason}", _advice(ended.reason, request, cluster, description)
        found = f"still {ended.state} after {wait_minutes:g} minutes ({ended.reason or 'no reason given'}); cancelled"
        return found, "The cluster is busy: ask again later, or wait longer with --minutes"
    remedy = "The environment must lie on a file system that all nodes see; or set `software` to conda or apptainer: "
    return f"{ended.state}: {ended.reason}", remedy + place_of(description, "software")


def _asked_gpu(request: Request, cluster: Cluster) -> str | None:
    return (cluster.gpu.type or "") if request.gpu else None


def _advice(message: str, request: Request, cluster: Cluster, description: Path) -> str:
    meaning = meaning_of(message, request.partition, _asked_gpu(request, cluster))
    key = meaning.key
    if key.startswith("partitions") and request.partition == cluster.fetch not in cluster.partitions:
        key = "fetch"
    return f"{place_of(description, key)}: {meaning.advice}" if key else UNCLEAR


def _command(cluster: Cluster) -> list[str]:
    package = Path(__file__).resolve().parents[2]
    run = ["env", f"PYTHONPATH={package}"]
    if cluster.software == "apptainer":
        arguments = shlex.split(cluster.apptainer_args or "")
        run += ["apptainer", "exec", *arguments, "--bind", str(package), str(IMAGE.absolute()), "python"]
    else:
        run.append(sys.executable)
    return [*run, "-m", "medheb.cluster.probe"]


def _profile(root: Path, description: Path) -> Iterator[Check]:
    """What jobs will ask for; probes do not need it."""
    reason = outdated(root, description)
    if reason:
        yield _wrong("profile", "Snakemake does not use this description yet", reason)
    else:
        yield _right("profile", "fits the description")


def _memory(cluster: Cluster, description: Path) -> Iterator[Check]:
    """Finished jobs must be seen: by squeue for a while, or by accounting."""
    result = call_slurm(["scontrol", "show", "config"])
    if result.returncode:
        said = (result.stderr or result.stdout).strip()
        yield _wrong("controller", said or "does not answer", "Try again later; is this a login node?")
        return
    seconds = re.search(r"^MinJobAge\s*=\s*(\d+)", result.stdout, flags=re.MULTILINE)
    accounting = re.search(r"^AccountingStorageType\s*=\s*(\S+)", result.stdout, flags=re.MULTILINE)
    place = place_of(description, "status")
    if cluster.status == "squeue" and seconds and int(seconds[1]) < SHORTEST_MEMORY:
        found = f"Slurm forgets finished jobs after {seconds[1]} seconds (MinJobAge)"
        yield _wrong("status", found, f"{place}: set sacct")
    elif cluster.status == "sacct" and accounting and accounting[1] in {"(null)", "accounting_storage/none"}:
        yield _wrong("status", "this cluster keeps no accounts of jobs", f"{place}: set squeue")
    else:
        yield _right("status", f"jobs are followed with {cluster.status}")


def _software(cluster: Cluster) -> Iterator[Check]:
    if cluster.software == "shared":
        yield _right("software", f"shared: {sys.executable}")
        return
    if shutil.which(cluster.software) is None:
        yield _wrong("software", f"{cluster.software} is not on this machine", "Load its module, or install it")
    elif cluster.software == "apptainer" and not IMAGE.exists():
        yield _wrong("software", f"{IMAGE} does not exist", f"apptainer build {IMAGE} {IMAGE.with_suffix('.def')}")
    elif cluster.software == "apptainer" and not os.access(IMAGE, os.R_OK):
        yield _wrong("software", f"{IMAGE} cannot be read", f"chmod a+r {IMAGE}")
    else:
        yield _right("software", cluster.software)


def _account(cluster: Cluster, description: Path) -> Iterator[Check]:
    """The account as Snakemake's plugin looks at it before each submission; Slurm itself may take any."""
    if cluster.account is None:
        return
    from snakemake_executor_plugin_slurm.accounts import validate_account  # a second, and rarely needed

    place = place_of(description, "account")
    try:
        validate_account(cluster.account, logging.getLogger(__name__))
    except (WorkflowError, OSError) as error:
        found = " ".join(str(error).split())
        if "appears to be invalid" in found:
            yield _wrong("account", found, f"{place}: Set the account to charge")
        else:
            remedy = f"{place}: Set null, and `export SBATCH_ACCOUNT={cluster.account}` where you start Snakemake"
            yield _wrong("account", f"{cluster.account} cannot be checked, and no job would be sent: {found}", remedy)
    else:
        yield _right("account", cluster.account)


def _right(about: str, found: str) -> Check:
    return Check(topic="slurm", about=about, ok=True, found=found)


def _wrong(about: str, found: str, remedy: str) -> Check:
    return Check(topic="slurm", about=about, ok=False, found=found, remedy=remedy)


def _diagnosis(checks: list[Check]) -> Diagnosis:
    return Diagnosis(online=False, checks=tuple(checks))
