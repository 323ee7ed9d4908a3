"""Where everything of a run lies. The only place that knows folder names."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from medheb.core.shards import Shard


@dataclass(frozen=True)
class Layout:
    """Folders of one run.

    Args:
        sources: unpacked downloads, one folder a source, plus ``archives`` (content-addressed).
        benchmark: the rebuilt benchmark (``2D_Images``, ``3D_Task`` ... as the dataset card has them).
        results: everything computed from it.
    """

    sources: Path
    benchmark: Path
    results: Path

    # fetch
    def archive(self, sha256: str, name: str) -> Path:
        """A downloaded archive; shared by all sources that pin the same digest."""
        return self.sources / "archives" / sha256[:16] / name

    def source_status(self, dataset: str) -> Path:
        """Outcome of ``fetch`` for one source."""
        return self.sources / dataset / "status.json"

    def source_files(self, dataset: str) -> Path:
        """Unpacked files of one source; ``COMPLETE.json`` beside them comes last."""
        return self.sources / dataset / "files"

    def decision(self, dataset: str) -> Path:
        """Recorded decision of a user about the terms of one source."""
        return self.sources / "accepted" / f"{dataset}.json"

    # build
    def inventory(self, image_folder: str, dataset: str) -> Path:
        """List of what ``build`` wrote for a source, inside its image folder, written last."""
        return self.benchmark / image_folder / f"{dataset}.inventory.json"

    # index
    def task_index(self, index: str) -> Path:
        """Task JSON in the published record format."""
        return self.benchmark / index

    def task_status(self, index: str) -> Path:
        """Outcome of ``index`` for one task, beside its JSON."""
        return (self.benchmark / index).with_suffix(".status.json")

    def task_quality(self, index: str) -> Path:
        """Quality report of one task, beside its JSON."""
        return (self.benchmark / index).with_suffix(".quality.json")

    @property
    def train_data(self) -> Path:
        """Training rows of the in-distribution tasks."""
        return self.benchmark / "Train_Data"

    @property
    def train_summary(self) -> Path:
        """What came of the training rows of each task, written last."""
        return self.train_data / "train_data.json"

    # models, embed
    def model_folder(self, model: str) -> Path:
        """Weights of a model and what was fitted for it."""
        return self.results / "models" / model

    def model_status(self, model: str) -> Path:
        """Outcome of fetching a model's weights."""
        return self.model_folder(model) / "status.json"

    def bridge(self, model: str) -> Path:
        """Linear map from image space to text space of a dual encoder."""
        return self.model_folder(model) / "bridge.safetensors"

    def bridge_status(self, model: str) -> Path:
        """Outcome of fitting a model's bridge."""
        return self.model_folder(model) / "bridge.json"

    def store(self, model: str) -> Path:
        """Embedding store of a model: one folder per fingerprint in it."""
        return self.results / "embeddings" / model / "store"

    def embedded(self, model: str, group: str) -> Path:
        """Receipt of ``embed``: which store serves a group of tasks."""
        return self.results / "embeddings" / model / f"{group}.json"

    def embedded_shards(self, model: str, group: str) -> Path:
        """Receipts of the jobs that embed parts of a group, one file each."""
        return self.results / "embeddings" / model / "shards" / group

    def embedded_shard(self, model: str, group: str, shard: Shard) -> Path:
        """Receipt of a job that embeds a part of a group."""
        return self.embedded_shards(model, group) / f"{shard.number + 1}_of_{shard.count}.json"

    # evaluate
    def score(self, model: str, task: str) -> Path:
        """Metrics of one model on one task."""
        return self.results / "scores" / model / f"{task}.json"

    def per_query(self, model: str, task: str) -> Path:
        """Per-query ranks and top ten behind a score."""
        return self.results / "scores" / model / f"{task}.parquet"

    def graded(self, model: str, key: str) -> Path:
        """Metrics of one model on one graded task."""
        return self.results / "graded" / model / f"{key}.json"

    # train
    def medemb(self, size: str) -> Path:
        """Plan, checkpoints, adapter and merged weights of the reference model of one size."""
        return self.results / "medemb" / size

    # report, audit
    @property
    def report(self) -> Path:
        """Folder of the report. All of it may be passed on."""
        return self.results / "report"

    @property
    def local_only(self) -> Path:
        """Folder of pages that must not leave this machine; outside the report's, which people copy whole."""
        return self.results / "local_only"

    @property
    def audit(self) -> Path:
        """Folder of digests and roots."""
        return self.results / "audit"
