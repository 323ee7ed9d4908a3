"""Digests of what was made of the sources: task JSONs, scores, embedding sets."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from medheb.audit.measure import Problem, measure
from medheb.audit.privacy import public_reason
from medheb.audit.schema import Entry
from medheb.audit.verdicts import Level
from medheb.core.digests import json_digest, merkle_root
from medheb.core.errors import MedhebError
from medheb.core.status import Status, read_status
from medheb.embed.inputs import distinct_inputs, distinct_parts
from medheb.embed.receipt import read_receipt
from medheb.embed.store import Store
from medheb.evaluate.score import Score, read_score
from medheb.index.records import read_records
from medheb.manifest.load import Run
from medheb.manifest.task import Task
from medheb.models.base import Adapter
from medheb.models.load import load_adapter

SCORE_TAG = "score1"
METRIC_DECIMALS = 9  # sums of the same ranks may differ in their last bits from one processor to another
RANK_COLUMNS = ("row", "pool", "above", "tied", "positives")
# What of a score any site must get again. Not here: seconds, warnings, and the fingerprint, which covers a
# fitted bridge and so depends on floating point. Cosines and the order of the top ten stay out likewise.
SCORE_FIELDS = (
    "schema_version",
    "model",
    "task",
    "family",
    "form",
    "split",
    "pool",
    "protocol",
    "task_digest",
    "data_root",
    "queries",
    "candidates",
    "metrics",
    "tied_fraction",
)


class InputKeys(NamedTuple):
    """Keys of a source's distinct inputs, over image bytes and over image contents, and those of their parts."""

    inputs: frozenset[str]
    contents: frozenset[str]
    parts: frozenset[str]


KeyCache = dict[tuple[Adapter, str], InputKeys]


def not_built(run: Run, sources: tuple[str, ...], status: Status) -> Entry:
    """Entry of something that its status says is not there."""
    return Entry(state="not-built", reason=public_reason(run, sources, status.reason))


def index_entry(run: Run, task: Task) -> Entry:
    """Digests of a task JSON: L1 of its bytes, L2 of its canonical JSON.

    Raises:
        MedhebError: its status or itself is missing or damaged.
    """
    status = read_status(run.layout.task_status(task.index))
    if not status.ok:
        return not_built(run, task.sources, status)
    path = run.layout.task_index(task.index)
    count = len(read_records(path))
    found = measure(run.layout.benchmark, task.index, "L2")
    if isinstance(found, Problem) or found.L2 is None:
        reason = found.reason if isinstance(found, Problem) else "has no content digest"
        raise MedhebError(path, reason, "Build the index again: snakemake index")
    return Entry(state="built", count=count, digests={"L1": found.L1, "L2": found.L2})


def score_entry(run: Run, model: str, task: Task) -> Entry:
    """Digest of the reproducible content of a score and of the ranks behind it.

    Raises:
        MedhebError: the score or its parquet is missing or damaged, or they do not fit together.
    """
    score = read_score(run.layout.score(model, task.task))
    if not score.status.ok:
        return not_built(run, task.sources, score.status)
    digest = score_digest(score, run.layout.per_query(model, task.task))
    return Entry(state="built", count=score.queries, digests={"L2": digest})


def score_digest(score: Score, per_query: Path) -> str:
    """L2 digest of a score and the ranks behind it.

    Raises:
        MedhebError: the parquet is missing or damaged, or does not fit to the score.
    """
    ranks = read_ranks(per_query)
    if len(ranks["row"]) != score.queries:
        raise MedhebError(
            per_query, f"has {len(ranks['row'])} rows, its score {score.queries} queries", "Run the evaluation again"
        )
    return f"{SCORE_TAG}:{json_digest({'score': score_content(score), 'ranks': ranks})}"


def score_content(score: Score) -> dict[str, Any]:
    """The reproducible fields of a score, floats rounded to :data:`METRIC_DECIMALS`."""
    content = score.model_dump(mode="json", include=set(SCORE_FIELDS))
    reproducible: dict[str, Any] = rounded(content)
    return reproducible


def rounded(value: Any) -> Any:
    """A JSON value with its floats rounded to :data:`METRIC_DECIMALS`."""
    if isinstance(value, float):
        return round(value, METRIC_DECIMALS) + 0.0  # no negative zero
    if isinstance(value, dict):
        return {key: rounded(inner) for key, inner in value.items()}
    return value


def read_ranks(path: Path) -> dict[str, list[int]]:
    """The whole-number columns of a per-query parquet, in query order.

    Raises:
        MedhebError: missing, damaged, or without these columns as whole numbers.
    """
    again = "Delete it and run the evaluation again"
    try:
        table = pq.read_table(path, columns=list(RANK_COLUMNS), partitioning=None)
    except FileNotFoundError:
        raise MedhebError(path, "is missing", "Run the evaluation again") from None
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        raise MedhebError(path, "is not a readable parquet with the per-query columns", again) from error
    ranks: dict[str, list[int]] = {}
    for column in RANK_COLUMNS:
        if column not in table.column_names or not pa.types.is_integer(table.schema.field(column).type):
            raise MedhebError(path, f"lacks whole numbers in column '{column}'", again)
        values = table.column(column).to_pylist()
        if None in values:
            raise MedhebError(path, f"has gaps in column '{column}'", again)
        ranks[column] = values
    order = sorted(range(len(ranks["row"])), key=ranks["row"].__getitem__)
    return {column: [values[place] for place in order] for column, values in ranks.items()}


def embedding_entry(run: Run, model: str, group: str, cache: KeyCache) -> Entry:
    """Number of distinct inputs of a group of tasks and Merkle roots over their keys; all must be in the store.

    Keys say by content which inputs were embedded: L1 counts the bytes of images, L2 their pixels. Vectors
    are floating-point numbers that differ between processors, so no digest is taken of them.

    Raises:
        MedhebError: the receipt, the store or a task JSON is missing or damaged, or the store lacks a key.
    """
    where = run.layout.embedded(model, group)
    receipt = read_receipt(where)
    if not receipt.status.ok:
        return not_built(run, group_sources(group), receipt.status)
    made = [read_status(run.layout.task_status(task.index)) for task in run.tasks_of(group)]
    if made and not any(status.ok for status in made):
        return not_built(run, group_sources(group), made[0])  # its receipt says ok: there was nothing to embed
    place = (load_adapter(run.models[model], run.layout), group)
    if place not in cache:
        cache[place] = _input_keys(run, place[0], group)
    keys = cache[place]
    store = Store(run.layout.store(model) / receipt.fingerprint)
    absent = sum(1 for key in keys.parts if key not in store)
    if absent or receipt.inputs != len(keys.inputs):
        raise MedhebError(
            where,
            f"counts {receipt.inputs} inputs, the tasks have {len(keys.inputs)}, lacking {absent} parts",
            "Run the embedding step again",
        )
    roots: dict[Level, str] = {"L1": _root_of_keys(keys.inputs), "L2": _root_of_keys(keys.contents)}
    return Entry(state="built", count=len(keys.inputs), digests=roots)


def group_sources(group: str) -> tuple[str, ...]:
    """The sources of a group of tasks."""
    return tuple(sorted(group.split("+")))


def _root_of_keys(keys: Iterable[str]) -> str:
    return merkle_root(dict.fromkeys(keys, ""))


def _input_keys(run: Run, adapter: Adapter, group: str) -> InputKeys:
    inputs = distinct_inputs(run, adapter, group).inputs
    # Each image knows its content: the path that a task names may be a further place of it.
    by_content = {
        json_digest([item.modality, item.text, item.instruction, item.side, [image.content for image in item.images]])
        for item in inputs.values()
    }
    return InputKeys(frozenset(inputs), frozenset(by_content), frozenset(distinct_parts(adapter, inputs.values())))
