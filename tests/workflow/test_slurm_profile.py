"""The Slurm profile, what `medheb cluster apply` makes of it, and the queue of a run."""

from __future__ import annotations

import logging
import re
import shutil
import subprocess
import sys
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from snakemake_executor_plugin_slurm.partitions import get_best_partition, read_partition_file

from medheb.cluster import queue
from medheb.cluster.profile import EITHER, GPU_RULES, apply_cluster, outdated, partitions_of, profile_of
from medheb.cluster.rules import inputs_by_kind, runs_here
from medheb.core.errors import MedhebError
from medheb.manifest.cluster import Cluster, load_cluster

ROOT = Path(__file__).resolve().parents[2]
BASE = yaml.safe_load((ROOT / "slurm" / "config.yaml").read_text())
DEFAULT = yaml.safe_load((ROOT / "profiles" / "default" / "config.yaml").read_text())
EXAMPLES = sorted((ROOT / "config" / "clusters").glob("*.yaml"))


class Resources(dict):
    """Resources of a job: by key, and by attribute as Snakemake has them."""

    __getattr__ = dict.get


def at(expression: str | int, attempt: int, gpu: bool = False) -> int:
    """Value of a resource of the profile, as Snakemake evaluates it for a job with a GPU or without."""
    return int(eval(str(expression), {"attempt": attempt, "input": inputs_by_kind(int(gpu), ["a file"])}))


def kinds(rule: str) -> tuple[bool, ...]:
    """Whether the jobs of a rule have a GPU: yes, no, or both."""
    return (True, False) if rule in EITHER else (rule in GPU_RULES,)


def test_memory_and_time_grow_with_each_attempt() -> None:
    assert BASE["retries"] >= 2
    for resources in (BASE["default-resources"], *BASE["set-resources"].values()):
        for key in ("mem_mb", "runtime"):
            assert at(resources[key], 1) < at(resources[key], 2) < at(resources[key], 3)
        assert at(resources["mem_mb"], 1) >= 1000, "two processes of Snakemake are part of each job"


def test_cpus_are_asked_for_whatever_the_login_node_has() -> None:
    cpus = {
        rule: values["cpus_per_task"] for rule, values in BASE["set-resources"].items() if "cpus_per_task" in values
    }
    assert cpus == BASE["set-threads"]


def test_settings_that_lose_work_or_hang_are_out() -> None:
    assert BASE["slurm-status-command"] == "squeue"
    assert BASE["slurm-no-requeue"] is True
    assert not {"slurm-array-jobs", "group-components", "groups", "config"} & set(BASE)
    assert BASE["slurm-jobname-prefix"] + "_" == queue.PREFIX
    text = "".join(path.read_text() for path in (ROOT / "workflow" / "rules").glob("*.smk"))
    assert not re.search(r"^\s+group:", text, flags=re.MULTILINE)


def test_the_local_profile_overrules_nothing_of_the_cluster() -> None:
    assert not set(DEFAULT) & set(BASE), "profiles/default beats --profile key by key"


def test_profile_sizes_each_rule_that_is_submitted_and_no_other() -> None:
    text = "".join(path.read_text() for path in (ROOT / "workflow" / "rules").glob("*.smk"))
    rules = dict(re.findall(r"^rule (\w+):\n((?:(?:    .*)?\n)*)", text, flags=re.MULTILINE))
    submitted = {rule for rule, body in rules.items() if "    localrule: True\n" not in body}
    # default-resources are for values that a rule lacks: where it has its own, as all of ours, nothing would grow.
    assert set(BASE["set-resources"]) == submitted
    assert set(BASE["set-threads"]) <= submitted


def test_the_neutral_cluster_changes_nothing() -> None:
    assert load_cluster(ROOT / "config" / "cluster.yaml") == Cluster()
    assert profile_of(BASE, Cluster()) == BASE


def test_the_example_file_shows_every_key() -> None:
    shown = yaml.safe_load((ROOT / "config" / "cluster.yaml").read_text())
    assert set(shown) == set(Cluster.model_fields)
    assert set(shown["gpu"]) == set(type(Cluster().gpu).model_fields)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_no_attempt_asks_for_more_than_the_largest_partition_gives(path: Path) -> None:
    cluster = load_cluster(path)
    profile = profile_of(BASE, cluster)
    for rule, resources in profile["set-resources"].items():
        for gpu in kinds(rule):
            kind = [part for part in cluster.partitions.values() if bool(part.gpus) == gpu]
            assert at(resources["runtime"], 99, gpu) == max(part.hours or 0 for part in kind) * 60
            assert at(resources["mem_mb"], 99, gpu) == max(part.memory_gb or 0 for part in kind) * 1000
    assert set(partitions_of(cluster)["partitions"]) == {"cpu", "gpu"}


@pytest.mark.parametrize(
    "partitions",
    [
        {"cpu": {}, "gpu": {"hours": 24, "cores": 32, "memory_gb": 250, "gpus": 4}},
        {
            "cpu": {"hours": 168, "cores": 128, "memory_gb": 500},
            "gpu": {"hours": 24, "cores": 8, "memory_gb": 60, "gpus": 1},
        },
        {
            "short": {"hours": 4, "cores": 64, "memory_gb": 250},
            "long": {"hours": 168, "cores": 64, "memory_gb": 250},
            "gpu_short": {"hours": 4, "cores": 16, "memory_gb": 120, "gpus": 4},
            "gpu_long": {"hours": 48, "cores": 16, "memory_gb": 120, "gpus": 4},
        },
        {
            "cpu": {"hours": 4, "cores": 4, "memory_gb": 10},
            "gpu": {"hours": 48, "cores": 32, "memory_gb": 500, "gpus": 4},
        },
        *(load_cluster(path).model_dump()["partitions"] for path in EXAMPLES),
    ],
    ids=["unlimited", "tight", "several", "tight cpu", *(path.stem for path in EXAMPLES)],
)
def test_only_jobs_with_a_gpu_go_where_gpus_are(tmp_path: Path, partitions: dict) -> None:
    cluster = Cluster.model_validate({"partitions": partitions})
    profile = profile_of(BASE, cluster)
    file = tmp_path / "partitions.yaml"
    file.write_text(yaml.safe_dump(partitions_of(cluster)))
    known = read_partition_file(file)
    for rule, own in profile["set-resources"].items():
        if rule == "fit_medemb":
            continue  # not part of `all`: more GPUs than these nodes have
        for gpu, attempt in product(kinds(rule), (1, 2, 3)):
            asked = {**profile["default-resources"], **own, "gpu": int(gpu)}
            asked |= {key: at(asked[key], attempt, gpu) for key in ("mem_mb", "runtime")}
            threads = at(profile["set-threads"].get(rule, 1), attempt, gpu)
            asked["cpus_per_task"] = at(asked.get("cpus_per_task", 1), attempt, gpu)
            job = SimpleNamespace(name=rule, threads=threads, resources=Resources(asked))
            chosen = get_best_partition(known, job, logging.getLogger())
            assert chosen, f"{rule}: the default partition would take it"
            assert bool(cluster.partitions[chosen].gpus) == gpu, f"{rule}, attempt {attempt}: {chosen}"
            limits = cluster.partitions[chosen]
            assert asked["runtime"] <= (limits.hours or 10**6) * 60, f"{rule}, attempt {attempt}: {chosen}"
            assert asked["mem_mb"] <= (limits.memory_gb or 10**6) * 1000, f"{rule}, attempt {attempt}: {chosen}"
            assert threads <= (limits.cores or 10**6), f"{rule}: {chosen}"


def test_no_job_asks_for_more_cores_than_a_node_has() -> None:
    cluster = Cluster.model_validate({"partitions": {"cpu": {"cores": 6}, "gpu": {"cores": 4, "gpus": 1}}})
    profile = profile_of(BASE, cluster)
    wanted = {"build_shard": 6, "build_images": 4, "embed_inputs": 4, "record_digests": 2}
    for rule, cores in wanted.items():
        assert at(profile["set-threads"][rule], 1, rule in GPU_RULES) == cores
        assert at(profile["set-resources"][rule]["cpus_per_task"], 1, rule in GPU_RULES) == cores
    assert at(profile["set-threads"]["build_shard"], 1, gpu=True) == 4, "X-rays of DeepDRR"


def test_where_all_nodes_have_gpus_the_other_jobs_stay_below_their_limits_too() -> None:
    cluster = Cluster.model_validate({"partitions": {"all": {"hours": 12, "cores": 4, "memory_gb": 20, "gpus": 4}}})
    shard = profile_of(BASE, cluster)["set-resources"]["build_shard"]
    assert (shard["cpus_per_task"], at(shard["mem_mb"], 3), at(shard["runtime"], 3)) == (4, 20000, 720)


def dry_run(folder: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "snakemake", "--profile", "slurm", "all", "-n", *arguments]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout + result.stderr


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """What a fresh clone holds of the workflow."""
    for name in ("Snakefile", "workflow", "profiles", "envs", "manifests"):
        (tmp_path / name).symlink_to(ROOT / name)
    shutil.copytree(ROOT / "config", tmp_path / "config")
    (tmp_path / "slurm").mkdir()
    shutil.copy(ROOT / "slurm" / "config.yaml", tmp_path / "slurm")
    return tmp_path


@pytest.mark.parametrize(
    ("name", "with_gpu", "without"),
    [
        (None, "gpu=1", "gpu=0"),
        ("gpus", "gpu=1", "gpu=0"),
        ("gres", "gres=gpu:1, constraint=a100|h100", "gres=, constraint="),
        ("typed", "gpu=1, gpu_model=h100", "gpu=0, gpu_model="),
    ],
)
def test_each_example_cluster_asks_for_gpus_in_its_way(
    clone: Path, name: str | None, with_gpu: str, without: str
) -> None:
    if name:
        file = clone / "config" / "clusters" / f"{name}.yaml"
        apply_cluster(load_cluster(file), file, clone)
    listed = dry_run(clone, "--configfile", "config/demo.yaml")
    jobs = re.findall(
        r"^rule embed_inputs:.*?wildcards: model=(\w+).*?resources: ([^\n]*)", listed, re.DOTALL | re.MULTILINE
    )
    assert {model for model, _ in jobs} > {"random", "constant"}
    for model, resources in jobs:
        expected = without if model in {"random", "constant"} else with_gpu
        assert f", {expected}," in f"{resources.replace('cpus_per_task=8, ', '')},", model
        assert "cpus_per_task=8" in resources


@pytest.mark.parametrize(
    ("projector", "gpus", "cores", "memory", "minutes"),
    [
        ("deepdrr", 1, 4, [12000, 12000, 12000], [180, 180, 180]),
        ("cone", 0, 8, [16000, 32000, 48000], [480, 960, 1440]),
    ],
)
def test_a_build_stays_within_the_partitions_that_it_goes_to(
    clone: Path, projector: str, gpus: int, cores: int, memory: list[int], minutes: list[int]
) -> None:
    file = clone / "config" / "cluster.yaml"
    file.write_text(
        "partitions:\n"
        "  cpu: {hours: 48, cores: 64, memory_gb: 250}\n"
        "  gpu: {hours: 3, cores: 4, memory_gb: 12, gpus: 4}\n"
    )
    apply_cluster(load_cluster(file), file, clone)
    mine = clone / "my.yaml"
    mine.write_text(f"datasets: [ct_rate]\nmodels: [siglip]\ndrr: {{projector: {projector}}}\n")
    listed = dry_run(clone, "--configfile", "config/full.yaml", "my.yaml")
    jobs = re.findall(r"^rule build_shard:.*?resources: ([^\n]*)", listed, re.DOTALL | re.MULTILINE)
    assert len(jobs) > 1
    for job in jobs:
        for part in (f"gpu={gpus}", f"cpus_per_task={cores}", f"mem_mb={memory[0]}", f"runtime={minutes[0]}"):
            assert f", {part}," in f", {job},", job
    shard = yaml.safe_load((clone / "slurm" / "config.v9+.yaml").read_text())["set-resources"]["build_shard"]
    assert [at(shard["mem_mb"], attempt, bool(gpus)) for attempt in (1, 2, 3)] == memory
    assert [at(shard["runtime"], attempt, bool(gpus)) for attempt in (1, 2, 3)] == minutes


def test_downloads_run_where_snakemake_runs_unless_a_partition_is_named(clone: Path) -> None:
    assert "slurm_partition" not in dry_run(clone, "--configfile", "config/demo.yaml")
    file = clone / "config" / "clusters" / "gpus.yaml"
    apply_cluster(load_cluster(file), file, clone)
    listed = dry_run(clone, "--configfile", "config/demo.yaml")
    with_partition = re.findall(
        r"^rule (\w+):(?:(?!^rule).)*?slurm_partition=transfer", listed, re.DOTALL | re.MULTILINE
    )
    assert set(with_partition) == {"fetch_source", "fetch_model"}
    for settings, here in (({}, True), ({"fetch_source": {"slurm_partition": "transfer"}}, False)):
        workflow = SimpleNamespace(resource_settings=SimpleNamespace(overwrite_resources=settings))
        assert runs_here(workflow, "fetch_source") is here


def test_a_profile_older_than_its_description_is_named(clone: Path) -> None:
    file = clone / "config" / "cluster.yaml"
    assert outdated(clone) is None, "none was made"
    apply_cluster(load_cluster(file), file, clone)
    assert outdated(clone) is None
    file.write_text(file.read_text().replace("jobs: 100", "jobs: 7"))
    assert "config/cluster.yaml or slurm/config.yaml: medheb cluster apply" in str(outdated(clone))
    apply_cluster(load_cluster(file), file, clone)
    assert outdated(clone) is None
    assert yaml.safe_load((clone / "slurm" / "config.v9+.yaml").read_text())["jobs"] == 7
    file.unlink()
    assert outdated(clone)


def test_a_description_that_snakemake_does_not_use_is_named(clone: Path) -> None:
    file, example = clone / "config" / "cluster.yaml", clone / "config" / "clusters" / "gres.yaml"
    file.write_text(file.read_text().replace("account: null", "account: lab"))
    assert outdated(clone) == "config/cluster.yaml was never applied: medheb cluster apply config/cluster.yaml"
    apply_cluster(load_cluster(example), example, clone)
    assert outdated(clone) is None, "another file was meant"
    assert outdated(clone, example) is None
    assert str(outdated(clone, file)).endswith(f"gres.yaml: medheb cluster apply {file}")
    (clone / "slurm" / "config.v9+.yaml").unlink()
    file.write_text("acount: lab\n")
    assert "key 'acount' is not known" in str(outdated(clone))
    file.unlink()
    assert outdated(clone) is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("account: 'a; rm -rf /'", "key 'account'"),
        ("partition: gpu", "key 'partition' is not known"),
        ("gpu: {request: gpu}", "Allowed: 'gpus' or 'gres'"),
        ("sbatch_options: --nice=$(id)", "key 'sbatch_options'"),
        ("partitions: {gpu: {hours: 0}}", "key 'partitions.gpu.hours'"),
    ],
)
def test_wrong_descriptions_are_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text(text)
    with pytest.raises(MedhebError) as refused:
        load_cluster(path)
    assert said in str(refused.value)


@pytest.fixture
def squeue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A queue in a file; scancel takes jobs out of it."""
    tools, jobs = tmp_path / "bin", tmp_path / "queue"
    tools.mkdir()
    (tools / "squeue").write_text(f"#!/bin/sh\ncat {jobs}\n")
    (tools / "scancel").write_text(f'#!/bin/sh\nfor job; do sed -i "/^$job|/d" {jobs}; done\n')
    for tool in tools.iterdir():
        tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")
    return jobs


def test_only_jobs_of_this_folder_count_as_its_orphans(tmp_path: Path, squeue: Path) -> None:
    mine, odd = tmp_path / "run", tmp_path / "run|2"
    squeue.write_text(
        f"11|RUNNING|medheb_aa|rule_embed_inputs_wildcards_siglip_mrnet|{mine}\n"
        f"12|PENDING|medheb_aa|rule_audit|{mine}\n"
        f"13|RUNNING|medheb_bb|rule_audit|{tmp_path}\n"
        f"14|RUNNING|other|rule_audit|{mine}\n"
        f"15|PENDING|medheb_cc|rule_audit|{odd}\n"
    )
    jobs = queue.queued_jobs(mine)
    assert [(job.number, job.waiting, job.work) for job in jobs] == [
        ("11", False, "embed_inputs siglip_mrnet"),
        ("12", True, "audit"),
    ]
    assert [job.number for job in queue.queued_jobs(odd)] == ["15"]


def test_orphans_that_wait_are_cancelled_and_those_that_run_only_on_demand(
    tmp_path: Path, squeue: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [f"1|RUNNING|medheb_a|rule_audit|{tmp_path}", f"2|PENDING|medheb_a|rule_collect_report|{tmp_path}"]
    squeue.write_text("\n".join(lines) + "\n")
    told: list[str] = []

    def ends(_: float) -> None:
        if len(told) == 2:  # told that it waits for what runs: now that ends
            squeue.write_text("")

    monkeypatch.setattr(queue.time, "sleep", ends)
    queue.end_orphans(tmp_path, cancel=False, tell=told.append)
    assert told[0] == "cancelled: 1 jobs of an earlier start (collect_report, Slurm job 2)"
    assert told[1].startswith(
        "waiting for 1 running jobs of an earlier start, whose results will count (audit, Slurm job 1)"
    )
    squeue.write_text("\n".join(lines) + "\n")
    told.clear()
    queue.end_orphans(tmp_path, cancel=True, tell=told.append)
    assert told == ["cancelled: 2 jobs of an earlier start (1 audit, 1 collect_report)"]


def test_a_machine_without_slurm_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MedhebError, match=r"squeue: is not on this machine\. Run this on a login node"):
        queue.queued_jobs(tmp_path)
