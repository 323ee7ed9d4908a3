"""``medheb plan --slurm``: the jobs of a run, its GPU hours by model, and the disk that it fills. Asks nothing."""

from __future__ import annotations

from pydantic import Field

from medheb.cluster.sizes import SECONDS_PER_HOUR, Amounts, amounts, build_shards, embed_shards, gpu_seconds, has_towers
from medheb.manifest.base import Identifier, Strict
from medheb.manifest.cluster import LOGIN, Cluster
from medheb.manifest.load import Run
from medheb.manifest.model import Model
from medheb.manifest.weights import HubWeights

BYTES_PER_VALUE = 4  # vectors are kept as float32
LOCAL = {"all", "require_complete"}
FETCHING = {"fetch_source", "fetch_model"}


class RuleJobs(Strict):
    """Jobs of one rule."""

    rule: str
    jobs: int
    submitted: bool = Field(description="false: they run beside Snakemake, on the machine where it was started")


class ModelWork(Strict):
    """What one model has to embed."""

    model: Identifier
    title: str
    pictures: int = Field(description="at most")
    volumes: int = Field(description="at most; 64 slices each")
    texts: int = Field(description="at most")
    jobs: int
    gpu_hours: float | None = Field(description="by the speed that its entry states; null: it states none")
    longest_minutes: float | None = Field(description="of its longest job")
    store_bytes: int | None = Field(description="vectors; null: the size of a vector is not stated")


class BuildShards(Strict):
    """A source that several jobs build."""

    source: Identifier
    cases: int | None
    bytes: int | None
    jobs: int


class ClusterDisk(Strict):
    """What is known of the room that a run needs: lower bounds, with the count of what nobody has seen."""

    downloads: int
    downloads_unknown: int
    built: int = Field(description="unpacked and built")
    built_unknown: int
    inodes: int
    inodes_unknown: int
    weights: int = Field(description="downloads of models, which are used as they come")
    weights_unknown: int
    stores: int = Field(description="vectors")
    stores_unknown: int


class ClusterPlan(Strict):
    """What ``medheb plan --slurm --json`` prints."""

    schema_version: int = 1
    manifests: str
    sources: int
    tasks: int
    models: int = Field(description="with the two canaries")
    rules: tuple[RuleJobs, ...]
    jobs: int
    submitted: int
    shards: tuple[BuildShards, ...]
    work: tuple[ModelWork, ...]
    gpu_hours: float
    gpu_hours_unknown: int = Field(description="models without a stated speed; canaries need no GPU")
    disk: ClusterDisk


def make_cluster_plan(run: Run, cluster: Cluster) -> ClusterPlan:
    """Count jobs, GPU hours and bytes of a run from its manifests."""
    rules = job_counts(run)
    local = LOCAL | (FETCHING if cluster.fetch == LOGIN else set())
    counted = tuple(RuleJobs(rule=rule, jobs=jobs, submitted=rule not in local) for rule, jobs in rules.items())
    work = tuple(_work(run, model) for model in run.models.values())
    shards = tuple(
        BuildShards(source=key, cases=source.cases, bytes=source.build_bytes, jobs=build_shards(run, key))
        for key, source in run.datasets.items()
        if build_shards(run, key) > 1
    )
    return ClusterPlan(
        manifests=run.config.manifests,
        sources=len(run.datasets),
        tasks=len(run.tasks),
        models=len(run.models),
        rules=counted,
        jobs=sum(rules.values()),
        submitted=sum(rule.jobs for rule in counted if rule.submitted),
        shards=shards,
        work=work,
        gpu_hours=round(sum(one.gpu_hours or 0 for one in work), 2),
        gpu_hours_unknown=sum(one.gpu_hours is None and not run.models[one.model].canary for one in work),
        disk=_disk(run, work),
    )


def job_counts(run: Run) -> dict[str, int]:
    """Jobs of ``snakemake all`` by rule, from nothing: what its dry run lists."""
    builds = [build_shards(run, dataset) for dataset in run.datasets]
    embeds = [embed_shards(run, model, group) for model in run.models for group in run.groups]
    counts = {
        "fetch_source": len(run.with_index().datasets),
        "fetch_model": len(run.models),
        "build_images": len(run.datasets),
        "build_shard": sum(parts for parts in builds if parts > 1),
        "build_index": len(run.every_task),
        "record_digests": len(run.datasets),
        "fit_bridge": sum(model.bridge is not None for model in run.models.values()),
        "embed_shard": sum(parts for parts in embeds if parts > 1),
        "embed_inputs": len(embeds),
        "evaluate_task": len(run.models) * len(run.tasks),
        "evaluate_graded": len(run.models) * len(run.graded_entries),
        "collect_report": 1,
        "audit": 1,
        "require_complete": int(run.config.strict),
        "all": 1,
    }
    return {rule: jobs for rule, jobs in counts.items() if jobs}


def _work(run: Run, model: Model) -> ModelWork:
    total, jobs, longest = Amounts(), 0, 0.0
    for group in run.groups:
        wanted = amounts(run, group, towers=has_towers(model))
        parts = embed_shards(run, model.id, group)
        total, jobs = total + wanted, jobs + parts
        longest = max(longest, (gpu_seconds(model, wanted) or 0) / parts / 60)
    seconds = 0.0 if model.canary else gpu_seconds(model, total)
    dimension = model.facts.dimension
    return ModelWork(
        model=model.id,
        title=model.title,
        pictures=total.pictures,
        volumes=total.volumes,
        texts=total.texts,
        jobs=jobs,
        gpu_hours=None if seconds is None else round(seconds / SECONDS_PER_HOUR, 2),
        longest_minutes=None if seconds is None else round(longest, 1),
        store_bytes=None if dimension is None else total.inputs * dimension * BYTES_PER_VALUE,
    )


def _disk(run: Run, work: tuple[ModelWork, ...]) -> ClusterDisk:
    sources = run.with_index().datasets.values()
    stores = [one.store_bytes for one in work if not run.models[one.model].canary]
    folders = [folder for model in run.models.values() for folder in model.folders().values()]
    weights = [folder.download_bytes for folder in folders if isinstance(folder, HubWeights)]
    weights += [part.file.bytes for model in run.models.values() for part in model.weights()]
    return ClusterDisk(
        downloads=sum(source.download_bytes or 0 for source in sources),
        downloads_unknown=sum(source.download_bytes is None for source in sources),
        built=sum(source.disk_bytes or 0 for source in sources),
        built_unknown=sum(source.disk_bytes is None for source in sources),
        inodes=sum(source.inodes or 0 for source in sources),
        inodes_unknown=sum(source.inodes is None for source in sources),
        weights=sum(size or 0 for size in weights),
        weights_unknown=sum(size is None for size in weights),
        stores=sum(size or 0 for size in stores),
        stores_unknown=sum(size is None for size in stores),
    )
