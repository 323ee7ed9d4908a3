"""The graded evaluation: queries and pools of a task, ranked by stored vectors, worth what ``graded.yaml`` says.

Classes come from the inventories of the task's sources (and, where a query is a class name, from its text); no message
names a class, path or text of a source, so that none of a restricted one is told.
"""

from __future__ import annotations

import logging
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

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
from medheb.evaluate.graded_gains import Labels, counted_queries, gain_rule, relation_digest
from medheb.evaluate.graded_ranking import GRADED_METRICS, GradedRank, interval_by_query, rank_graded
from medheb.evaluate.graded_score import PER_QUERY_COLUMNS, GradedScore, write_graded
from medheb.evaluate.pools import build_pools
from medheb.evaluate.score import Metric
from medheb.index.built import data_root, inventories_of
from medheb.index.paths import Images
from medheb.index.records import Item, as_json
from medheb.manifest.graded import Groups, Overlap, Steps, plain
from medheb.manifest.load import Run
from medheb.manifest.task import Task
from medheb.models.base import Adapter
from medheb.models.load import load_adapter

log = logging.getLogger("medheb.evaluate")
SEPARATOR = " | "  # between the labels of a picture that has several, as recipes write them
ClassesOf = Callable[[Item], Labels]

PER_QUERY_SCHEMA = pa.schema(
    [(name, pa.int32() if name in {"row", "query", "pool"} else pa.bool_() if name == "tied" else pa.float64())
     for name in PER_QUERY_COLUMNS]
)  # fmt: skip


@dataclass(frozen=True)
class RankedRow:
    """A counted query: its row in the task JSON, a number that rows asking the same share, and its values."""

    row: int
    query: int
    rank: GradedRank


def evaluate_graded(run: Run, model_id: str, key: str) -> Status:
    """Score one model on one graded task; trouble becomes the score's status, never a missing file.

    Raises:
        MedhebError: the run has no such graded task or model.
    """
    entry = run.graded_entries.get(key)
    if entry is None or run.graded is None:
        known = ", ".join(run.graded_entries) or "none: the manifests have no graded.yaml, or no task of it is chosen"
        raise MedhebError(key, "is not a graded task of this run", f"Allowed: {known}")
    task = run.every_task[entry.task or entry.key]
    relation = run.graded.relations[entry.relation]
    started = time.monotonic()
    score = GradedScore(
        model=model_id,
        key=key,
        aspect=entry.aspect,
        task=task.task,
        status=OK,
        protocol=run.protocol.name,
        rule=relation_digest(relation),
    )
    ranks: list[RankedRow] = []
    try:
        receipt = read_receipt(run.layout.embedded(model_id, task.group))
        trouble = first_trouble([read_status(run.layout.task_status(task.index)), receipt.status])
        if trouble.ok:
            adapter = load_adapter(run.models[model_id], run.layout)
            rendered = render_task(run, task, adapter)
            store = Store(run.layout.store(model_id) / receipt.fingerprint)
            ranks = rank_task(run, rendered, relation, store, adapter)
            score = score.model_copy(
                update={
                    "task_digest": json_digest(as_json(rendered.records)),
                    "data_root": data_root(run, task),
                    "fingerprint": receipt.fingerprint,
                    "queries": len(ranks),
                    "left_out": len(rendered.records) - len(ranks),
                    "metrics": summarise(run, key, ranks),
                    "tied_fraction": float(np.mean([item.rank.tied for item in ranks])),
                    "warnings": receipt.notes,
                }
            )
        else:
            score = score.model_copy(update={"status": trouble})
    except MedhebError as error:
        log.error("%s", error)
        ranks = []
        score = score.model_copy(update={"status": status_of(error, f"evaluate {model_id} {key}")})
    _write_per_query(run, model_id, key, ranks)
    seconds = round(time.monotonic() - started, 2)
    write_graded(run.layout.graded(model_id, key), score.model_copy(update={"seconds": seconds}))
    return score.status


def classes_of(run: Run, task: Task, relation: Steps | Groups | Overlap) -> ClassesOf:
    """What finds the classes of a query or candidate.

    Raises (the function found):
        MedhebError: a picture without classes in its inventory, several where one is wanted, or one that the relation
            does not know.
    """
    images = Images(inventories_of(run, task))
    known = frozenset(plain(name) for name in relation.classes)
    where = f"task {task.task}"

    def read(item: Item) -> Labels:
        texts = {item.text} if not item.images else set()
        for path in item.images:
            found = images.get(f"{task.image_root}/{path}")
            value = found.file.facts.get(relation.fact) if found else None
            if not isinstance(value, str):
                raise MedhebError(
                    where,
                    f"has a picture of which no '{relation.fact}' is known",
                    "Build its source again; its recipe notes it",
                )
            texts.add(value)
        names = [plain(name) for text in texts for name in text.split(SEPARATOR)]
        if not known.issuperset(names):
            raise MedhebError(
                where, "has a class that its graded relation does not list", "Add it to the classes in graded.yaml"
            )
        if len(set(names)) != 1 and not isinstance(relation, Overlap):
            raise MedhebError(where, "has a picture with several classes", "Choose a relation of kind overlap for it")
        return frozenset(names)

    return read


def rank_task(
    run: Run, rendered: RenderedTask, relation: Steps | Groups | Overlap, store: Store, adapter: Adapter
) -> list[RankedRow]:
    """Every query that counts, with its values.

    Raises:
        MedhebError: an unknown class, no query that counts, or vectors that cannot be ranked.
    """
    task, records = rendered.task, rendered.records
    classes, gain, counted = classes_of(run, task, relation), gain_rule(relation), counted_queries(relation)
    asked = [classes(record.query) for record in records]
    rows = [row for row, names in enumerate(asked) if names & counted]
    if not rows:
        raise MedhebError(f"task {task.task}", "has no query of a class that its relation asks for", "Mend graded.yaml")
    pools = build_pools(rendered.candidates, run.protocol.candidate_identity)
    offered = [classes(records[record].candidates[place]) for record, place in pools.origin]
    # What each candidate of the task is worth for each class that is asked for.
    worth = {
        names: np.array([gain(names, other) for other in offered], dtype=np.float64)
        for names in dict.fromkeys(asked[row] for row in rows)
    }
    everything = list(range(len(pools.distinct)))
    queries = input_vectors(store, adapter, [rendered.queries[row] for row in rows])
    vectors = input_vectors(store, adapter, pools.distinct)
    full = 1.0 if relation.hit == "full" else np.nextafter(0.0, 1.0)
    numbers = {key: number for number, key in enumerate(dict.fromkeys(rendered.queries[row].key for row in rows))}
    found: list[RankedRow] = []
    for row, query in zip(rows, queries, strict=True):
        members = everything if task.pool == "global" else pools.members[row]
        try:
            scores = vectors[members] @ query
            rank = rank_graded(scores, worth[asked[row]][members], full, run.protocol.tie_tolerance)
        except ValueError as error:
            raise MedhebError(
                f"task {task.task}",
                f"cannot be ranked: {error}",
                "Delete the model's embeddings, build the index and run again",
            ) from error
        found.append(RankedRow(row, numbers[rendered.queries[row].key], rank))
    return found


def summarise(run: Run, key: str, ranks: Sequence[RankedRow]) -> dict[str, Metric]:
    """Means over queries with intervals; the same resamples for every model that tells the same queries apart."""
    options = run.config.evaluate
    seed = run.config.seed + zlib.crc32(key.encode())
    queries = np.array([item.query for item in ranks], dtype=np.int64)
    metrics: dict[str, Metric] = {}
    for name in GRADED_METRICS:
        values = np.array([item.rank.value[name] for item in ranks], dtype=np.float64)
        low, high = interval_by_query(values, queries, options.confidence, options.bootstrap_resamples, seed)
        metrics[name] = Metric(
            value=float(values.mean()),
            low=low,
            high=high,
            worst=float(np.mean([item.rank.worst[name] for item in ranks])),
            chance=float(np.mean([item.rank.chance[name] for item in ranks])),
        )
    return metrics


def _write_per_query(run: Run, model_id: str, key: str, ranks: Sequence[RankedRow]) -> None:
    table = [
        {
            "row": item.row,
            "query": item.query,
            "pool": item.rank.pool,
            "tied": item.rank.tied,
            **item.rank.value,
            **{f"{name}_worst": value for name, value in item.rank.worst.items()},
            **{f"{name}_chance": value for name, value in item.rank.chance.items()},
        }
        for item in ranks
    ]
    with atomic_open(run.layout.graded(model_id, key).with_suffix(".parquet")) as stream:
        pq.write_table(pa.Table.from_pylist(table, schema=PER_QUERY_SCHEMA), stream)
