"""Results of graded retrieval (paper tables 5 and 6), which belong to no family and enter no mean."""

from __future__ import annotations

import math
from typing import Literal

from pydantic import Field

from medheb.core.errors import MedhebError
from medheb.manifest.base import Strict, read_json, validate
from medheb.manifest.load import Run

SCHEMA_VERSION = 1
GRADED_COLUMNS = ("severity", "laterality", "diagnosis", "cell-tissue", "graded")
AGAIN = "Delete it and run the graded evaluation again"


class GradedResult(Strict):
    """One number of table 5 or 6, a share from 0 to 1."""

    table: Literal["5", "6"]
    metric: Literal["ndcg@5", "ndcg@10", "hit@1", "hit@5"]
    column: Literal["severity", "laterality", "diagnosis", "cell-tissue", "graded", "cross-source"]
    value: float
    queries: int = Field(ge=1)


class GradedScores(Strict):
    """Content of ``results/scores/<model>/graded.json``."""

    schema_version: int = SCHEMA_VERSION
    model: str
    protocol: str
    results: tuple[GradedResult, ...]


def read_graded(run: Run) -> dict[str, tuple[GradedResult, ...]]:
    """Graded results of every model of the run that has some.

    Raises:
        MedhebError: a file of another schema, model or protocol, or a number that is not from 0 to 1.
    """
    found: dict[str, tuple[GradedResult, ...]] = {}
    for model in run.models:
        path = run.layout.results / "scores" / model / "graded.json"
        if not path.exists():
            continue
        scores = validate(GradedScores, read_json(path, AGAIN), path)
        for what, stands, wanted in (
            ("schema version", scores.schema_version, SCHEMA_VERSION),
            ("model", scores.model, model),
            ("protocol", scores.protocol, run.protocol.name),
        ):
            if stands != wanted:
                raise MedhebError(path, f"is for {what} {stands!r}, not {wanted!r}", AGAIN)
        for item in scores.results:
            if not math.isfinite(item.value) or not 0 <= item.value <= 1:
                raise MedhebError(path, f"holds {item.column} {item.metric} {item.value}, not from 0 to 1", AGAIN)
        found[model] = scores.results
    return found
