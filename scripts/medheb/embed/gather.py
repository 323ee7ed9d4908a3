"""The end of a group that several jobs embedded: their receipts become the group's. Needs no weights and no GPU."""

from __future__ import annotations

import logging
import time
from typing import Any

from medheb.core.errors import MedhebError
from medheb.core.shards import Shard
from medheb.core.status import Status, first_trouble, status_of
from medheb.embed.inputs import distinct_inputs, distinct_parts
from medheb.embed.receipt import Receipt, read_receipt, write_receipt
from medheb.embed.store import Store
from medheb.manifest.load import Run
from medheb.models.load import load_adapter

log = logging.getLogger("medheb.embed")


def gather_shards(run: Run, model_id: str, group: str, count: int) -> Status:
    """Check that the shards of a group hold all of it, and write the group's receipt.

    Trouble of a shard, or vectors that are not there, become the status.

    Args:
        run: the run.
        model_id: of one of its models.
        group: sources of the tasks.
        count: number of shards.

    Raises:
        MedhebError: the receipt of a shard is missing or damaged.
    """
    started = time.monotonic()
    shards = [Shard(number, count) for number in range(count)]
    receipts = [read_receipt(run.layout.embedded_shard(model_id, group, shard)) for shard in shards]
    receipt = receipts[0].model_copy(
        update={
            "status": first_trouble([one.status for one in receipts]),
            **{name: sum(getattr(one, name) for one in receipts) for name in ("parts", *COSTS)},
            "notes": tuple(sorted({note for one in receipts for note in one.notes})),
            "vectors": "",
        }
    )
    if receipt.status.ok:
        try:
            receipt = receipt.model_copy(update=_read_back(run, receipts))
        except MedhebError as error:
            log.error("%s", error)
            receipt = receipt.model_copy(update={"status": status_of(error, f"embed {model_id} {group}")})
    seconds = round(receipt.seconds + time.monotonic() - started, 1)
    write_receipt(run.layout.embedded(model_id, group), receipt.model_copy(update={"seconds": seconds}))
    return receipt.status


COSTS = ("computed", "tokens", "padded_tokens", "batches", "seconds")


def _read_back(run: Run, receipts: list[Receipt]) -> dict[str, Any]:
    """Digest of all vectors of the group, read back as the evaluation will read them, and their notes."""
    first = receipts[0]
    where = f"the shards of {first.model} {first.group}"
    if len({(one.fingerprint, one.inputs) for one in receipts}) > 1:
        raise MedhebError(
            where,
            "were made from different tasks, weights or number formats",
            "Run `medheb retry`, then the workflow, with all GPU jobs on GPUs of one kind",
        )
    adapter = load_adapter(run.models[first.model], run.layout)
    parts = distinct_parts(adapter, distinct_inputs(run, adapter, first.group).inputs.values())
    store = Store(run.layout.store(first.model) / first.fingerprint)
    lacking = sum(key not in store for key in parts)
    if lacking or len(parts) != sum(one.parts for one in receipts):
        raise MedhebError(
            where,
            f"hold {len(parts) - lacking} of {len(parts)} parts of the group",
            "Run `medheb retry`, then the workflow: what is stored is not computed again",
        )
    return {"vectors": store.digest(parts), "notes": store.notes(parts)}
