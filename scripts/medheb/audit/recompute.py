"""Compute every metric again from the ranks of each query, without models, images or task files.

The formulas are written anew here, from the definition, and share no code with the evaluation step. Only the intervals
come from the same function, with the same seed.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from medheb.audit.graded import graded_differences, graded_digest
from medheb.audit.judge import Verdicts
from medheb.audit.parquet_table import Table, read_columns
from medheb.audit.results import score_digest
from medheb.audit.schema import Entry, Roots
from medheb.audit.stated import EXACT, stated_differences
from medheb.audit.verdicts import SCHEMA_VERSION, Unit, Verdict, exit_code, gravest, unit_of
from medheb.core.errors import MedhebError
from medheb.evaluate.graded_score import PER_QUERY_COLUMNS as GRADED_COLUMNS
from medheb.evaluate.graded_score import GradedScore, read_graded_score
from medheb.evaluate.metrics import CUTOFFS, interval
from medheb.evaluate.score import METRICS, PER_QUERY_COLUMNS, TOP, Score, read_score
from medheb.manifest.base import Strict
from medheb.manifest.config import Evaluate
from medheb.manifest.protocol import Protocol

Numbers = NDArray[np.float64]


class Recomputation(Strict):
    """Result: the JSON that ``medheb audit recompute --json`` prints."""

    schema_version: int = SCHEMA_VERSION
    verdict: Verdict
    exit_code: int
    scores: int = Field(description="scores whose metrics were computed again")
    queries: int = Field(description="queries behind them")
    units: tuple[Unit, ...]


@dataclass(frozen=True)
class Settings:
    """What the numbers depend on beside the ranks.

    Args:
        protocols: by name.
        evaluate: options of the intervals.
        seed: of the run.
    """

    protocols: Mapping[str, Protocol]
    evaluate: Evaluate
    seed: int


@dataclass(frozen=True)
class Examined:
    """What came of one score: the first difference in words, its queries, its status, and how its digest is made."""

    problem: str
    queries: int
    built: bool
    digest: Callable[[], str]


def recompute(folder: Path, settings: Settings, roots: Roots | None = None) -> Recomputation:
    """Compute the metrics of all scores in ``folder`` again; whatever differs or cannot be read is a finding.

    Args:
        folder: holds ``<model>/<task>.json`` and ``.parquet``; graded scores lie likewise in ``graded`` beside it.
        settings: protocols, interval options and seed of the run.
        roots: also hold the scores against these recorded digests.
    """
    recorded = {name: roots.sections[name].entries if roots else {} for name in ("scores", "graded")}
    examine = partial(_examine, settings=settings)
    verdicts, done, queries = _judge_all(folder, examine, recorded["scores"])
    if not verdicts:
        verdicts[folder.name] = ("MISSING", "holds no scores")
    units = [unit_of("scores", "metrics from ranks", verdicts)]
    graded, more, others = _judge_all(
        folder.with_name("graded"), partial(_examine_graded, settings=settings), recorded["graded"]
    )
    if graded:
        units.append(unit_of("graded", "graded metrics", graded))
    return Recomputation(
        verdict=gravest(unit.verdict for unit in units),
        exit_code=exit_code(units),
        scores=done + more,
        queries=queries + others,
        units=tuple(units),
    )


def _judge_all(
    folder: Path, examine: Callable[[Path, str], Examined], recorded: Mapping[str, Entry]
) -> tuple[Verdicts, int, int]:
    """Verdicts by ``model/task``, how many scores were computed again, and over how many queries."""
    verdicts: Verdicts = {}
    done = queries = 0
    names = sorted({path.relative_to(folder).with_suffix("").as_posix() for path in folder.glob("*/*.*")})
    for name in (name for name in names if not Path(name).name.startswith(".")):
        try:
            found = examine(folder / f"{name}.json", name)
            problem = found.problem
            entry = recorded.get(name)
            if not problem and entry is not None and found.built and found.digest() != entry.digests.get("L2"):
                problem = "agrees with its ranks, but roots.json records another score"
        except MedhebError as error:
            verdict: Verdict = "UNREADABLE" if Path(error.where).exists() else "MISSING"
            verdicts[name] = (verdict, f"{Path(error.where).name} {error.fault}")
            continue
        except (OSError, RecursionError) as error:
            verdicts[name] = ("UNREADABLE", f"cannot be read: {type(error).__name__}")
            continue
        done, queries = done + (found.queries > 0), queries + found.queries
        if problem:
            verdicts[name] = ("MISMATCH", problem)
        elif found.built:
            verdicts[name] = ("IDENTICAL", "")
        else:
            verdicts[name] = ("NOT-BUILT", "has no metrics, as its status says")
    for name in recorded.keys() - verdicts.keys():
        verdicts[name] = ("MISSING", "is recorded but not there")
    return verdicts, done, queries


def _examine(path: Path, name: str, settings: Settings) -> Examined:
    score, per_query = read_score(path), path.with_suffix(".parquet")
    digest = partial(score_digest, score, per_query)
    problem = _out_of_place(score, f"{score.model}/{score.task}", name, settings)
    if problem or not score.status.ok:
        return Examined(problem, 0, score.status.ok, digest)
    table = read_columns(per_query, PER_QUERY_COLUMNS)
    differences = _differences(score, table, settings.protocols[score.protocol], settings)
    return Examined(next(differences, ""), len(table["row"]), True, digest)


def _examine_graded(path: Path, name: str, settings: Settings) -> Examined:
    score, per_query = read_graded_score(path), path.with_suffix(".parquet")
    digest = partial(graded_digest, score, per_query)
    problem = _out_of_place(score, f"{score.model}/{score.key}", name, settings)
    if problem or not score.status.ok:
        return Examined(problem, 0, score.status.ok, digest)
    table = read_columns(per_query, GRADED_COLUMNS)
    differences = graded_differences(score, table, settings.evaluate, settings.seed)
    return Examined(next(differences, ""), len(table["row"]), True, digest)


def _out_of_place(score: Score | GradedScore, its_name: str, name: str, settings: Settings) -> str:
    """Why a score cannot be held against its ranks, in words, or an empty text."""
    if its_name != name:
        return f"is the score of {its_name}"
    if not score.status.ok:
        return "states metrics though its status is not ok" if score.metrics else ""
    known = score.protocol in settings.protocols
    return "" if known else f"follows protocol {score.protocol}, which is not known here"


def _differences(score: Score, table: Table, protocol: Protocol, settings: Settings) -> Iterator[str]:
    count = len(table["row"])
    if count != score.queries or count == 0:
        yield f"states {score.queries} queries, its parquet has {count}"
        return
    if not np.array_equal(table["row"], np.arange(count)):
        yield "its parquet does not hold each query once"
        return
    above, tied, positives, pool = (table[column] for column in ("above", "tied", "positives", "pool"))
    impossible = (above < 0) | (positives < 1) | (tied < positives) | (above + tied > pool)
    if impossible.any():
        yield f"row {int(np.flatnonzero(impossible)[0])} has counts that no ranking can have"
        return
    yield from _top_differences(table, protocol.tie_tolerance)
    for metric in METRICS:
        values = _values(metric, table, protocol.ties)
        for column, found in (
            (metric, values),
            (f"{metric}_worst", _worst(metric, table)),
            (f"{metric}_chance", np.array([_mean_gain(metric, 0, int(size), 1) for size in pool])),
        ):
            apart = np.abs(np.asarray(table[column], dtype=np.float64) - found)
            if not (apart <= EXACT).all():
                row = int(np.argmax(~(apart <= EXACT)))
                yield f"row {row}: {column} is {float(table[column][row]):.6g}, its ranks give {found[row]:.6g}"
        yield from _summary_differences(score, metric, table, values, settings)
    fraction = float(np.mean(tied > positives))
    if abs(score.tied_fraction - fraction) > EXACT:
        yield f"states a tied fraction of {score.tied_fraction:.6g}, its ranks give {fraction:.6g}"


def _summary_differences(score: Score, metric: str, table: Table, values: Numbers, settings: Settings) -> Iterator[str]:
    stated = score.metrics.get(metric)
    if stated is None:
        yield f"states no {metric}"
        return
    seed = settings.seed + zlib.crc32(score.task.encode())
    low_high = interval(values, settings.evaluate.confidence, settings.evaluate.bootstrap_resamples, seed)
    yield from stated_differences(stated, metric, table, float(values.mean()), low_high, "ranks")


def _top_differences(table: Table, tolerance: float) -> Iterator[str]:
    """The top ten must be sorted, of the right length, and hold as many better candidates as are counted above."""
    for row, (scores, pool, above, best) in enumerate(
        zip(table["top_score"], table["pool"], table["above"], table["score"], strict=True)
    ):
        if len(scores) != min(TOP, pool):
            yield f"row {row} shows {len(scores)} top candidates of {pool}"
            return
        if (np.diff(scores) > 0).any():
            yield f"row {row} shows top candidates that are not in order"
            return
        better = int((np.asarray(scores, dtype=np.float32) > np.float32(best) + np.float32(tolerance)).sum())
        if better != min(int(above), len(scores)):
            yield f"row {row} counts {above} candidates above the positive, its top ten shows {better}"
            return


def _values(metric: str, table: Table, ties: str) -> Numbers:
    rows = zip(table["above"].tolist(), table["tied"].tolist(), table["positives"].tolist(), strict=True)
    if ties == "expected":
        return np.array([_mean_gain(metric, *row) for row in rows])
    return np.array([_gain(metric, above + 1) for above, _, _ in rows])


def _worst(metric: str, table: Table) -> Numbers:
    """The right candidates last in their group of ties."""
    right = table["positives"].tolist()
    before = (table["above"] + table["tied"] - table["positives"]).tolist()
    return np.array([_mean_gain(metric, first, count, count) for first, count in zip(before, right, strict=True)])


def _gain(metric: str, rank: int) -> float:
    """Hit@k: 1 up to rank k. MRR@k: 1 / rank up to rank k. NDCG@k: 1 / log2(1 + rank), of an ideal gain of 1."""
    if rank > CUTOFFS[metric]:
        return 0.0
    if metric.startswith("ndcg"):
        return 1.0 / math.log2(1 + rank)
    return 1.0 if metric.startswith("hit") else 1.0 / rank


@cache
def _mean_gain(metric: str, above: int, tied: int, positives: int) -> float:
    """Mean over all orders of ``tied`` equal candidates: walk down the ranks until the first right one is met.

    NDCG counts every right one: each rank of the group holds one with the same probability.
    """
    if metric.startswith("ndcg"):
        mean = sum(_gain(metric, above + offset + 1) for offset in range(min(tied, CUTOFFS[metric]))) * positives / tied
        return mean / sum(_gain(metric, rank) for rank in range(1, positives + 1))
    total, none_yet = 0.0, 1.0
    for offset in range(min(tied, CUTOFFS[metric])):
        left = tied - offset
        here = min(1.0, positives / left)
        total += none_yet * here * _gain(metric, above + offset + 1)
        none_yet *= 1.0 - here
    return total
