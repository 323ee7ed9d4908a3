"""How much a job has to do, from the manifests alone: numbers of build and embedding shards, inputs, GPU hours.

Nothing here decides a result. Every job on a cluster parses the Snakefile again, so nothing is read or hashed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from medheb.manifest.load import Run
from medheb.manifest.model import Model
from medheb.manifest.rules import LOCAL_IMAGES, LOCAL_TEXTS, TEST_ROWS
from medheb.manifest.task import Task

# What an input costs where its size is unknown: a picture of 512 x 512, 64 slices of 512 x 512 as a video, a report,
# each with the words around it (published resize rules of the Qwen-VL processors).
PICTURE_TOKENS, VOLUME_TOKENS, TEXT_TOKENS = 300, 7_500, 250
FRAMES = 64
TEXT_IMAGES = 0.1  # a text in the towers' unit, a picture: 64 tokens stand against 500 to 1,000 patches
SECONDS_PER_HOUR = 3600


@dataclass(frozen=True)
class Amounts:
    """Distinct inputs of a job, at most: what tasks share is counted once, what they may share is not."""

    pictures: int = 0
    volumes: int = 0
    texts: int = 0

    def __add__(self, other: Amounts) -> Amounts:
        return Amounts(self.pictures + other.pictures, self.volumes + other.volumes, self.texts + other.texts)

    @property
    def inputs(self) -> int:
        """All of them."""
        return self.pictures + self.volumes + self.texts


def build_shards(run: Run, dataset: str) -> int:
    """Number of jobs that build a source."""
    manifest, options = run.datasets[dataset], run.config.build
    by_bytes = (manifest.build_bytes or 0) / (options.shard_gigabytes * 1e9)
    by_cases = (manifest.cases or 0) / options.shard_cases
    return max(1, math.ceil(by_bytes), math.ceil(by_cases))


def embed_shards(run: Run, model: str, group: str) -> int:
    """Number of jobs that embed a group of tasks; one where the model's speed is unknown."""
    entry = run.models[model]
    if entry.facts.gpu_seconds is None:
        return 1
    seconds = gpu_seconds(entry, amounts(run, group, towers=has_towers(entry))) or 0
    return max(1, math.ceil(seconds / 60 / run.config.embed.job_minutes))


def gpu_seconds(model: Model, wanted: Amounts) -> float | None:
    """Seconds of one GPU by the speed that the model's entry states; None where it states none."""
    speed = model.facts.gpu_seconds
    if speed is None:
        return None
    if speed.unit == "images":
        units = wanted.pictures + wanted.volumes * FRAMES + wanted.texts * TEXT_IMAGES
    else:
        units = wanted.pictures * PICTURE_TOKENS + wanted.volumes * VOLUME_TOKENS + wanted.texts * TEXT_TOKENS
    return units * speed.per_1000 / 1000


def has_towers(model: Model) -> bool:
    """True if pictures are embedded apart from text, so that all tasks of a group share them."""
    return model.facts.gpu_seconds is not None and model.facts.gpu_seconds.unit == "images"


def amounts(run: Run, group: str, towers: bool) -> Amounts:
    """Inputs of a group of tasks, at most.

    Args:
        run: the run.
        group: tasks that draw on the same sources.
        towers: pictures and texts are embedded apart; else each question on a picture is an input of its own.
    """
    tasks = run.tasks_of(group)
    sizes = [run.datasets[source].test_items for source in tasks[0].sources]
    # Where a size is unknown, as many as make a full test.
    items = sum(size or TEST_ROWS for size in sizes)
    rows = min(items, TEST_ROWS)
    asked = candidates = crops = texts = 0
    for task in tasks:
        asked += rows if task.family not in {"text-image", "text-text"} else 0
        crops += rows if task.family == "region" else 0
        candidates += _candidates(task, items, rows)
        texts += _texts(task, items, rows)
    # Candidates carry no instruction, so tasks share them; towers also share them with the queries.
    shown = min(items, asked + candidates) if towers else asked + min(items, candidates)
    shown += crops
    if all(task.form == "text" for task in tasks):
        return Amounts(texts=texts)
    return Amounts(0, shown, texts) if any(task.form == "3d" for task in tasks) else Amounts(shown, 0, texts)


def _candidates(task: Task, items: int, rows: int) -> int:
    """Pictures or volumes among a task's candidates; crops of regions count apart."""
    if task.family in {"image-image", "text-image"} and task.pool == "local":
        return min(items, rows * LOCAL_IMAGES)
    return rows if task.family in {"image-image", "text-image", "modality-bridging"} else 0


def _texts(task: Task, items: int, rows: int) -> int:
    """Texts of a task; the few labels of a class task do not count."""
    if task.family == "image-report":
        return min(items, rows * LOCAL_TEXTS)
    if task.family == "text-text":
        return rows + min(items, rows * LOCAL_TEXTS)
    return rows if task.family in {"vqa", "region"} or (task.family == "text-image" and task.pool == "global") else 0
