"""Batches through the network: half the budget once memory runs out, a clear end when the device is lost."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NoReturn

import numpy as np

from medheb.core.errors import MedhebError
from medheb.embed.devices import device_title, free_memory, trouble_of
from medheb.embed.plan import Batch
from medheb.models.base import Encoder, Prepared, Vectors

log = logging.getLogger("medheb.embed")


@dataclass
class Runner:
    """Runs batches and counts what they cost.

    Args:
        model: its id, for messages.
        device: where the weights are.
        budget: most tokens of a batch.
    """

    model: str
    device: str
    budget: int
    halved: bool = False
    batches: int = 0
    tokens: int = 0
    padded: int = 0
    notes: list[str] = field(default_factory=list)

    def run(self, encoder: Encoder, batch: Batch, prepared: Sequence[Prepared]) -> Vectors:
        """Vectors of a batch, float32 [n, d].

        Raises:
            MedhebError: memory runs out even with half the budget, the device failed, or a vector cannot be used.
        """
        if self.halved:
            return self._in_halves(encoder, batch, prepared)
        try:
            return self._once(encoder, batch, prepared)
        except (RuntimeError, MemoryError) as error:
            if trouble_of(error) != "memory" or len(batch.keys) == 1:
                self._refuse(error, batch)
            note = f"memory of {device_title(self.device)} ran out: batches of {self.budget // 2} tokens"
            log.warning("%s: %s", self.model, note)
            self.notes.append(note)
            self.halved = True
        free_memory(self.device)
        return self._in_halves(encoder, batch, prepared)

    def _in_halves(self, encoder: Encoder, batch: Batch, prepared: Sequence[Prepared]) -> Vectors:
        found: list[Vectors] = []
        start = 0
        for half in batch.smaller(self.budget // 2):
            end = start + len(half.keys)
            try:
                found.append(self._once(encoder, half, prepared[start:end]))
            except (RuntimeError, MemoryError) as error:
                self._refuse(error, half)
            start = end
        return np.concatenate(found)

    def _once(self, encoder: Encoder, batch: Batch, prepared: Sequence[Prepared]) -> Vectors:
        vectors = np.ascontiguousarray(encoder.encode(prepared), dtype=np.float32)
        if vectors.shape != (len(prepared), encoder.dimension):
            raise MedhebError(
                f"model {self.model}",
                f"gave vectors of shape {vectors.shape} for {len(prepared)} inputs of {encoder.dimension} values",
                "Mend its adapter",
            )
        refuse_unusable(self.model, batch, vectors)
        self.batches += 1
        self.tokens += sum(part.tokens for part in prepared)
        self.padded += len(prepared) * max(part.tokens for part in prepared)
        return vectors

    def _refuse(self, error: Exception, batch: Batch) -> NoReturn:
        refuse_trouble(error, self.model, self.device, f"with {len(batch.keys)} inputs of {batch.tokens[0]} tokens")


def refuse_trouble(error: Exception, model: str, device: str, doing: str) -> NoReturn:
    """Say what it means that memory ran out or a device failed; any other error goes on as it is.

    Raises:
        MedhebError: the two kinds of trouble.
    """
    reason = (str(error).splitlines() or [type(error).__name__])[0][:200]
    match trouble_of(error):
        case "memory":
            raise MedhebError(
                f"model {model}",
                f"does not fit into the memory of {device} {doing}",
                "Set embed.batch_tokens lower, or use a GPU with more memory",
            ) from error
        case "device":
            raise MedhebError(
                f"device {device}",
                f"was lost or failed ({reason})",
                "What was embedded before is kept; run `medheb retry`, then the workflow, if need be on another node",
            ) from error
    raise error


def refuse_unusable(model: str, batch: Batch, vectors: Vectors) -> None:
    """Stop before a vector that cannot be ranked enters the store.

    Raises:
        MedhebError: a vector with NaN or infinity, or of length zero, named by its input.
    """
    finite = np.isfinite(vectors).all(axis=1)
    lengths = np.linalg.norm(np.where(np.isfinite(vectors), vectors, 0), axis=1)
    for bad, what in ((~finite, "not finite"), (lengths < 1e-6, "of length zero")):
        if bad.any():
            first = batch.parts[int(np.flatnonzero(bad)[0])]
            kind = f"{first.modality} input {first.key[:12]}"
            raise MedhebError(
                f"model {model}",
                f"gave {int(bad.sum())} vectors that are {what}, the first for {kind}",
                "Check its weights and settings; nothing of this batch was stored",
            )
