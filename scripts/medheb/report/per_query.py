"""Per-query values behind the scores, checked against them before any test uses them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from medheb.core.errors import MedhebError
from medheb.evaluate.score import Score
from medheb.report.collect import Results

AGAIN = "Delete it with the score beside it and run the evaluation again"
SAME = 1e-6  # a mean that was summed in another order

Values = NDArray[np.float64]


@dataclass(frozen=True)
class QueryValues:
    """One metric of every query: task -> model -> values [queries]. ``faults`` names cells that are left out."""

    metric: str
    tasks: dict[str, dict[str, Values]]
    faults: tuple[str, ...]


def load_values(results: Results, metric: str) -> QueryValues:
    """Values of all cells that have a score. A cell whose parquet does not fit its score is left out, and named."""
    tasks: dict[str, dict[str, Values]] = {}
    faults: list[str] = []
    for key in results.run.tasks:
        tasks[key] = {}
        for model in results.run.models:
            score = results.score(model, key)
            if score is None:
                continue
            try:
                tasks[key][model] = read_values(results.run.layout.per_query(model, key), score, metric)
            except MedhebError as error:
                faults.append(f"{model} on {key}: {error.fault}. {error.remedy}")
    return QueryValues(metric, tasks, tuple(faults))


def read_values(path: Path, score: Score, metric: str) -> Values:
    """One metric of all queries of a cell, float64 [queries].

    Raises:
        MedhebError: missing, damaged, not in task order, not from 0 to 1, or not what the score was made of.
    """
    try:
        table = pq.read_table(path, columns=["row", metric], use_threads=False)
    except FileNotFoundError:
        raise MedhebError(path.name, "its per-query results are missing", AGAIN) from None
    except (OSError, pa.ArrowInvalid, pa.ArrowKeyError) as error:
        raise MedhebError(path.name, f"its per-query results cannot be read ({type(error).__name__})", AGAIN) from error
    rows = table.column("row").to_numpy()
    values = np.asarray(table.column(metric).to_numpy(), dtype=np.float64)
    if len(values) != score.queries or not np.array_equal(rows, np.arange(len(rows))):
        raise MedhebError(path.name, f"its per-query results are not the {score.queries} queries of its score", AGAIN)
    if not np.isfinite(values).all() or (values < -SAME).any() or (values > 1 + SAME).any():
        raise MedhebError(path.name, "its per-query results hold numbers that are not from 0 to 1", AGAIN)
    if abs(values.mean() - score.metrics[metric].value) > SAME:
        raise MedhebError(path.name, f"its per-query results do not give its {metric}", AGAIN)
    return values
