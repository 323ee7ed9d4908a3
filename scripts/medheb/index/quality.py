"""The quality report of a task: what of its pools, labels, texts and splits a reader of its scores should know.

Counts only: no text, label or path of a task stands in it, so that it may be shown for every source.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal

from pydantic import Field

from medheb.core.files import write_json
from medheb.manifest.base import Strict, read_json, validate

SCHEMA_VERSION = 1
HIT = 5  # the widest metric that a small pool makes trivial


class Spread(Strict):
    """Least, middle and greatest of some numbers, and their mean."""

    minimum: int
    median: float
    maximum: int
    mean: float


class Labels(Strict):
    """Balance of the right answers of a task with labels."""

    classes: int
    largest: float = Field(description="share of the queries with the commonest right label: a blind guess's score")
    smallest: int = Field(description="queries of the rarest label")
    evenness: float = Field(description="entropy over its greatest value: 1 if all labels are equally common")


class Splits(Strict):
    """Pictures of a task beside the split and group that the build noted."""

    pictures: int = Field(description="distinct files that the task names")
    by_split: dict[str, int] = Field(description="these by the split of their own fact; 'none' without one")
    equal_in_train: int | None = Field(
        description="pictures outside train whose pixels a train picture has, too; in tasks of volumes, whole volumes "
        "all of whose slices do, as single ones, say black ones, are no leak; null where no training part was built"
    )
    groups: int = Field(description="patients, cases or source pictures of those outside train")
    groups_in_train: int | None = Field(
        description="of these, groups that also have train pictures; null where no training part was built"
    )


class Projected(Strict):
    """X-rays that were made from CT, and by which projector (docs/drr.md)."""

    expected: str | None = Field(
        description="the projector that this run's configuration chooses; null where the source's recipe has its own"
    )
    made_by: dict[str, int] = Field(description="distinct pictures of the task by the projector that made them")


class Merged(Strict):
    """What a text cleaning makes of the distinct answers of a task file.

    Under ``corrected`` the builders have cleaned honestly before, so what that makes equal is one answer already: how
    many it merges is told by the task file of ``release``.
    """

    answers: int = Field(description="distinct candidate texts before")
    published: int = Field(description="answers that the published cleaning makes equal to another")
    published_rows: int = Field(description="queries whose right answer then equals a wrong one of its own row")
    honest: int = Field(description="answers that the honest cleaning makes equal to another")
    honest_rows: int = Field(description="queries whose right answer then equals a wrong one of its own row")


class Released(Strict):
    """What was met in a released task file."""

    sha256: str
    generation: Literal["old", "published"] | None
    unknown_fields: dict[str, int] = Field(description="fields of no known generation, with their number of rows")
    multi_picture_candidates: int = Field(description="candidates of several pictures, taken as one")
    unread_query_pictures: int = Field(
        description="query pictures of text-image rows, which are not read, as published"
    )
    paths: dict[str, int] = Field(description="distinct paths by how they were found: root, other root, case")


class Quality(Strict):
    """Content of ``<task>.quality.json``. Equality is of content: pixels, or the text."""

    schema_version: int = SCHEMA_VERSION
    task: str
    task_index: Literal["released", "rebuilt"]
    protocol: Literal["release", "corrected"]
    rows: int
    repeated_queries: int = Field(description="queries that say the same as an earlier one")
    pool: Spread | None = Field(description="different candidates that a query is ranked against")
    distinct_candidates: int
    chance_hit1: float
    chance_hit5: float
    trivial_hit5: float = Field(description="share of queries with at most five candidates: Hit@5 is always 1")
    rows_with_repeats: int = Field(description="rows that hold one candidate more than once")
    repeats: int = Field(description="candidates beyond the first of equal ones within a row")
    positives_repeated: int = Field(description="rows whose right candidate stands in its row once more")
    positives_shared_name: int = Field(
        description="rows whose pool has the right candidate's content under another path"
    )
    positives_equal_label: int | None = Field(
        description="rows whose pool holds a wrong picture with the right one's label; null without labels"
    )
    labels: Labels | None
    query_text: Spread | None = Field(description="characters, of queries with a text")
    candidate_text: Spread | None = Field(description="characters, of distinct candidate texts")
    splits: Splits | None
    merged: Merged | None
    projected: Projected | None = Field(default=None, description="null without X-rays from CT")
    released: Released | None = None


def spread_of(counts: Mapping[int, int]) -> Spread | None:
    """Spread of numbers given as number to how often; None if there are none."""
    total = sum(counts.values())
    if not total:
        return None
    ordered = sorted(counts.items())
    middle = (_at(ordered, (total - 1) // 2) + _at(ordered, total // 2)) / 2
    mean = sum(number * count for number, count in ordered) / total
    return Spread(minimum=ordered[0][0], median=middle, maximum=ordered[-1][0], mean=round(mean, 3))


def _at(ordered: Iterable[tuple[int, int]], position: int) -> int:
    for number, count in ordered:
        position -= count
        if position < 0:
            return number
    raise IndexError(position)


def labels_of(counts: Counter[str]) -> Labels | None:
    """Balance of labels given as label to queries; None if there are none."""
    total = sum(counts.values())
    if not total:
        return None
    entropy = -math.fsum(count / total * math.log(count / total) for count in counts.values())
    most = math.log(len(counts))
    return Labels(
        classes=len(counts),
        largest=round(max(counts.values()) / total, 6),
        smallest=min(counts.values()),
        evenness=round(entropy / most, 6) if most else 1.0,
    )


def write_quality(path: Path, quality: Quality) -> None:
    """Write a quality report."""
    write_json(path, quality.model_dump(mode="json"))


def read_quality(path: Path) -> Quality:
    """Read a quality report.

    Raises:
        MedhebError: missing or not a quality report.
    """
    return validate(Quality, read_json(path, "Build the index again: snakemake index"), path)
