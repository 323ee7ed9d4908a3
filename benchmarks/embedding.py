"""Figures of the embedding engine: batches of a realistic mix, and the pipeline that keeps a network busy."""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from PIL import Image
from pydantic import TypeAdapter

from medheb.core.digests import sha256_bytes
from medheb.embed.devices import GPU_TOKENS
from medheb.embed.plan import plan_batches
from medheb.embed.reading import ImageReader
from medheb.embed.workers import PreparedBatches
from medheb.index.records import Item
from medheb.manifest.model import Adapter as AdapterSettings
from medheb.models.base import Adapter, ImageRef, Rendered
from medheb.models.networks import open_adapter

TINY_CHECKPOINTS = Path(__file__).resolve().parents[1] / "tests" / "models"  # a tokenizer is all that planning needs
Task = list[tuple[Item, str, list[Item]]]  # query, instruction, candidates
FIXED_BATCH = 8
# Width and height in pixels of pictures as data sets have them: X-rays, endoscopy, skin, slides, thumbnails.
PICTURE_SIZES = ((2544, 3056), (1024, 1024), (1920, 1080), (720, 576), (640, 480), (512, 512), (600, 450), (224, 224))
SLICE_SIZES = ((512, 512), (256, 256), (240, 240))
SLICES = 64


class Mix:
    """Made-up tasks in the proportions of the benchmark: pictures, questions about them, volumes, texts."""

    def __init__(self, scale: float) -> None:
        self.draw = random.Random(0)
        self.sizes: dict[str, tuple[int, int]] = {}
        pictures = [self.item("image", PICTURE_SIZES) for _ in range(int(2000 * scale))]
        shown = [self.item("image", PICTURE_SIZES) for _ in range(int(600 * scale))]
        volumes = [self.item("volume", SLICE_SIZES) for _ in range(int(200 * scale))]
        self.tasks = [
            *self.family(pictures, [f"finding number {number}" for number in range(14)]),
            *self.family(volumes, [self.text(4.5) for _ in volumes]),
            self.questions(shown, int(2000 * scale)),
            self.texts(int(1500 * scale)),
        ]

    def item(self, modality: str, sizes: Sequence[tuple[int, int]]) -> Item:
        """A picture, or a volume of one size."""
        size = self.draw.choice(sizes)
        names = tuple(f"{len(self.sizes) + number}.png" for number in range(SLICES if modality == "volume" else 1))
        self.sizes |= dict.fromkeys(names, size)
        return Item(modality, "", names)  # type: ignore[arg-type]

    def text(self, spread: float) -> str:
        """Letters in the log-normal lengths of real texts."""
        return "".join(self.draw.choices("abcdefgh ", k=min(2000, 8 + int(self.draw.lognormvariate(spread, 0.8)))))

    def family(self, items: list[Item], labels: list[str]) -> list[Task]:
        """Label or report, similar picture, and picture of a text, all over the same pictures or volumes."""
        names = [Item("text", label, ()) for label in labels]
        described = [self.draw.choice(names) for _ in items]
        return [
            [(Item(one.modality, "What is this?", one.images), "Find the class:", self.some(names)) for one in items],
            [(one, "Find a similar one:", self.some(items)) for one in items],
            [(name, "Find what this describes:", self.some(items)) for name in described],
        ]

    def questions(self, shown: list[Item], count: int) -> Task:
        """Several questions about each picture, four answers each."""
        return [
            (
                Item("image", self.text(3.5), self.draw.choice(shown).images),
                "Answer the question:",
                [Item("text", self.text(2.5), ()) for _ in range(4)],
            )
            for _ in range(count)
        ]

    def texts(self, count: int) -> Task:
        """Texts that look for texts."""
        answers = [Item("text", self.text(5), ()) for _ in range(count)]
        return [(Item("text", self.text(4), ()), "Find the answer:", self.some(answers)) for _ in range(count)]

    def some(self, items: list[Item]) -> list[Item]:
        """Ten candidates, or all if there are fewer."""
        return self.draw.sample(items, min(10, len(items)))


def bench_batches(folder: Path, scale: float = 1.0) -> Iterator[tuple[str, dict[str, float]]]:
    """Inputs and padding of our batches against batches of eight in file order, task by task.

    Two straightforward ways: every query and candidate as the task files name them, and each task's candidates once,
    as the published code has it.
    """
    sys.path.insert(0, str(TINY_CHECKPOINTS))
    from tiny_checkpoints import make_qwen3vl, make_siglip

    mix = Mix(scale)
    for name, make, settings in (
        ("qwen3vl", make_qwen3vl, {}),
        ("siglip", make_siglip, {"instruction": "field"}),
    ):
        content = {"name": name, "weights": {"kind": "folder", "path": "unused"}, **settings}
        adapter = open_adapter(TypeAdapter(AdapterSettings).validate_python(content), make(folder / name), None)
        yield f"batches_{name}", batch_figures(adapter, mix)


def batch_figures(adapter: Adapter, mix: Mix) -> dict[str, float]:
    """What one model needs."""

    def size_of(ref: ImageRef) -> tuple[int, int]:
        return mix.sizes[ref.path]

    known: dict[str, int] = {}

    def length(part: Rendered) -> int:
        if part.key not in known:
            known[part.key] = adapter.tokens(part, size_of)
        return known[part.key]

    named = once = fixed_tokens = fixed_padded = 0
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
        once += len(row)
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
        "of_all_mentions": len(parts) / named,
        "of_once_a_task": len(parts) / once,
        "padded_by_tokens": padded / tokens,
        "padded_by_tokens_fixed": fixed_padded / fixed_tokens,
        "padded_of_fixed": padded / fixed_padded,
        "calls": len(batches),
        "calls_fixed": once / FIXED_BATCH,
        "largest_batch": max(len(batch.tokens) * batch.tokens[0] for batch in batches),
    }


def rendered(adapter: Adapter, item: Item, instruction: str) -> Rendered:
    """An item with its pictures under made-up digests."""
    images = [ImageRef(name, f"{int(name.split('.')[0]):064x}") for name in item.images]
    return adapter.render(item, instruction, "query" if instruction else "candidate", images)


def bench_pipeline(folder: Path, workers: int = 2, count: int = 480, seconds: float = 0.5) -> dict[str, float]:
    """Throughput with decoding in workers against a network that never waits, and against decoding in its process.

    The network is simulated: it takes ``seconds`` for a batch of sixteen pictures.
    """
    sys.path.insert(0, str(TINY_CHECKPOINTS))
    from tiny_checkpoints import make_siglip

    content = {"name": "siglip", "weights": {"kind": "folder", "path": "unused"}}
    adapter = open_adapter(TypeAdapter(AdapterSettings).validate_python(content), make_siglip(folder / "siglip"), None)
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
    print(" ".join(f"{key}={value:.6g}" for key, value in bench_pipeline(Path(sys.argv[1])).items()))
