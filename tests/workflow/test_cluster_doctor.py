"""`medheb doctor --slurm` without a cluster: what refusals mean, which line they point to, what is asked for."""

import json
from pathlib import Path

import pytest
import yaml

from medheb.cluster.doctor import TOOLS, diagnose_cluster, probes, requests
from medheb.cluster.limits import gpus_of, hours_of
from medheb.cluster.probe import findings
from medheb.cluster.refusals import UNCLEAR, meaning_of, place_of
from medheb.manifest.cluster import Cluster, Gpu, Partition, load_cluster
from medheb.manifest.load import load_config, load_run

ROOT = Path(__file__).resolve().parents[2]
BASE = yaml.safe_load((ROOT / "slurm" / "config.yaml").read_text())
DESCRIPTION = """\
# a comment
account: lab
partitions:
  cpu: {hours: 24, cores: 8}
  gpu:
    hours: 12
    gpus: 2
gpu:
  request: gpus
"""


@pytest.mark.parametrize(
    ("message", "gpu", "key"),
    [
        ("sbatch: error: Batch job submission failed: Invalid partition name specified", None, "partitions.long"),
        ("Batch job submission failed: Invalid account or account/partition combination specified", None, "account"),
        ("Batch job submission failed: Invalid qos specification", None, "qos"),
        ("Batch job submission failed: Invalid generic resource (gres) specification", "", "gpu.type"),
        ("allocation failure: Invalid feature specification", "", "gpu.constraint"),
        ("Requested node configuration is not available", "h100", "gpu.type"),
        ("Requested node configuration is not available", "", "gpu.request"),
        ("Requested node configuration is not available", None, "partitions.long"),
        ("Requested time limit is invalid (missing or exceeds some limit)", None, "partitions.long.hours"),
        ("Memory specification can not be satisfied", None, "partitions.long.memory_gb"),
        ("CPU count per node can not be satisfied", None, "partitions.long.cores"),
        ("sbatch: unrecognized option '--nicer'", None, "sbatch_options"),
        ("PartitionTimeLimit", None, "partitions.long.hours"),
    ],
)
def test_a_refusal_names_the_key_that_is_at_fault(message: str, gpu: str | None, key: str) -> None:
    assert meaning_of(message, "long", gpu).key == key
    assert meaning_of(message, "long", gpu).advice


def test_without_partitions_the_advice_is_to_name_them() -> None:
    assert meaning_of("Requested time limit is invalid", None, None).key == "partitions"
    assert meaning_of("No partition specified or system default partition", None, None).key == "partitions"
    assert meaning_of("Requested node configuration is not available", None, "").key == "partitions"


def test_what_nobody_foresaw_goes_to_the_administrators() -> None:
    assert meaning_of("Zero bytes were transmitted or received", "cpu", None).advice == UNCLEAR
    assert meaning_of("Priority", "cpu", "").key == "", "a job that only waits is at no fault"


@pytest.mark.parametrize(
    ("key", "place"),
    [
        ("account", "line 2 (account)"),
        ("partitions.cpu", "line 4 (partitions.cpu)"),
        ("partitions.cpu.hours", "line 4 (partitions.cpu.hours)"),
        ("partitions.gpu.hours", "line 6 (partitions.gpu.hours)"),
        ("partitions.gpu.memory_gb", "line 5 (add partitions.gpu.memory_gb)"),
        ("gpu.request", "line 9 (gpu.request)"),
        ("qos", "(add qos)"),
    ],
)
def test_the_line_of_a_key_is_found(tmp_path: Path, key: str, place: str) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text(DESCRIPTION)
    assert place_of(path, key) == f"{path} {place}"


def test_every_key_that_a_refusal_can_name_is_one_of_the_example() -> None:
    shown = ROOT / "config" / "cluster.yaml"
    for key in (
        "account",
        "qos",
        "partitions",
        "gpu.request",
        "gpu.type",
        "gpu.constraint",
        "sbatch_options",
        "status",
    ):
        assert "add" not in place_of(shown, key), key


@pytest.mark.parametrize("path", sorted((ROOT / "config" / "clusters").glob("*.yaml")), ids=lambda path: path.stem)
def test_the_largest_job_of_each_kind_is_asked_for_within_the_limits(path: Path) -> None:
    cluster = load_cluster(path)
    asked = {(request.partition, request.gpu): request for request in requests(cluster, BASE)}
    assert {("cpu", False), ("gpu", True)} <= set(asked)
    assert (asked["gpu", True].memory, asked["gpu", True].minutes) == (32000, 240)
    assert asked["cpu", False].minutes == 480
    for (name, _), request in asked.items():
        if name in cluster.partitions:
            limits = cluster.partitions[name or ""]
            assert request.cores <= (limits.cores or request.cores)
            assert request.minutes <= (limits.hours or 10**6) * 60
            assert request.memory <= (limits.memory_gb or 10**6) * 1000


def test_what_gpu_partitions_give_does_not_cut_the_other_jobs_that_are_asked_about() -> None:
    cluster = Cluster.model_validate(
        {"partitions": {"cpu": {"hours": 48}, "gpu": {"hours": 3, "cores": 4, "memory_gb": 12, "gpus": 1}}}
    )
    without, with_gpu = requests(cluster, BASE)
    assert (without.cores, without.memory, without.minutes) == (8, 16000, 480)
    assert (with_gpu.cores, with_gpu.memory, with_gpu.minutes) == (4, 12000, 180)


def test_options_are_those_of_the_description() -> None:
    cluster = Cluster(
        account="lab",
        qos="high",
        partitions={"big": Partition(gpus=4)},
        gpu=Gpu(request="gres", type="h100", constraint="a|b"),
        sbatch_options="--nice=100",
    )
    (probe,) = probes(cluster)
    options = probe.options(cluster)
    for option in ("--partition=big", "--account=lab", "--qos=high", "--gres=gpu:h100:1", "--constraint=a|b"):
        assert option in options
    assert options[-1] == "--nice=100"
    without = [request.options(Cluster()) for request in probes(Cluster())]
    assert ["--gpus=1" in options for options in without] == [False, True]
    assert not any(option.startswith("--partition") for options in without for option in options)


def test_a_partition_for_downloads_is_probed_too() -> None:
    cluster = Cluster(partitions={"cpu": Partition()}, fetch="transfer")
    assert [(probe.partition, probe.gpu) for probe in probes(cluster)] == [
        ("cpu", False),
        (None, True),
        ("transfer", False),
    ]
    assert "transfer" in {request.partition for request in requests(cluster, BASE)}


@pytest.mark.parametrize(
    ("text", "hours"),
    [("1-00:00:00", 24), ("12:00:00", 12), ("30:00", 0.5), ("7-12:30:00", 180.5), ("infinite", None)],
)
def test_times_of_slurm(text: str, hours: float | None) -> None:
    assert hours_of(text) == hours


@pytest.mark.parametrize(
    ("text", "gpus"), [("gpu:h100:2(S:0-1),gpu:a100:1", 3), ("gpu:4", 4), ("(null)", 0), ("craynetwork:2", 0)]
)
def test_gpus_of_a_node(text: str, gpus: int) -> None:
    assert gpus_of(text) == gpus


def test_where_there_is_no_slurm_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("PATH", str(tmp_path))
    run = load_run(load_config([Path("config/config.yaml")]))
    (check,) = diagnose_cluster(run, Path("config/cluster.yaml")).checks
    assert not check.ok
    assert "sbatch" in check.found
    assert check.remedy == "Run this on a login node of the cluster"


def test_a_probe_tells_what_was_granted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    monkeypatch.setenv("SLURMD_NODENAME", "gpu7")
    found = findings()
    assert (found["granted"], found["node"]) == ("1", "gpu7")
    assert json.loads(json.dumps(found)) == found


def test_a_probe_has_room_for_torch_where_it_has_a_gpu() -> None:
    without, with_gpu = probes(Cluster(partitions={"cpu": Partition(), "gpu": Partition(gpus=1)}))
    assert (without.memory, without.minutes) == (500, 1)
    assert (with_gpu.memory, with_gpu.minutes) == (4000, 5)


@pytest.mark.parametrize(
    ("status", "said", "found"),
    [
        ("squeue", "MinJobAge = 300 sec", ""),
        ("squeue", "MinJobAge = 30 sec", "forgets finished jobs after 30 seconds"),
        ("sacct", "AccountingStorageType = accounting_storage/slurmdbd", ""),
        ("sacct", "AccountingStorageType = accounting_storage/none", "keeps no accounts"),
    ],
)
def test_how_jobs_are_followed_must_suit_the_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: str, said: str, found: str
) -> None:
    monkeypatch.chdir(ROOT)
    folder = tmp_path / "bin"
    folder.mkdir()
    for tool in TOOLS:
        command = folder / tool
        command.write_text(f"#!/bin/sh\necho '{said}'\n" if tool == "scontrol" else "#!/bin/sh\nexit 1\n")
        command.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    description = tmp_path / "cluster.yaml"
    description.write_text(f"account: null\nstatus: {status}\n")
    run = load_run(load_config([Path("config/config.yaml")]))
    (check,) = [one for one in diagnose_cluster(run, description).checks if one.about == "status"]
    assert check.ok == (not found)
    assert found in check.found
    if found:
        assert check.remedy.startswith(f"{description} line 2 (status): set ")


@pytest.mark.parametrize(
    ("sacctmgr", "found", "remedy"),
    [
        ("echo lab; echo Other", "", ""),
        ("echo other", "account lab appears to be invalid. Available accounts: other", "Set the account to charge"),
        ("echo no database >&2; exit 1", "no job would be sent", "Set null, and `export SBATCH_ACCOUNT=lab`"),
    ],
    ids=["good", "wrong", "closed to users"],
)
def test_an_account_that_snakemake_would_refuse_is_found_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sacctmgr: str, found: str, remedy: str
) -> None:
    monkeypatch.chdir(ROOT)
    folder = tmp_path / "bin"
    folder.mkdir()
    for tool in (*TOOLS, "sacctmgr", "sshare"):
        (folder / tool).write_text(f"#!/bin/sh\n{sacctmgr if tool == 'sacctmgr' else 'exit 1'}\n")
        (folder / tool).chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    description = tmp_path / "cluster.yaml"
    description.write_text("status: squeue\naccount: lab\n")
    run = load_run(load_config([Path("config/config.yaml")]))
    (check,) = [one for one in diagnose_cluster(run, description).checks if one.about == "account"]
    assert check.ok == (not found)
    assert found in check.found
    if found:
        assert check.remedy.startswith(f"{description} line 2 (account): {remedy}")
