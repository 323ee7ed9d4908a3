"""What every model must do before its scores mean anything, tried on a few made-up inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image

from medheb.core.errors import MedhebError
from medheb.index.records import Item, Modality
from medheb.models.base import Adapter, Encoder, ImageRef, Prepared, Rendered, Vectors

NOISE = {"float32": 1e-4, "bfloat16": 0.05}  # of a component of a unit vector, by number format
SEEN = {"float32": 1e-6, "bfloat16": 1e-3}  # less than this is no difference
SLICES = 3
SIDE = 96
INSTRUCTION, OTHER_INSTRUCTION = "Find a report that matches the given image:", "Represent the given image."
TEXT, OTHER_TEXT = "small left pleural effusion", "the liver is of normal size without any lesion"


@dataclass(frozen=True)
class Finding:
    """Outcome of one check; ``detail`` is empty where it passed."""

    check: str
    detail: str = ""


class Bench:
    """An opened model on made-up pictures.

    Args:
        adapter: the model without weights.
        encoder: its weights.
        pictures: whether it reads pictures.
    """

    def __init__(self, adapter: Adapter, encoder: Encoder, pictures: bool) -> None:
        self.adapter = adapter
        self.encoder = encoder
        generator = np.random.default_rng(17)
        self.images: dict[ImageRef, Image.Image] = {}
        for number in range(SLICES if pictures else 0):
            values = generator.integers(0, 90, (SIDE, SIDE, 3))
            values[20 * number : 20 * number + 40, 10:60] += 150
            self.images[ImageRef(f"{number}.png", f"{number:064x}")] = Image.fromarray(values.astype(np.uint8))
        self.refs = tuple(self.images)

    def render(self, text: str = "", images: Sequence[ImageRef] = (), instruction: str = "") -> Rendered:
        """What the model sees."""
        modality: Modality = "text" if not images else "image" if len(images) == 1 else "volume"
        item = Item(modality, text, tuple(image.path for image in images))
        return self.adapter.render(item, instruction, "query", images)

    def prepared(self, rendered: Rendered) -> list[Prepared]:
        """Its parts, processed."""
        return [self.adapter.prepare(part, self.images.__getitem__) for part in self.adapter.parts(rendered)]

    def vector(self, text: str = "", images: Sequence[ImageRef] = (), instruction: str = "") -> Vectors:
        """Its vector, each part encoded alone."""
        rendered = self.render(text, images, instruction)
        rows = [self.encoder.encode([part]) for part in self.prepared(rendered)]
        return self.adapter.combine(rendered, np.concatenate(rows))


def self_test(
    adapter: Adapter, encoder: Encoder, number_format: str, *, pictures: bool, instructed: bool
) -> list[Finding]:
    """Try an opened model.

    Args:
        adapter: the model without weights.
        encoder: its weights.
        number_format: in which its network computes; decides what counts as noise.
        pictures: whether it reads pictures.
        instructed: whether an instruction should change its vectors.

    Returns:
        One finding a check, in order; a check that could not be made is a finding with its reason.
    """
    bench = Bench(adapter, encoder, pictures)
    return [_tried(name, check) for name, check in _checks(bench, number_format, instructed)]


def _tried(name: str, check: Callable[[], str]) -> Finding:
    try:
        return Finding(name, check())
    except MedhebError as error:
        return Finding(name, f"{error.where}: {error.fault}")
    except (RuntimeError, ValueError, KeyError, IndexError, TypeError) as error:
        return Finding(name, (str(error).splitlines() or [type(error).__name__])[0][:200])


def _checks(bench: Bench, number_format: str, instructed: bool) -> Iterator[tuple[str, Callable[[], str]]]:
    noise, seen = NOISE[number_format], SEEN[number_format]
    one, volume = bench.refs[:1], bench.refs

    def differs(what: str, first: Vectors, second: Vectors) -> str:
        return "" if np.abs(first - second).max() > seen else f"{what} does not change the vector"

    yield "unit vector of a text", lambda: unit_trouble(bench.vector(TEXT))
    yield "text", lambda: differs("another text", bench.vector(TEXT), bench.vector(OTHER_TEXT))
    yield "batch", lambda: batch_trouble(bench, noise)
    if instructed:
        yield (
            "instruction",
            lambda: differs(
                "another instruction", *(bench.vector(TEXT, (), words) for words in (INSTRUCTION, OTHER_INSTRUCTION))
            ),
        )
    if volume:
        yield "unit vector of a picture", lambda: unit_trouble(bench.vector("", one, INSTRUCTION))
        yield "unit vector of a volume", lambda: unit_trouble(bench.vector("", volume, INSTRUCTION))
        yield "picture", lambda: differs("another picture", bench.vector("", one), bench.vector("", bench.refs[1:2]))
        yield (
            "question beside a picture",
            lambda: differs("another question", *(bench.vector(text, one, INSTRUCTION) for text in (TEXT, OTHER_TEXT))),
        )


def unit_trouble(vector: Vectors) -> str:
    """What is wrong with a vector that should be finite and of length one; empty if nothing is."""
    if not np.isfinite(vector).all():
        return "has NaN or infinity"
    length = float(np.linalg.norm(vector))
    return "" if abs(length - 1) < 1e-4 else f"has length {length:.4f}"


def batch_trouble(bench: Bench, noise: float) -> str:
    """Whether a vector depends on what else is in its batch; empty if it does not."""
    texts = [part for text in (OTHER_TEXT, TEXT, "liver") for part in bench.prepared(bench.render(text))]
    pictures = [part for image in bench.refs for part in bench.prepared(bench.render("", [image]))]
    for parts in (texts, pictures):
        if not parts:
            continue
        parts.sort(key=lambda part: -part.tokens)
        together = _unit(bench.encoder.encode(parts))
        alone = _unit(np.concatenate([bench.encoder.encode([part]) for part in parts]))
        worst = float(np.abs(together - alone).max())
        if worst > noise:
            return f"a vector depends on its batch: a component differs by {worst:.2g}, allowed {noise:.2g}"
    return ""


def _unit(rows: Vectors) -> Vectors:
    unit: Vectors = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return unit
