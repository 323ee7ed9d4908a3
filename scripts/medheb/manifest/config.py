"""The run's configuration. ``config/config.yaml`` is generated from this model (``medheb schema --fix``)."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from medheb.manifest.base import Identifier, RelativePath, Strict, TaskKey
from medheb.manifest.medemb import MedEmb


class Paths(Strict):
    """Folders of a run, relative to where it is started, or absolute."""

    sources: str = Field(default="results/sources", min_length=1, description="downloads and unpacked sources (large)")
    benchmark: str = Field(default="results/MedHEB", min_length=1, description="the rebuilt benchmark (large)")
    results: str = Field(default="results", min_length=1, description="embeddings, scores, report, audit")


class Transfer(Strict):
    """Downloads."""

    per_host: int = Field(default=4, ge=1, le=16, description="files at once from one host")
    attempts: int = Field(default=5, ge=1, description="tries of one file before it counts as blocked")
    bandwidth_mbit: float = Field(default=100.0, gt=0, description="assumed by `medheb plan` for its hours")


class Build(Strict):
    """The build step."""

    shard_gigabytes: float = Field(
        default=48.0, gt=0, description="decoded data of one build job; larger sources are split into several jobs"
    )
    shard_cases: int = Field(
        default=400, ge=1, description="cases (volumes, studies) of one build job; sources with more are split too"
    )


class Drr(Strict):
    """X-rays from CT (docs/drr.md)."""

    projector: Literal["auto", "release", "cone", "deepdrr"] = Field(
        default="auto",
        description="auto: release under protocol release; else deepdrr if `python` names its environment; else cone",
    )
    python: str | None = Field(
        default=None, description="interpreter of an environment with envs/deepdrr.txt, on machines with a CUDA GPU"
    )

    def chosen(self, protocol: Literal["release", "corrected"]) -> Literal["release", "cone", "deepdrr"]:
        """The projector that a run uses."""
        if self.projector != "auto":
            return self.projector
        if protocol == "release":
            return "release"
        return "deepdrr" if self.python else "cone"


class Embed(Strict):
    """The embedding step."""

    device: Literal["auto", "cpu", "cuda"] = Field(
        default="auto", description="auto: the GPUs of the job, else the CPU"
    )
    batch_tokens: int | None = Field(
        default=None, ge=1, description="most tokens of a batch; null: 32768 on a GPU, 4096 on a CPU"
    )
    workers: int | None = Field(
        default=None, ge=0, description="processes that decode images; null: by the job's threads; 0: none"
    )
    shard_inputs: int = Field(
        default=2048, ge=1, description="most inputs of a store shard; a killed job repeats at most one shard"
    )
    shard_minutes: float = Field(default=3.0, gt=0, description="a shard is written at least this often")
    job_minutes: float = Field(
        default=30.0,
        gt=0,
        description="GPU minutes that one job may need by the model's stated speed; larger groups of tasks are split",
    )


class Evaluate(Strict):
    """The evaluation step."""

    bootstrap_resamples: int = Field(default=2000, ge=100, description="resamples of the queries for an interval")
    confidence: float = Field(default=0.95, gt=0.5, lt=1, description="level of the intervals")


class Report(Strict):
    """The report step."""

    examples: int = Field(default=3, ge=0, description="example retrievals shown for each task")


class Config(Strict):
    """All options of a run. Several files may be given; later ones win key by key."""

    manifests: RelativePath = Field(
        default="manifests/demo", description="folder with datasets/, tasks.tsv and models.yaml"
    )
    paths: Paths = Paths()
    datasets: Literal["all"] | tuple[Identifier, ...] = Field(
        default="all", description="sources to build: all, or a list of ids"
    )
    tasks: Literal["all"] | tuple[TaskKey, ...] = Field(
        default="all", description="tasks to evaluate: all, or a list of keys"
    )
    models: Literal["all"] | tuple[Identifier, ...] = Field(
        default="all", description="models to evaluate: all that are enabled, or a list of ids; canaries always run"
    )
    weights: dict[Identifier, str] = Field(
        default={},
        description="model id: your own folder of its weights, as the hub lays them out; read in place, nothing is "
        "downloaded (docs/models.md)",
    )
    accept: Literal["asked", "open"] = Field(
        default="asked",
        description="asked: terms of every source must be accepted once with `medheb accept`; open: this line accepts "
        "the terms of all sources of access class open",
    )
    local_copies: dict[Identifier, str] = Field(
        default={}, description="source id: folder of your own copy (PhysioNet and others); verified, never copied out"
    )
    training: Literal["all"] | tuple[Identifier, ...] = Field(
        default=(),
        description="sources whose training part is fetched and built too though it is large (`training` in their "
        "manifests): all, or a list of ids; other training parts come by themselves",
    )
    transfer: Transfer = Transfer()
    protocol: Literal["release", "corrected"] = Field(
        default="corrected", description="release: as published, to compare numbers; corrected: as the paper says"
    )
    task_index: Literal["released", "rebuilt"] = Field(
        default="rebuilt",
        description="rebuilt: tasks by the written rules of this package; released: the benchmark's own task files, "
        "fetched as index.yaml beside tasks.tsv says and checked against the rebuilt images",
    )
    strict: bool = Field(default=False, description="end with an error if any cell of the report is missing")
    seed: int = Field(default=17, ge=0, description="seed of all sampling and resampling")
    build: Build = Build()
    drr: Drr = Drr()
    embed: Embed = Embed()
    evaluate: Evaluate = Evaluate()
    report: Report = Report()
    medemb: MedEmb = MedEmb()

    def trains(self, dataset: str) -> bool:
        """Is the training part of a source asked for, if it has a large one?"""
        return self.training == "all" or dataset in self.training
