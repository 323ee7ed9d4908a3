"""The embedding job: one model on every distinct input of the tasks that draw on the same sources."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from itertools import groupby

import numpy as np

from medheb.core.batches import batched
from medheb.core.errors import MedhebError
from medheb.core.status import OK, Status, first_trouble, read_status, status_of
from medheb.embed.inputs import distinct_inputs, distinct_parts
from medheb.embed.reading import ImageReader
from medheb.embed.receipt import Receipt, write_receipt
from medheb.embed.store import Store
from medheb.manifest.load import Run
from medheb.manifest.model import Model
from medheb.models.base import Adapter, Encoder, Prepared, Rendered, Vectors
from medheb.models.load import fingerprint, load_adapter, load_encoder

log = logging.getLogger("medheb.embed")


def embed_inputs(run: Run, model_id: str, group: str) -> Status:
    """Embed what the store lacks for a group of tasks, and write the receipt.

    Trouble becomes the receipt's status; what was embedded before it stays in the store.
    """
    model = run.models[model_id]
    started = time.monotonic()
    receipt = Receipt(model=model_id, group=group, status=OK)
    try:
        trouble = first_trouble(model_statuses(run, model))
        if trouble.ok:
            mark = fingerprint(model, run.layout)
            adapter = load_adapter(model, run.layout)
            inputs = distinct_inputs(run, adapter, group)
            parts = distinct_parts(adapter, inputs.values())
            computed = _fill_store(run, model, adapter, Store(run.layout.store(model_id) / mark, repair=True), parts)
            receipt = receipt.model_copy(update={"fingerprint": mark, "inputs": len(inputs), "computed": computed})
        else:
            receipt = receipt.model_copy(update={"status": trouble})
    except MedhebError as error:
        log.error("%s", error)
        receipt = receipt.model_copy(update={"status": status_of(error, f"embed {model_id} {group}")})
    seconds = round(time.monotonic() - started, 1)
    write_receipt(run.layout.embedded(model_id, group), receipt.model_copy(update={"seconds": seconds}))
    return receipt.status


def model_statuses(run: Run, model: Model) -> list[Status]:
    """Outcomes of all that must have happened before a model can embed."""
    statuses = [read_status(run.layout.model_status(model.id))]
    if model.bridge:
        statuses.append(read_status(run.layout.bridge_status(model.id)))
    return statuses


def _fill_store(run: Run, model: Model, adapter: Adapter, store: Store, inputs: dict[str, Rendered]) -> int:
    missing = [key for key in inputs if key not in store]
    log.info("%s: %d distinct inputs, %d of them new", model.id, len(inputs), len(missing))
    if not missing:
        return 0
    encoder = load_encoder(model, run.layout)
    read_image = ImageReader(run.layout.benchmark)
    started = time.monotonic()
    done = 0
    for keys in batched(missing, run.config.embed.shard_inputs):
        batch = [inputs[key] for key in keys]
        vectors = _encode(encoder, [adapter.prepare(part, read_image) for part in batch])
        refuse_unusable(model, batch, vectors)
        store.append(keys, vectors)
        done += len(keys)
        rate = done / (time.monotonic() - started)
        left = (len(missing) - done) / rate
        log.info("%s: %d/%d inputs, %.1f/s, %.0f s left", model.id, done, len(missing), rate, left)
    return done


def _encode(encoder: Encoder, prepared: Sequence[Prepared]) -> Vectors:
    """One modality at a time, the longest first, as an encoder takes it."""
    order = sorted(range(len(prepared)), key=lambda row: (sorted(prepared[row].arrays), -prepared[row].tokens))
    vectors = np.empty((len(prepared), encoder.dimension), dtype=np.float32)
    for _, rows in groupby(order, key=lambda row: sorted(prepared[row].arrays)):
        places = list(rows)
        vectors[places] = encoder.encode([prepared[row] for row in places])
    return vectors


def refuse_unusable(model: Model, batch: Sequence[Rendered], vectors: Vectors) -> None:
    """Stop before a vector that cannot be ranked enters the store.

    Raises:
        MedhebError: a vector with NaN or infinity, or of length zero, named by its input.
    """
    finite = np.isfinite(vectors).all(axis=1)
    lengths = np.linalg.norm(np.where(np.isfinite(vectors), vectors, 0), axis=1)
    for bad, what in ((~finite, "not finite"), (lengths < 1e-6, "of length zero")):
        if bad.any():
            first = batch[int(np.flatnonzero(bad)[0])]
            kind = f"{first.modality} input {first.key[:12]}"
            raise MedhebError(
                f"model {model.id}",
                f"gave {int(bad.sum())} vectors that are {what}, the first for {kind}",
                "Check its weights and settings; nothing of this batch was stored",
            )
