"""Digests of graded scores, and every metric again from the values of each query.

The parquet of a graded score holds no ranks, since the gains behind them would tell classes. So what a query is worth
cannot be computed again; that it can be (bounds, ties, order), and all that follows from it, is.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from medheb.audit.lineage import Origin
from medheb.audit.parquet_table import Table, read_columns
from medheb.audit.results import not_built, rounded
from medheb.audit.schema import Entry, SourceRecord
from medheb.audit.stated import EXACT, stated_differences
from medheb.core.digests import json_digest
from medheb.core.errors import MedhebError
from medheb.evaluate.graded_gains import relation_digest
from medheb.evaluate.graded_ranking import CUTOFFS, GRADED_METRICS, interval_by_query
from medheb.evaluate.graded_score import PER_QUERY_COLUMNS, GradedScore, read_graded_score
from medheb.manifest.config import Evaluate
from medheb.manifest.load import Run
from medheb.manifest.task import Task

GRADED_TAG = "graded1"
# Values of single queries are many and hold logarithms, whose last bits differ between processors: rounded more
# coarsely than means, so that hardly ever one lies on the edge.
VALUE_DECIMALS = 6
# What of a graded score any site must get again; left out is what is left out of scores.
FIELDS = (
    "schema_version",
    "model",
    "key",
    "aspect",
    "task",
    "protocol",
    "rule",
    "task_digest",
    "data_root",
    "queries",
    "left_out",
    "metrics",
    "tied_fraction",
)


def task_of_graded(run: Run, key: str) -> Task:
    """The task whose queries and pools a graded task ranks."""
    return run.every_task[run.graded_entries[key].task or key]


def graded_entry(run: Run, model: str, key: str) -> Entry:
    """Digest of the reproducible content of a graded score and of the values behind it.

    Raises:
        MedhebError: the score or its parquet is missing or damaged, or they do not fit together.
    """
    path = run.layout.graded(model, key)
    score = read_graded_score(path)
    if not score.status.ok:
        return not_built(run, task_of_graded(run, key).sources, score.status)
    return Entry(state="built", count=score.queries, digests={"L2": graded_digest(score, path.with_suffix(".parquet"))})


def graded_digest(score: GradedScore, per_query: Path) -> str:
    """L2 digest of a graded score and the values behind it.

    Raises:
        MedhebError: the parquet is missing or damaged, or does not fit to the score.
    """
    table = read_columns(per_query, PER_QUERY_COLUMNS)
    if len(table["row"]) != score.queries:
        fault = f"has {len(table['row'])} rows, its score {score.queries} queries"
        raise MedhebError(per_query, fault, "Run the graded evaluation again")
    values = {column: [_short(value) for value in table[column].tolist()] for column in PER_QUERY_COLUMNS}
    content = rounded(score.model_dump(mode="json", include=set(FIELDS)))
    return f"{GRADED_TAG}:{json_digest({'score': content, 'values': values})}"


def _short(value: float) -> float | str:
    """A value as it is digested; JSON has no word for what is not a number."""
    if not isinstance(value, float):
        return value
    return round(value, VALUE_DECIMALS) + 0.0 if np.isfinite(value) else str(value)


def other_origin(run: Run, model: str, key: str, records: Mapping[str, SourceRecord]) -> str:
    """How the origin that a graded score states differs from what is known, or an empty text.

    Raises:
        MedhebError: the score is missing or damaged.
    """
    score = read_graded_score(run.layout.graded(model, key))
    relation = run.graded.relations[run.graded_entries[key].relation] if run.graded else None
    if relation is not None and score.rule != relation_digest(relation):
        return "was computed by another relation than graded.yaml has now"
    return Origin(run, task_of_graded(run, key), records).differs(score.data_root, score.task_digest)


def graded_differences(score: GradedScore, table: Table, evaluate: Evaluate, seed: int) -> Iterator[str]:
    """What of a graded score does not follow from its parquet, in words.

    Args:
        score: as it is stated.
        table: columns of the parquet.
        evaluate: options of the intervals.
        seed: of the run.
    """
    count = len(table["row"])
    if count != score.queries or count == 0:
        yield f"states {score.queries} queries, its parquet has {count}"
        return
    rows, queries = table["row"], table["query"]
    if rows[0] < 0 or (np.diff(rows) < 1).any() or rows[-1] >= count + score.left_out:
        yield "its parquet does not hold each query once"
        return
    if not np.array_equal(np.unique(queries, return_index=True)[0], np.arange(int(queries.max()) + 1)):
        yield "its parquet does not number its queries from 0"
        return
    for metric in GRADED_METRICS:
        yield from _impossible(metric, table)
    yield from _summary(score, table, evaluate, seed)
    fraction = float(np.mean(table["tied"]))
    if abs(score.tied_fraction - fraction) > EXACT:
        yield f"states a tied fraction of {score.tied_fraction:.6g}, its queries give {fraction:.6g}"


def _impossible(metric: str, table: Table) -> Iterator[str]:
    """Values that no ranking can have: of a query without a tie the expected and the worst order are one."""
    value, worst, chance = (table[f"{metric}{end}"] for end in ("", "_worst", "_chance"))
    fine = (worst >= -EXACT) & (worst <= value + EXACT) & (value <= 1 + EXACT) & (chance <= 1 + EXACT)
    # A pool without a right candidate leaves no chance, and then no hit.
    fine &= (chance > 0) | ((chance == 0) & (value == 0) & metric.startswith("hit"))
    fine &= table["tied"] | (np.abs(value - worst) <= EXACT)
    if metric.startswith("hit"):
        fine &= (np.abs(worst) <= EXACT) | (np.abs(worst - 1) <= EXACT)
        within = {name: CUTOFFS[name] for name in CUTOFFS if name.startswith("hit") and CUTOFFS[name] < CUTOFFS[metric]}
        for name in within:
            fine &= table[name] <= value + EXACT
    if not fine.all():
        row = int(np.argmin(fine))
        yield f"row {int(table['row'][row])} has a {metric} that no ranking can have"


def _summary(score: GradedScore, table: Table, evaluate: Evaluate, seed: int) -> Iterator[str]:
    if unknown := sorted(score.metrics.keys() - set(GRADED_METRICS)):
        yield f"states {unknown[0]}, which is no metric"
    for metric in GRADED_METRICS:
        stated = score.metrics.get(metric)
        if stated is None:
            yield f"states no {metric}"
            continue
        low_high = interval_by_query(
            table[metric],
            table["query"].astype(np.int64),
            evaluate.confidence,
            evaluate.bootstrap_resamples,
            seed + zlib.crc32(score.key.encode()),
        )
        yield from stated_differences(stated, metric, table, float(np.mean(table[metric])), low_high, "queries")
