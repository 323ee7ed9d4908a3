"""Figures of the embedding engine: batches of a realistic mix, and the pipeline that keeps a network busy."""

from __future__ import annotations

import csv
import os
import random
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from medheb.core.digests import sha256_bytes
from medheb.embed.devices import GPU_TOKENS
from medheb.embed.plan import plan_batches
from medheb.embed.reading import ImageReader
from medheb.embed.workers import PreparedBatches
from medheb.index.records import Item
from medheb.manifest.networks import Qwen3VLAdapter, SiglipAdapter
from medheb.models.base import Adapter, ImageRef, Rendered
from medheb.models.networks import open_adapter

TINY_CHECKPOINTS = Path(__file__).resolve().parents[1] / "tests" / "models"  # a tokenizer is all that planning needs
TASKS = Path(__file__).resolve().parents[1] / "manifests" / "tasks.tsv"
UNUSED = {"kind": "folder", "path": "unused"}
Task = list[tuple[Item, str, list[Item]]]  # query, instruction, candidates
FIXED_BATCH = 8
# Width and height in pixels of pictures as data sets have them: X-rays, endoscopy, skin, slides, thumbnails.
PICTURE_SIZES = ((2544, 3056), (1024, 1024), (1920, 1080), (720, 576), (640, 480), (512, 512), (600, 450), (224, 224))
SLICE_SIZES = ((512, 512), (256, 256), (240, 240))
CROP_SIZES = ((96, 96), (160, 120), (320, 240))
SLICES = 64
ROWS = 100
CLASSES, PICTURES, TEXTS, QUESTIONS_A_PICTURE = 8, 10, 30, 3
WORKERS, PIPELINE_PICTURES, ENCODE_SECONDS = 2, 480, 0.5


class Mix:
    """Made-up inputs for the 107 tasks of manifests/tasks.tsv: their families, forms, pools and shared sources.

    What the published material does not tell is assumed: a source has as many test pictures or volumes as a task has
    queries, and the pools are as large as in manifests/rules.yaml.

    Args:
        rows: queries of every task; the benchmark has 703 on average.
    """

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.draw = random.Random(0)
        self.sizes: dict[str, tuple[int, int]] = {}
        with TASKS.open(encoding="utf-8") as stream:
            tasks = list(csv.DictReader(stream, delimiter="\t"))
        self.tasks: list[Task] = []
        for source in dict.fromkeys(task["sources"] for task in tasks):
            self.tasks += self.of_source([task for task in tasks if task["sources"] == source])

    def of_source(self, tasks: list[dict[str, str]]) -> list[Task]:
        """Tasks of one source: all of them show the same pictures or volumes, and a class or report of each."""
        form = next((task["form"] for task in tasks if task["form"] != "text"), "text")
        shown = [] if form == "text" else self.items("image" if form == "2d" else "volume")
        classes = [self.text(3) for _ in range(CLASSES)]
        classed = any(task["family"] in {"image-label", "image-image"} for task in tasks)
        labels = [self.draw.choice(classes) for _ in shown] if classed else [self.text(4.5) for _ in shown]
        return [self.task(task, shown, classes, labels) for task in tasks]

    def task(self, task: dict[str, str], shown: list[Item], classes: list[Item], labels: list[Item]) -> Task:
        """One task in the family's form; a row of a global pool names its right candidate alone."""
        family, instruction = task["family"], task["qry_inst"] or "Find:"
        if family == "image-label":
            asked = [Item(one.modality, "What is the category?", one.images) for one in shown]
            return [(one, instruction, classes) for one in asked]
        if family == "image-image":
            return [(one, instruction, self.some(shown, PICTURES)) for one in shown]
        if family == "text-image":
            pools = [[one] if task["pool"] == "global" else self.some(shown, PICTURES) for one in shown]
            return [(label, instruction, pool) for label, pool in zip(labels, pools, strict=True)]
        if family == "image-report":
            reports = [self.text(4.5) for _ in shown]
            return [(one, instruction, self.some(reports, TEXTS)) for one in shown]
        if family == "vqa":
            answers = [self.text(2.5) for _ in range(self.rows // 2)]
            about = self.draw.choices(shown[: -(-self.rows // QUESTIONS_A_PICTURE)], k=self.rows)
            asked = [Item(one.modality, self.text(3.5).text, one.images) for one in about]
            return [(one, instruction, self.some(answers, TEXTS)) for one in asked]
        if family == "region":
            crops = [self.item("image", CROP_SIZES) for _ in shown]
            asked = [Item(one.modality, self.draw.choice(classes).text, one.images) for one in shown]
            return [(one, instruction, [crop]) for one, crop in zip(asked, crops, strict=True)]
        if family == "modality-bridging":
            return [(one, instruction, [other]) for one, other in zip(self.items("volume"), shown, strict=True)]
        answers = [self.text(5) for _ in range(self.rows)]
        return [(self.text(4), instruction, self.some(answers, TEXTS)) for _ in range(self.rows)]

    def items(self, modality: str) -> list[Item]:
        """Pictures or volumes of a source."""
        return [self.item(modality, PICTURE_SIZES if modality == "image" else SLICE_SIZES) for _ in range(self.rows)]

    def item(self, modality: str, sizes: Sequence[tuple[int, int]]) -> Item:
        """A picture, or a volume of one size."""
        size = self.draw.choice(sizes)
        names = tuple(f"{len(self.sizes) + number}.png" for number in range(SLICES if modality == "volume" else 1))
        self.sizes |= dict.fromkeys(names, size)
        return Item(modality, "", names)  # type: ignore[arg-type]

    def text(self, spread: float) -> Item:
        """Letters in the log-normal lengths of real texts."""
        length = min(2000, 8 + int(self.draw.lognormvariate(spread, 0.8)))
        return Item("text", "".join(self.draw.choices("abcdefgh ", k=length)), ())

    def some(self, items: list[Item], count: int) -> list[Item]:
        """So many candidates, or all if there are fewer."""
        return self.draw.sample(items, min(count, len(items)))


def bench_batches(folder: Path) -> Iterator[tuple[str, dict[str, float]]]:
    """Inputs and padding of our batches against batches of eight in file order, task by task.

    The published way embeds the query of every row and each task's distinct candidates; tasks share nothing. A plainer
    way embeds every query and candidate that the task files name. An input of a model with two towers is a picture, a
    text or an instruction: each is a pass of its own in the published code too.
    """
    sys.path.insert(0, str(TINY_CHECKPOINTS))
    from tiny_checkpoints import make_qwen3vl, make_siglip

    mix = Mix(ROWS)
    decoder = Qwen3VLAdapter.model_validate({"name": "qwen3vl", "weights": UNUSED})
    yield "batches_qwen3vl", batch_figures(open_adapter(decoder, make_qwen3vl(folder / "qwen3vl")), mix)
    towers = SiglipAdapter.model_validate({"name": "siglip", "weights": UNUSED, "instruction": "field"})
    yield "batches_siglip", batch_figures(open_adapter(towers, make_siglip(folder / "siglip")), mix)


def batch_figures(adapter: Adapter, mix: Mix) -> dict[str, float]:
    """What one model needs."""

    def size_of(ref: ImageRef) -> tuple[int, int]:
        return mix.sizes[ref.path]

    known: dict[str, int] = {}

    def length(part: Rendered) -> int:
        if part.key not in known:
            known[part.key] = adapter.tokens(part, size_of)
        return known[part.key]

    named = published = fixed_tokens = fixed_padded = 0
    parts: dict[str, Rendered] = {}
    for task in mix.tasks:
        row: list[Rendered] = []
        seen: dict[str, list[Rendered]] = {}
        for query, instruction, candidates in task:
            row += adapter.parts(rendered(adapter, query, instruction))
            for candidate in candidates:
                shown = rendered(adapter, candidate, "")
                pieces = adapter.parts(shown)
                named += len(pieces)
                seen.setdefault(shown.key, list(pieces))
        named += len(row)
        row += [piece for pieces in seen.values() for piece in pieces]
        published += len(row)
        for start in range(0, len(row), FIXED_BATCH):
            lengths = [length(part) for part in row[start : start + FIXED_BATCH]]
            fixed_tokens += sum(lengths)
            fixed_padded += len(lengths) * max(lengths)
        parts |= {part.key: part for part in row}
    batches = plan_batches(parts, {key: length(part) for key, part in parts.items()}, GPU_TOKENS, 2048)
    tokens = sum(sum(batch.tokens) for batch in batches)
    padded = sum(len(batch.tokens) * batch.tokens[0] for batch in batches)
    return {
        "inputs": len(parts),
        "of_published_way": len(parts) / published,
        "of_every_mention": len(parts) / named,
        "padded_by_tokens": padded / tokens,
        "padded_by_tokens_published_way": fixed_padded / fixed_tokens,
        "padded_of_published_way": padded / fixed_padded,
        "calls_of_published_way": len(batches) / (published / FIXED_BATCH),
        "calls": len(batches),
        "largest_batch": max(len(batch.tokens) * batch.tokens[0] for batch in batches),
    }


def rendered(adapter: Adapter, item: Item, instruction: str) -> Rendered:
    """An item with its pictures under made-up digests."""
    images = [ImageRef(name, f"{int(name.split('.')[0]):064x}") for name in item.images]
    return adapter.render(item, instruction, "query" if instruction else "candidate", images)


def bench_pipeline(folder: Path, workers: int, count: int, seconds: float) -> dict[str, float]:
    """Throughput with decoding in workers against a network that never waits, and against decoding in its process.

    The network is simulated: it takes ``seconds`` for a batch of sixteen pictures.
    """
    sys.path.insert(0, str(TINY_CHECKPOINTS))
    from tiny_checkpoints import make_siglip

    settings = SiglipAdapter.model_validate({"name": "siglip", "weights": UNUSED})
    adapter = open_adapter(settings, make_siglip(folder / "siglip"))
    parts = {part.key: part for part in (Rendered("image", images=(ref,)) for ref in pictures(folder / "data", count))}
    batches = plan_batches(parts, dict.fromkeys(parts, 1), 16, 16)
    reader = ImageReader(folder / "data")

    def run(processes: int) -> tuple[float, float]:
        """Seconds until the first batch is there, and from then on."""
        entered = first = time.monotonic()
        with PreparedBatches(adapter, reader, batches, processes) as ready:
            for number, _ in enumerate(ready):
                first = time.monotonic() if number == 0 else first
                time.sleep(seconds)
            return first - entered, time.monotonic() - first

    alone = len(batches) * seconds
    start, fed = run(workers)
    _, unfed = run(0)
    worked = time.process_time()
    for part in batches[0].parts:
        adapter.prepare(part, reader)
    return {
        "of_encode_only": alone / fed,
        "of_encode_only_without_workers": alone / unfed,
        "start_seconds": start,
        "decode_cpu_share_of_encode": (time.process_time() - worked) / seconds,
        "load": os.getloadavg()[0],
    }


def pictures(folder: Path, count: int) -> list[ImageRef]:
    """Grey pictures of 320 pixels as PNG."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    refs: list[ImageRef] = []
    for number in range(count):
        path = folder / f"{number:05}.png"
        coarse = Image.fromarray(rng.integers(0, 255, (20, 20), dtype=np.uint8))
        coarse.resize((320, 320), Image.Resampling.BICUBIC).save(path)
        refs.append(ImageRef(path.name, sha256_bytes(path.read_bytes())))
    return refs


if __name__ == "__main__":
    # Workers start from this file: the pipeline has a process of its own.
    figures = bench_pipeline(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))
    print(" ".join(f"{key}={value:.6g}" for key, value in figures.items()))
