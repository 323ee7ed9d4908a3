"""The score file of one model on one graded task, and the columns of the parquet beside it."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from medheb.core.errors import MedhebError
from medheb.core.files import write_json
from medheb.core.status import Status
from medheb.evaluate.graded_ranking import GRADED_METRICS
from medheb.evaluate.score import Metric
from medheb.manifest.base import Strict, read_json, validate
from medheb.manifest.graded import Aspect

SCHEMA_VERSION = 1
AGAIN = "Delete it and run the graded evaluation again"

# Per-query parquet: one row a counted query, ``row`` is its place in the task JSON, and rows of one
# ``query`` ask the same. No class, label or gain stands in
# it, so that it may be shown whatever the source.
PER_QUERY_COLUMNS = (
    "row",
    "query",
    "pool",
    "tied",
    *GRADED_METRICS,
    *(f"{metric}_worst" for metric in GRADED_METRICS),
    *(f"{metric}_chance" for metric in GRADED_METRICS),
)


class GradedScore(Strict):
    """Result of one model on one graded task. With a status that is not ok, ``metrics`` is empty."""

    schema_version: int = SCHEMA_VERSION
    model: str
    key: str
    aspect: Aspect
    task: str = Field(description="task whose queries and pools were ranked")
    status: Status
    protocol: str
    rule: str = Field(description="digest of the relation that the gains come from")
    task_digest: str = Field(default="", description="digest of the task JSON")
    data_root: str = Field(default="", description="Merkle root over the L2 digests of all files of the task's sources")
    fingerprint: str = Field(default="", description="model, weights, adapter and preprocessing in one digest")
    queries: int = Field(default=0, description="queries that count")
    left_out: int = Field(default=0, description="queries of classes that the relation does not ask for")
    metrics: dict[str, Metric] = Field(default_factory=dict)
    tied_fraction: float = Field(default=0.0, description="queries with a tie between candidates of different gain")
    warnings: tuple[str, ...] = Field(default=(), description="what did not go as planned when vectors were made")
    seconds: float = 0.0


def write_graded(path: Path, score: GradedScore) -> None:
    """Write a graded score atomically."""
    write_json(path, score.model_dump())


def read_graded_score(path: Path) -> GradedScore:
    """Read a graded score.

    Raises:
        MedhebError: missing, or not a graded score of this schema version.
    """
    score = validate(GradedScore, read_json(path, AGAIN), path)
    if score.schema_version != SCHEMA_VERSION:
        raise MedhebError(path, f"has schema version {score.schema_version}, not {SCHEMA_VERSION}", AGAIN)
    return score
