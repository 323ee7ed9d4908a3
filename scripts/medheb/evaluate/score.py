"""The score file of one model on one task, and the columns of the parquet beside it."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from medheb.core.errors import MedhebError
from medheb.core.files import write_json
from medheb.core.status import Status
from medheb.manifest.base import Strict, read_json, validate
from medheb.manifest.task import Family

SCHEMA_VERSION = 2
METRICS = ("hit@1", "hit@5", "mrr@5", "ndcg@5", "ndcg@10")
TOP = 10

# Per-query parquet. One row a query, in task order. ``above`` candidates score higher than the best
# positive, ``tied`` equal it (positives included), ``positives`` of the pool are right. ``top_row`` and
# ``top_position`` locate each of the top ten candidates in the task JSON (record, candidate).
PER_QUERY_COLUMNS = (
    "row",
    "pool",
    "above",
    "tied",
    "positives",
    "score",
    *METRICS,
    *(f"{metric}_worst" for metric in METRICS),
    *(f"{metric}_chance" for metric in METRICS),
    "top_row",
    "top_position",
    "top_score",
    "top_positive",
)


class Metric(Strict):
    """Mean over queries, its interval over queries, the value if every tie went against the model, and chance."""

    value: float
    low: float
    high: float
    worst: float
    chance: float


class Score(Strict):
    """Result of one model on one task. With a status that is not ok, ``metrics`` is empty."""

    schema_version: int = SCHEMA_VERSION
    model: str
    task: str
    family: Family
    form: str
    split: str
    pool: str
    status: Status
    protocol: str
    task_digest: str = Field(default="", description="digest of the task JSON")
    data_root: str = Field(default="", description="Merkle root over the L2 digests of all files of the task's sources")
    fingerprint: str = Field(default="", description="model, weights, adapter and preprocessing in one digest")
    queries: int = 0
    candidates: int = Field(default=0, description="distinct candidates over all queries")
    metrics: dict[str, Metric] = Field(default_factory=dict)
    tied_fraction: float = Field(default=0.0, description="queries whose positive ties with another candidate")
    mean_cosine: float | None = Field(default=None, description="between different candidates; 1: all point one way")
    effective_rank: float | None = Field(
        default=None, description="directions that the candidates use; 1: one (Roy and Vetterli 2007)"
    )
    warnings: tuple[str, ...] = ()
    seconds: float = 0.0


def write_score(path: Path, score: Score) -> None:
    """Write a score atomically."""
    write_json(path, score.model_dump())


def read_score(path: Path) -> Score:
    """Read a score.

    Raises:
        MedhebError: missing or not a score of this schema version.
    """
    content = read_json(path, "Run the evaluation again")
    if isinstance(content, dict) and content.get("schema_version") != SCHEMA_VERSION:
        raise MedhebError(
            path, f"has schema version {content.get('schema_version')}", f"Allowed: {SCHEMA_VERSION}; run it again"
        )
    return validate(Score, content, path)
