"""`medheb plan --slurm`: numbers of jobs are those that Snakemake lists, and work follows the manifests."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from medheb.cluster.plan import ClusterPlan, job_counts, make_cluster_plan
from medheb.cluster.sizes import Amounts, amounts, build_shards, embed_shards, gpu_seconds
from medheb.manifest.cluster import Cluster
from medheb.manifest.load import Run, load_config, load_run
from medheb.manifest.model import Facts, GpuSeconds, Model, RandomAdapter

ROOT = Path(__file__).resolve().parents[2]
MOST_JOBS = 4000
SPEEDS = {
    "slow": GpuSeconds(per_1000=0.055, unit="tokens"),
    "fast": GpuSeconds(per_1000=0.001, unit="images"),
    "unknown": None,
}


@pytest.fixture(scope="module")
def run() -> Run:
    """The full benchmark with three models of different speed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        found = load_run(load_config([Path("config/config.yaml"), Path("config/full.yaml")]))
    for name, speed in SPEEDS.items():
        facts = Facts(gpu_seconds=speed, dimension=1000)
        found.models[name] = Model(id=name, title=name * 3, facts=facts, adapter=RandomAdapter(name="random"))
    return found


def dry_run(*arguments: str) -> dict[str, int]:
    command = [sys.executable, "-m", "snakemake", *arguments, "-n", "--forceall", "--quiet", "rules"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr[-2000:]
    listed = re.findall(r"^(\w+) +(\d+)$", result.stdout + result.stderr, flags=re.MULTILINE)
    counts = {rule: int(number) for rule, number in listed}
    return {rule: number for rule, number in counts.items() if rule != "total"}


@pytest.mark.parametrize("profile", [[], ["--profile", "slurm"]], ids=["local", "slurm"])
def test_the_whole_benchmark_has_the_jobs_that_the_manifests_say(
    profile: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    whole = load_run(load_config([Path("config/config.yaml"), Path("config/full.yaml")]))
    counts = dry_run(*profile, "all", "--configfile", "config/full.yaml")
    assert counts == job_counts(whole)
    print(f"{sum(counts.values())} jobs of {MOST_JOBS} allowed: {counts}")
    assert sum(counts.values()) <= MOST_JOBS


def test_the_demo_has_the_jobs_that_the_manifests_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    demo = load_run(load_config([Path("config/config.yaml"), Path("config/demo.yaml")]))
    assert dry_run("all", "--configfile", "config/demo.yaml") == job_counts(demo)


def test_shards_of_a_build_follow_bytes_and_cases(run: Run) -> None:
    assert build_shards(run, "ct_rate") == 11, "504 GB in jobs of 48"
    assert build_shards(run, "radgenome_chest_ct") == 4, "1,564 scans in jobs of 400"
    assert build_shards(run, "pathmnist") == 1
    for dataset, manifest in run.datasets.items():
        parts = build_shards(run, dataset)
        if parts > 1 and manifest.cases:
            assert 100 <= manifest.cases / parts <= 400, dataset


def test_towers_share_pictures_and_decoders_do_not(run: Run) -> None:
    # 7,180 pictures: 1,000 with the class question, 1,000 with the picture question, and all of them as candidates
    assert amounts(run, "pathmnist", towers=False) == Amounts(pictures=9180)
    assert amounts(run, "pathmnist", towers=True) == Amounts(pictures=7180)
    # 610 volumes: three times
    assert amounts(run, "organmnist3d", towers=False) == Amounts(volumes=1830)
    assert amounts(run, "medmcqa", towers=True) == Amounts(texts=1000 + 6150)


def test_seconds_follow_the_stated_speed(run: Run) -> None:
    assert gpu_seconds(run.models["fast"], Amounts(1000, 10, 10)) == pytest.approx((1000 + 640 + 1) * 1e-6)
    assert gpu_seconds(run.models["slow"], Amounts(1000, 10, 10)) == pytest.approx((300 + 75 + 2.5) * 0.055)
    assert gpu_seconds(run.models["unknown"], Amounts(1000, 10, 10)) is None


def test_only_the_largest_groups_of_a_slow_model_are_split(run: Run) -> None:
    parts = {group: embed_shards(run, "slow", group) for group in run.groups}
    assert parts["ct_rate"] == 2, "3,564 volumes at 7,500 tokens: 1,470 s and more"
    assert parts["vqa_rad"] == 1
    assert sum(number > 1 for number in parts.values()) < len(parts) / 10
    assert all(embed_shards(run, name, group) == 1 for name in ("fast", "unknown") for group in run.groups)


def test_the_plan_says_where_jobs_run_and_what_is_unknown(run: Run) -> None:
    plan = make_cluster_plan(run, Cluster())
    assert plan.jobs == sum(rule.jobs for rule in plan.rules)
    beside = {rule.rule for rule in plan.rules if not rule.submitted}
    assert {"all", "fetch_source", "fetch_model"} <= beside
    assert plan.submitted == plan.jobs - sum(rule.jobs for rule in plan.rules if rule.rule in beside)
    elsewhere = make_cluster_plan(run, Cluster(fetch="transfer"))
    assert {rule.rule for rule in elsewhere.rules if not rule.submitted} == beside - {"fetch_source", "fetch_model"}
    work = {one.model: one for one in plan.work}
    assert work["unknown"].gpu_hours is None
    assert work["random"].gpu_hours == 0
    assert work["slow"].gpu_hours is not None
    assert plan.gpu_hours_unknown == 1
    assert work["slow"].longest_minutes is not None
    assert work["slow"].longest_minutes <= run.config.embed.job_minutes
    inputs = work["slow"].pictures + work["slow"].volumes + work["slow"].texts
    assert work["slow"].store_bytes == inputs * 1000 * 4
    assert ClusterPlan.model_validate_json(plan.model_dump_json()) == plan


def test_no_resource_looks_at_the_size_of_inputs() -> None:
    """Snakemake's own default of disk_mb reads the size of every input: half of a dry run, and of each job's start."""
    profile = yaml.safe_load((ROOT / "slurm" / "config.yaml").read_text())
    assert isinstance(profile["default-resources"]["disk_mb"], int)
    for resources in [profile["default-resources"], *profile["set-resources"].values()]:
        assert not any("size" in str(value) for value in resources.values()), "names cost nothing, sizes do"
