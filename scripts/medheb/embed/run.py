"""The embedding job: one model on every distinct input of the tasks that draw on the same sources."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

import numpy as np

from medheb.core.batches import batched
from medheb.core.errors import MedhebError
from medheb.core.status import OK, Status, first_trouble, read_status, status_of
from medheb.embed.inputs import image_reader, render_task
from medheb.embed.receipt import Receipt, write_receipt
from medheb.embed.store import Store
from medheb.manifest.load import Run
from medheb.manifest.model import Model
from medheb.models.base import Rendered, Vectors
from medheb.models.load import RENDERERS, fingerprint, load_encoder

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
            inputs = distinct_inputs(run, model, group)
            computed = _fill_store(run, model, Store(run.layout.store(model_id) / mark, repair=True), inputs)
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


def distinct_inputs(run: Run, model: Model, group: str) -> dict[str, Rendered]:
    """Rendered inputs by key, in key order, of all tasks of a group that could be built."""
    render = RENDERERS[model.adapter.name]
    found: dict[str, Rendered] = {}
    for task in run.tasks_of(group):
        if not read_status(run.layout.task_status(task.index)).ok:
            continue
        rendered = render_task(run, task, render)
        for inputs in [rendered.queries, *rendered.candidates]:
            found |= {item.key: item for item in inputs}
    return dict(sorted(found.items()))


def _fill_store(run: Run, model: Model, store: Store, inputs: dict[str, Rendered]) -> int:
    missing = [key for key in inputs if key not in store]
    log.info("%s: %d distinct inputs, %d of them new", model.id, len(inputs), len(missing))
    if not missing:
        return 0
    encoder = load_encoder(model, run.layout)
    read_image = image_reader(run.layout.benchmark)
    started = time.monotonic()
    done = 0
    for keys in batched(missing, run.config.embed.shard_inputs):
        batch = [inputs[key] for key in keys]
        vectors = encoder.encode(batch, read_image)
        refuse_unusable(model, batch, vectors)
        store.append(keys, vectors)
        done += len(keys)
        rate = done / (time.monotonic() - started)
        left = (len(missing) - done) / rate
        log.info("%s: %d/%d inputs, %.1f/s, %.0f s left", model.id, done, len(missing), rate, left)
    return done


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
