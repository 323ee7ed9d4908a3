"""Metrics of one ranking, straight from their definitions."""

import math
from collections.abc import Sequence


def value_of(metric: str, ranks: Sequence[int], positives: int) -> float:
    """A metric of one ranking by its definition; ``ranks`` are those of the right candidates."""
    kind, cutoff = metric.split("@")
    inside = [rank for rank in ranks if rank <= int(cutoff)]
    if kind == "ndcg":
        gain = sum(1 / math.log2(1 + rank) for rank in inside)
        return gain / sum(1 / math.log2(1 + rank) for rank in range(1, min(positives, int(cutoff)) + 1))
    if not inside:
        return 0.0
    return 1.0 if kind == "hit" else 1.0 / min(inside)
