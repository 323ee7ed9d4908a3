"""The evaluation job: one model on one task, from stored vectors to a score and its per-query table."""

from __future__ import annotations

import logging
import time
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from medheb.core.digests import json_digest
from medheb.core.errors import MedhebError
from medheb.core.files import atomic_open
from medheb.core.status import OK, Status, first_trouble, read_status, status_of
from medheb.embed.inputs import RenderedTask, render_task
from medheb.embed.receipt import read_receipt
from medheb.embed.store import Store
from medheb.embed.vectors import input_vectors
from medheb.evaluate.collapse import COLLAPSED_COSINE, effective_rank, mean_cosine, sample
from medheb.evaluate.metrics import chance, expected, interval, optimistic, worst
from medheb.evaluate.pools import Pools, build_pools
from medheb.evaluate.ranking import Ranked, rank_global, rank_local
from medheb.evaluate.score import METRICS, Metric, Score, write_score
from medheb.index.built import data_root
from medheb.index.records import as_json
from medheb.manifest.load import Run
from medheb.manifest.task import Task
from medheb.models.base import Vectors
from medheb.models.load import load_adapter

log = logging.getLogger("medheb.evaluate")
COLLAPSED_TIES = 0.05

PER_QUERY_SCHEMA = pa.schema(
    [
        *((name, pa.int32()) for name in ("row", "pool", "above", "tied", "positives")),
        ("score", pa.float32()),
        *((name, pa.float64()) for name in METRICS),
        *((f"{name}_worst", pa.float64()) for name in METRICS),
        *((f"{name}_chance", pa.float64()) for name in METRICS),
        ("top_row", pa.list_(pa.int32())),
        ("top_position", pa.list_(pa.int32())),
        ("top_score", pa.list_(pa.float32())),
        ("top_positive", pa.list_(pa.bool_())),
    ]
)


def evaluate_task(run: Run, model_id: str, task_key: str) -> Status:
    """Score one model on one task; trouble becomes the score's status, never a missing file."""
    task = run.tasks[task_key]
    started = time.monotonic()
    score = Score(
        model=model_id,
        task=task_key,
        family=task.family,
        form=task.form,
        split=task.split,
        pool=task.pool,
        status=OK,
        protocol=run.protocol.name,
    )
    table: list[dict[str, Any]] = []
    try:
        receipt = read_receipt(run.layout.embedded(model_id, task.group))
        trouble = first_trouble([read_status(run.layout.task_status(task.index)), receipt.status])
        if trouble.ok:
            adapter = load_adapter(run.models[model_id], run.layout)
            rendered = render_task(run, task, adapter)
            if not rendered.records:
                where = run.layout.task_index(task.index)
                raise MedhebError(where, "holds no record", "Delete it and build the index again: snakemake index")
            store = Store(run.layout.store(model_id) / receipt.fingerprint)
            pools = build_pools(rendered.candidates, run.protocol.candidate_identity)
            candidates = input_vectors(store, adapter, pools.distinct)
            ranked = _rank(run, rendered, pools, input_vectors(store, adapter, rendered.queries), candidates)
            table = _per_query(run, task, pools, ranked)
            score = score.model_copy(
                update={
                    "task_digest": json_digest(as_json(rendered.records)),
                    "data_root": data_root(run, task),
                    "fingerprint": receipt.fingerprint,
                    **_summary(run, task, pools, table),
                    **_doubts(pools, table, candidates, receipt.notes),
                }
            )
        else:
            score = score.model_copy(update={"status": trouble})
    except MedhebError as error:
        log.error("%s", error)
        table = []
        score = score.model_copy(update={"status": status_of(error, f"evaluate {model_id} {task_key}")})
    with atomic_open(run.layout.per_query(model_id, task_key)) as stream:
        pq.write_table(pa.Table.from_pylist(table, schema=PER_QUERY_SCHEMA), stream)
    write_score(
        run.layout.score(model_id, task_key),
        score.model_copy(update={"seconds": round(time.monotonic() - started, 2)}),
    )
    return score.status


def _rank(run: Run, rendered: RenderedTask, pools: Pools, queries: Vectors, candidates: Vectors) -> list[Ranked]:
    tolerance = run.protocol.tie_tolerance
    try:
        if rendered.task.pool == "global":
            return rank_global(queries, candidates, pools.positives, tolerance)
        return rank_local(queries, candidates, pools.members, pools.positives, tolerance)
    except ValueError as error:
        where = f"task {rendered.task.task}"
        raise MedhebError(where, f"cannot be ranked: {error}", "Delete the model's embeddings and run again") from error


def _per_query(run: Run, task: Task, pools: Pools, ranked: list[Ranked]) -> list[dict[str, Any]]:
    table: list[dict[str, Any]] = []
    for row, (result, members) in enumerate(zip(ranked, pools.members, strict=True)):
        counts = (result.above, result.tied, result.positives)
        top = result.top.tolist() if task.pool == "global" else [members[place] for place in result.top]
        table.append(
            {
                "row": row,
                "pool": result.pool,
                "above": result.above,
                "tied": result.tied,
                "positives": result.positives,
                "score": result.score,
                **{
                    metric: expected(metric, *counts)
                    if run.protocol.ties == "expected"
                    else optimistic(metric, result.above)
                    for metric in METRICS
                },
                **{f"{metric}_worst": worst(metric, *counts) for metric in METRICS},
                **{f"{metric}_chance": chance(metric, result.pool, 1) for metric in METRICS},
                "top_row": [pools.origin[place][0] for place in top],
                "top_position": [pools.origin[place][1] for place in top],
                "top_score": result.top_score.tolist(),
                "top_positive": [place == pools.positives[row] for place in top],
            }
        )
    return table


def _summary(run: Run, task: Task, pools: Pools, table: list[dict[str, Any]]) -> dict[str, Any]:
    options = run.config.evaluate
    # The same resamples for every model, so that differences between models are paired.
    seed = run.config.seed + zlib.crc32(task.task.encode())
    metrics: dict[str, Metric] = {}
    for metric in METRICS:
        values = np.array([row[metric] for row in table], dtype=np.float64)
        low, high = interval(values, options.confidence, options.bootstrap_resamples, seed)
        metrics[metric] = Metric(
            value=float(values.mean()),
            low=low,
            high=high,
            worst=float(np.mean([row[f"{metric}_worst"] for row in table])),
            chance=float(np.mean([row[f"{metric}_chance"] for row in table])),
        )
    return {"queries": len(table), "candidates": len(pools.distinct), "metrics": metrics}


def _doubts(pools: Pools, table: list[dict[str, Any]], candidates: Vectors, notes: Sequence[str]) -> dict[str, Any]:
    """Why a reader should hesitate: ties, vectors that all point one way, repeated candidates, trouble on the way."""
    tied_fraction = float(np.mean([row["tied"] > row["positives"] for row in table]))
    looked_at = sample(candidates)
    cosine = mean_cosine(looked_at)
    warnings = list(notes)
    if tied_fraction > COLLAPSED_TIES:
        warnings.append(
            f"{tied_fraction:.0%} of the queries tie with a wrong candidate: the vectors may have collapsed"
        )
    if cosine is not None and cosine > COLLAPSED_COSINE:
        warnings.append(f"the candidates have a mean cosine of {cosine:.4f}: the vectors may have collapsed")
    if pools.repeated:
        warnings.append(f"{pools.repeated} candidates repeat another of their own pool and were ranked once")
    return {
        "tied_fraction": tied_fraction,
        "mean_cosine": cosine,
        "effective_rank": effective_rank(looked_at),
        "warnings": tuple(warnings),
    }
