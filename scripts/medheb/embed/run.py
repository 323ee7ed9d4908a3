"""The embedding job: one model on every distinct part of the tasks that draw on the same sources."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from medheb.core.errors import MedhebError
from medheb.core.shards import Shard
from medheb.core.status import OK, Status, first_trouble, read_status, status_of
from medheb.embed.devices import choose_device, device_title, token_budget, worker_count
from medheb.embed.encode import Runner, refuse_trouble
from medheb.embed.inputs import distinct_inputs, distinct_parts
from medheb.embed.plan import Batch, plan_batches, plan_digest
from medheb.embed.progress import Progress
from medheb.embed.ranks import Ranks
from medheb.embed.reading import ImageReader
from medheb.embed.receipt import Receipt, write_receipt
from medheb.embed.shards import ShardWriter
from medheb.embed.stopping import TERMINATED, StopRequest, stop_request
from medheb.embed.store import Store
from medheb.embed.workers import PreparedBatches
from medheb.manifest.load import Run
from medheb.manifest.model import Model
from medheb.models.base import Adapter, CutsTexts, Encoder, ImageRef, Prepared, Rendered
from medheb.models.load import dtype_on, fingerprint, load_adapter, load_encoder, uses_device

log = logging.getLogger("medheb.embed")


@dataclass(frozen=True)
class Job:
    """What one job has to do, the same for each of its ranks."""

    run: Run
    model: Model
    adapter: Adapter
    device: str
    budget: int
    store: Store
    inputs: int
    parts: tuple[str, ...]
    batches: tuple[Batch, ...]


@dataclass(frozen=True)
class Work:
    """What one rank did."""

    status: Status = OK
    computed: int = 0
    tokens: int = 0
    padded: int = 0
    batches: int = 0
    notes: tuple[str, ...] = ()


def embed_inputs(run: Run, model_id: str, group: str, threads: int = 1, shard: Shard | None = None) -> Status:
    """Embed what the store lacks for a group of tasks, or for a shard of it, and write the receipt.

    Trouble becomes the receipt's status; what was embedded before it stays in the store.

    Args:
        run: the run.
        model_id: of one of its models.
        group: sources of the tasks.
        threads: cores of this process.
        shard: only these batches; :func:`medheb.embed.gather.gather_shards` gathers their receipts.

    Raises:
        SystemExit: the job was asked to end; what was complete is stored, and there is no receipt.
    """
    ranks = Ranks.from_environment()
    started = time.monotonic()
    receipt = Receipt(model=model_id, group=group, status=OK, ranks=ranks.size)
    with stop_request() as stop:
        job, trouble = _agreed(run, run.models[model_id], group, ranks, shard)
        works = [Work(trouble)]
        if job is not None and trouble.ok:
            works = _gathered(_work(job, ranks, threads, stop), ranks)
    receipt = receipt.model_copy(
        update={
            **_facts(job),
            "status": first_trouble([work.status for work in works]),
            "computed": sum(work.computed for work in works),
            "tokens": sum(work.tokens for work in works),
            "padded_tokens": sum(work.padded for work in works),
            "batches": sum(work.batches for work in works),
            "notes": tuple(sorted({note for work in works for note in work.notes})),
        }
    )
    if ranks.first:
        receipt = _finished(job, receipt)
        layout = run.layout
        write_receipt(
            layout.embedded_shard(model_id, group, shard) if shard else layout.embedded(model_id, group),
            receipt.model_copy(update={"seconds": round(time.monotonic() - started, 1)}),
        )
    return receipt.status


def model_statuses(run: Run, model: Model) -> list[Status]:
    """Outcomes of all that must have happened before a model can embed."""
    statuses = [read_status(run.layout.model_status(model.id))]
    if model.bridge:
        statuses.append(read_status(run.layout.bridge_status(model.id)))
    return statuses


def _agreed(run: Run, model: Model, group: str, ranks: Ranks, shard: Shard | None) -> tuple[Job | None, Status]:
    """The job, if all ranks can do it and see it alike."""
    job, digest, trouble = None, "", OK
    try:
        trouble = first_trouble(model_statuses(run, model))
        if trouble.ok:
            job = _planned(run, model, group, ranks, shard)
            digest = plan_digest(job.batches)
    except MedhebError as error:
        log.error("%s", error)
        trouble = status_of(error, f"embed {model.id} {group}")
    seen = ranks.gather([trouble.model_dump(), digest])
    trouble = first_trouble([Status.model_validate(status) for status, _ in seen])
    if trouble.ok and len({digest for _, digest in seen}) > 1:
        apart = MedhebError(
            "the ranks of this job",
            "see different stores or tasks, so they cannot share the work",
            "Check that all of them mount the same folders, and run again",
        )
        trouble = status_of(apart, f"embed {model.id} {group}")
    return job, trouble


def _planned(run: Run, model: Model, group: str, ranks: Ranks, shard: Shard | None) -> Job:
    options = run.config.embed
    device = choose_device(options.device, ranks.local) if uses_device(model) else "cpu"
    adapter = load_adapter(model, run.layout)
    reader = ImageReader(run.layout.benchmark)
    found = distinct_inputs(run, adapter, group)
    parts = distinct_parts(adapter, found.inputs.values())
    budget = token_budget(options, device)

    def size_of(ref: ImageRef) -> tuple[int, int]:
        return found.sizes.get(ref.sha256) or reader.size(ref)

    def planned(some: Mapping[str, Rendered]) -> list[Batch]:
        tokens = {key: adapter.tokens(part, size_of) for key, part in some.items()}
        return plan_batches(some, tokens, budget, options.shard_inputs)

    if shard:
        # Whole batches, so that several jobs compute the very bits of one.
        mine = {key for batch in shard.of(planned(parts)) for key in batch.keys}
        parts = {key: part for key, part in parts.items() if key in mine}
    store = Store(run.layout.store(model.id) / fingerprint(model, run.layout, device), repair=True)
    store.check(parts)
    missing = {key: part for key, part in parts.items() if key not in store}
    log.info("%s: %d distinct inputs of %d parts, %d new", model.id, len(found.inputs), len(parts), len(missing))
    batches = tuple(planned(missing))
    return Job(run, model, adapter, device, budget, store, len(found.inputs), tuple(parts), batches)


def _work(job: Job, ranks: Ranks, threads: int, stop: StopRequest) -> Work:
    batches = job.batches[ranks.rank :: ranks.size]
    options, runner = job.run.config.embed, Runner(job.model.id, job.device, job.budget)
    writer = ShardWriter(job.store, options.shard_inputs, options.shard_minutes)
    status = OK
    try:
        with writer:
            _encode(job, batches, runner, writer, max(1, threads // ranks.size), stop)
    except MedhebError as error:
        log.error("%s", error)
        status = status_of(error, f"embed {job.model.id}")
    if stop.asked:
        log.warning("%s: asked to end; %d inputs are stored, the next run goes on", job.model.id, writer.written)
        raise SystemExit(TERMINATED)
    return Work(status, writer.written, runner.tokens, runner.padded, runner.batches, tuple(runner.notes))


def _encode(
    job: Job, batches: Sequence[Batch], runner: Runner, writer: ShardWriter, threads: int, stop: StopRequest
) -> None:
    if not batches:
        return
    options = job.run.config.embed
    images = sum(len(part.images) for batch in batches for part in batch.parts)
    workers = worker_count(options, job.device, threads, images)
    progress = Progress(
        job.model.id, sum(len(batch.keys) for batch in batches), sum(sum(batch.tokens) for batch in batches)
    )
    reader = ImageReader(job.run.layout.benchmark)
    with PreparedBatches(job.adapter, reader, batches, workers) as ready:
        encoder = _loaded(job)
        for batch, prepared in ready:
            if stop.asked:
                return
            vectors = runner.run(encoder, batch, prepared)
            writer.add(batch.keys, vectors, _cut(encoder, batch, prepared), runner.notes)
            progress.add(len(batch.keys), sum(batch.tokens))


def _cut(encoder: Encoder, batch: Batch, prepared: Sequence[Prepared]) -> list[str]:
    """Keys of the texts that their adapter, or the library, had to cut."""
    counted = [int(part.arrays.get("cut", 0)) > 0 for part in prepared]
    cut = encoder.cut(prepared) if isinstance(encoder, CutsTexts) else counted
    return [key for key, was_cut in zip(batch.keys, cut, strict=True) if was_cut]


def _loaded(job: Job) -> Encoder:
    try:
        return load_encoder(job.model, job.run.layout, job.device)
    except (RuntimeError, MemoryError) as error:
        refuse_trouble(error, job.model.id, job.device, "when its weights are loaded")


def _gathered(work: Work, ranks: Ranks) -> list[Work]:
    mine = [work.status.model_dump(), work.computed, work.tokens, work.padded, work.batches, list(work.notes)]
    return [
        Work(Status.model_validate(status), computed, tokens, padded, batches, tuple(notes))
        for status, computed, tokens, padded, batches, notes in ranks.gather(mine)
    ]


def _facts(job: Job | None) -> dict[str, object]:
    if job is None:
        return {}
    return {
        "fingerprint": job.store.folder.name,
        "inputs": job.inputs,
        "parts": len(job.parts),
        "device": device_title(job.device),
        "dtype": dtype_on(job.model, job.device),
        "batch_tokens": job.budget,
    }


def _finished(job: Job | None, receipt: Receipt) -> Receipt:
    """The receipt with the digest of all vectors, read back as the evaluation will read them, and with their notes.

    Notes are kept with the vectors, so that a job which finds them stored tells what the job told that made them.
    """
    if job is None or not receipt.status.ok:
        return receipt
    try:
        store = job.store if receipt.ranks == 1 else Store(job.store.folder)
        return receipt.model_copy(update={"vectors": store.digest(job.parts), "notes": store.notes(job.parts)})
    except MedhebError as error:
        log.error("%s", error)
        return receipt.model_copy(update={"status": status_of(error, f"embed {receipt.model} {receipt.group}")})
