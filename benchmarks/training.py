"""Figures of MedEmb's training: padding of dynamic batches, and what batching and mask add to a step.

The pairs are those of the embedding benchmark's mix. Static batches of the nominal size, in the same order and padded
to their longest side, are the straightforward way.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from embedding import TINY_CHECKPOINTS, UNUSED, Mix, rendered
from torch import nn
from torch.nn.functional import normalize

from medheb.manifest.medemb import Batches
from medheb.manifest.networks import Qwen3VLAdapter
from medheb.models.base import ImageRef
from medheb.models.networks import open_adapter
from medheb.train.batching import best_fit, shuffled, with_partners
from medheb.train.loss import info_nce
from medheb.train.plan import budget_of
from medheb.train.sides import padded_tokens

OPTIONS = Batches()
ROWS = 100
# A network far smaller than the real one, so that the share of everything else is an upper bound.
WIDTH, LAYERS, PAIRS, TOKENS, ROUNDS = 256, 4, 32, 96, 9


def lengths_of(folder: Path) -> list[tuple[int, int]]:
    """Tokens of query and target of each pair of the mix."""
    sys.path.insert(0, str(TINY_CHECKPOINTS))
    from tiny_checkpoints import make_qwen3vl

    mix = Mix(ROWS)
    settings = Qwen3VLAdapter.model_validate({"name": "qwen3vl", "weights": UNUSED})
    adapter = open_adapter(settings, make_qwen3vl(folder / "model"))

    def size_of(ref: ImageRef) -> tuple[int, int]:
        return mix.sizes[ref.path]

    return [
        (
            adapter.tokens(rendered(adapter, query, instruction), size_of),
            adapter.tokens(rendered(adapter, candidates[0], ""), size_of),
        )
        for task in mix.tasks
        for query, instruction, candidates in task
    ]


def both(batch: Sequence[int], pairs: Sequence[tuple[int, int]]) -> list[int]:
    """Lengths of all that a batch encodes."""
    return [length for pair in batch for length in pairs[pair]]


def median_seconds(work: Callable[[], object]) -> float:
    """Of several rounds; the first warms up."""
    found: list[float] = []
    for _ in range(ROUNDS + 1):
        started = time.process_time()
        work()
        found.append(time.process_time() - started)
    return sorted(found[1:])[ROUNDS // 2]


def step_parts() -> tuple[float, float, float]:
    """CPU seconds of a step, of its loss with the mask, and of the plain loss."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(WIDTH, 4, 2 * WIDTH, batch_first=True, dropout=0.0)
    network = nn.TransformerEncoder(layer, LAYERS)
    inputs = torch.randn(2 * PAIRS, TOKENS, WIDTH)
    places = torch.arange(PAIRS)
    keys = torch.arange(PAIRS)
    vectors = normalize(torch.randn(2 * PAIRS, WIDTH), dim=-1).requires_grad_()

    def step() -> None:
        out = normalize(network(inputs)[:, -1], dim=-1)
        masked(out).backward()  # type: ignore[no-untyped-call]

    def masked(out: torch.Tensor) -> torch.Tensor:
        equal = keys[:, None] == keys[None]
        return info_nce(out[:PAIRS], out[PAIRS:], places, temperature=0.01, margin=0.1, equal=equal)

    def plain(out: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(out[:PAIRS] @ out[PAIRS:].T / 0.01, places, reduction="sum")

    def loss_alone(loss: Callable[[torch.Tensor], torch.Tensor]) -> float:
        return median_seconds(lambda: loss(vectors).backward())  # type: ignore[no-untyped-call]

    return median_seconds(step), loss_alone(masked), loss_alone(plain)


def bench_training(folder: Path) -> dict[str, float]:
    """Padding over real tokens, dynamic and static, and the share of batching and mask in a step."""
    pairs = lengths_of(folder)
    longest = [max(pair) for pair in pairs]
    usable = [pair for pair in shuffled(len(pairs), 1) if longest[pair] <= OPTIONS.longest]
    budget = budget_of(OPTIONS)
    started = time.process_time()
    batches = list(with_partners(best_fit(usable, longest, budget), longest, budget))
    planning = time.process_time() - started
    real = sum(sum(pairs[pair]) for pair in usable)
    static = [usable[start : start + OPTIONS.nominal_pairs] for start in range(0, len(usable), OPTIONS.nominal_pairs)]
    step, masked, plain = step_parts()
    return {
        "pairs": len(usable),
        "padding": sum(padded_tokens(both(batch, pairs)) for batch in batches) / real,
        "padding_one_length": sum(2 * len(batch) * max(longest[pair] for pair in batch) for batch in batches) / real,
        "padding_static": sum(2 * len(batch) * max(longest[pair] for pair in batch) for batch in static) / real,
        "padding_static_grouped": sum(padded_tokens(both(batch, pairs)) for batch in static) / real,
        "batches": len(batches),
        "batches_static": len(static),
        "mask_of_step": (masked - plain) / step,
        "batching_of_step": planning / len(batches) / step,
    }
