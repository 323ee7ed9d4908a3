"""What a score states of a metric, against what its per-query parquet gives."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from medheb.audit.parquet_table import Table
from medheb.evaluate.score import Metric

EXACT = 1e-9


def stated_differences(
    stated: Metric, metric: str, table: Table, value: float, low_high: tuple[float, float], by: str
) -> Iterator[str]:
    """Each number that differs, in words.

    Args:
        stated: what the score says.
        metric: its name; columns of ``table`` bear it.
        table: the per-query parquet.
        value: the mean, computed again.
        low_high: its interval, computed again.
        by: what the numbers were computed from: ranks, queries.
    """
    low, high = low_high
    found = {
        "value": value,
        "worst": float(np.mean(table[f"{metric}_worst"])),
        "chance": float(np.mean(table[f"{metric}_chance"])),
        "low": low,
        "high": high,
    }
    for name, number in found.items():
        if not abs(getattr(stated, name) - number) <= EXACT:
            words = f"states {metric} {name} {getattr(stated, name):.6g}, its {by} give {number:.6g}"
            yield words + (" (with this configuration's seed and resamples)" if name in {"low", "high"} else "")
