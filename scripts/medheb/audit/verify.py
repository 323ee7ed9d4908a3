"""Verify a run against its audit folder: sources, task JSONs, scores, embedding keys, and the record itself."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from medheb.audit.consistency import judge_record
from medheb.audit.environment import encoder_differences
from medheb.audit.graded import graded_entry, other_origin, task_of_graded
from medheb.audit.judge import Digests, Verdicts, judge, survey
from medheb.audit.lineage import Origin
from medheb.audit.privacy import may_show
from medheb.audit.results import KeyCache, embedding_entry, group_sources, score_entry
from medheb.audit.roots import score_name
from medheb.audit.schema import (
    WITHHELD,
    Entry,
    Roots,
    SourceRecord,
    environment_path,
    read_roots,
    read_source_record,
    record_path,
    roots_path,
)
from medheb.audit.tree import Kind, kind_at, something_at
from medheb.audit.verdicts import CheckedLevel, Unit, Verdict, Verification, exit_code, gravest, unit_of
from medheb.audit.verify_source import Depth, verify_source
from medheb.core.errors import MedhebError
from medheb.manifest.load import Run
from medheb.manifest.task import Task

# What a fast check leaves out: both read every task JSON and the inputs of every model.
SKIPPED = ("embedded inputs", "origin of scores")


def verify(
    run: Run,
    source: str | None = None,
    level: CheckedLevel = "L2",
    workers: int = os.cpu_count() or 1,
    sample_seed: int | None = None,
) -> Verification:
    """Compare everything on disk with the audit folder.

    Args:
        run: the configuration that the audit folder was recorded with.
        source: check this source, and the task JSONs and scores that draw on it, only.
        level: L1 hashes bytes; L2 also decodes, and so tells another encoding from another content.
        workers: threads that hash and decode.
        sample_seed: check fast: sizes of all files, contents of those that this seed chooses, and all roots of the
            record. None reads everything.

    Raises:
        MedhebError: the run has no source of that name. Everything else becomes a verdict.
    """
    if source is not None and source not in run.datasets:
        raise MedhebError(f"source '{source}'", "is not part of this run", f"Allowed: {', '.join(run.datasets)}")
    try:
        roots = read_roots(roots_path(run.layout))
    except MedhebError as error:
        name = roots_path(run.layout).name
        verdict: Verdict = "UNREADABLE" if something_at(roots_path(run.layout)) else "MISSING"
        unit = unit_of("record", "audit folder", {name: (verdict, f"{error.fault}. {error.remedy}")})
        return _result(run, source, Depth(level, workers, sample_seed), [unit])
    records, broken = _read_records(run)
    asked = [source] if source else list(run.datasets)
    depth = Depth(level, workers, sample_seed)
    units = [verify_source(run, records[dataset], depth) for dataset in asked if dataset in records]
    every = {key: task for key, task in run.every_task.items() if source is None or source in task.sources}
    units.append(_verify_index(run, roots, every, depth))
    tasks = {key: task for key, task in every.items() if key in run.tasks}
    units.append(_verify_scores(run, roots, None if depth.fast else records, tasks))
    graded = [key for key in run.graded_entries if task_of_graded(run, key).task in every]
    if graded or roots.graded.entries:
        units.append(_verify_graded(run, roots, None if depth.fast else records, graded))
    if source is None and not depth.fast:
        units.append(_verify_embeddings(run, roots))
    judged = judge_record(run, roots, {dataset: records[dataset] for dataset in asked if dataset in records}, source)
    judged |= {name: verdict for name, verdict in broken.items() if name.partition("/")[0] in asked}
    units.append(unit_of("record", "audit folder", judged))
    return _result(run, source, depth, units)


def _result(run: Run, source: str | None, depth: Depth, units: list[Unit]) -> Verification:
    return Verification(
        level=depth.level,
        source=source,
        sample_seed=depth.seed,
        skipped=SKIPPED if depth.fast else (),
        verdict=gravest(unit.verdict for unit in units),
        exit_code=exit_code(units),
        encoders=encoder_differences(environment_path(run.layout)),
        units=tuple(units),
    )


def _read_records(run: Run) -> tuple[dict[str, SourceRecord], Verdicts]:
    records: dict[str, SourceRecord] = {}
    broken: Verdicts = {}
    for dataset in run.datasets:
        path = record_path(run.layout, dataset)
        try:
            records[dataset] = read_source_record(path)
            if records[dataset].dataset != dataset:
                raise MedhebError(path, f"is about source {records.pop(dataset).dataset}", "Record it again")
        except MedhebError as error:
            verdict: Verdict = "UNREADABLE" if something_at(path) else "MISSING"
            broken[f"{dataset}/{path.name}"] = (verdict, f"{error.fault}. {error.remedy}")
    return records, broken


def _verify_index(run: Run, roots: Roots, tasks: Mapping[str, Task], depth: Depth) -> Unit:
    """Verdict over task JSONs, named by path, or by task where a source is withheld.

    A fast check parses only those whose bytes are not the recorded ones.
    """
    expected: dict[str, Digests] = {}
    names: dict[str, str] = {}
    verdicts: Verdicts = {}
    for key, task in tasks.items():
        name = task.index if may_show(run, task.sources) else key
        entry = roots.index.entries.get(key)
        if entry is None:
            verdicts[name] = ("EXTRA", "is not recorded; record again: snakemake audit")
        elif entry.state == "not-built":
            verdicts[name] = ("NOT-BUILT", entry.reason)
        else:
            expected[task.index] = Digests(entry.digests.get("L1", ""), entry.digests.get("L2", ""))
            names[task.index] = name
    kinds = {path: kind_at(run.layout.benchmark, path) for path in expected}
    present = {path: kind for path, kind in kinds.items() if kind is not None}
    judged = _judge_index(run, expected, present, replace(depth, level="L1")) if depth.fast else {}
    rest = {path: digests for path, digests in expected.items() if judged.get(path, ("",))[0] != "IDENTICAL"}
    judged |= _judge_index(run, rest, {path: kind for path, kind in present.items() if path in rest}, depth)
    for path, (verdict, reason) in judged.items():
        verdicts[names[path]] = (verdict, reason if names[path] == path or not reason else WITHHELD)
    return unit_of("index", "task JSONs", verdicts)


def _judge_index(run: Run, expected: Mapping[str, Digests], present: Mapping[str, Kind], depth: Depth) -> Verdicts:
    measured = survey(run.layout.benchmark, expected, present, depth.level, depth.workers)
    return judge(expected, present, measured, depth.level)


def _verify_scores(
    run: Run, roots: Roots, records: Mapping[str, SourceRecord] | None, tasks: Mapping[str, Task]
) -> Unit:
    """Verdict over scores by ``model/task``; they have reproducible content (L2) only.

    Without ``records``, nobody asks whether a score was computed from the data and the task JSON that were recorded.
    """
    verdicts: Verdicts = {}
    for key, task in tasks.items():
        origin = Origin(run, task, records) if records is not None else None
        for model in run.models:
            name = score_name(model, key)
            path = run.layout.score(model, key)
            found = _attempt(partial(score_entry, run, model, task))
            verdict, reason = _judge_entry(roots.scores.entries.get(name), found, something_at(path))
            stale = origin.contradiction(path) if origin and verdict == "IDENTICAL" else ""
            if stale:
                verdict, reason = "MISMATCH", stale
            elif verdict == "MISMATCH":
                reason = "metrics or ranks differ"
            verdicts[name] = (verdict, reason if not reason or may_show(run, task.sources) else WITHHELD)
    return unit_of("scores", "scores", verdicts)


def _verify_graded(run: Run, roots: Roots, records: Mapping[str, SourceRecord] | None, graded: Iterable[str]) -> Unit:
    """Verdict over graded scores by ``model/key``, as over scores."""
    verdicts: Verdicts = {}
    for key in graded:
        shown = may_show(run, task_of_graded(run, key).sources)
        for model in run.models:
            name, path = score_name(model, key), run.layout.graded(model, key)
            found = _attempt(partial(graded_entry, run, model, key))
            verdict, reason = _judge_entry(roots.graded.entries.get(name), found, something_at(path))
            stale = other_origin(run, model, key, records) if records is not None and verdict == "IDENTICAL" else ""
            if stale:
                verdict, reason = "MISMATCH", stale
            elif verdict == "MISMATCH":
                reason = "metrics or values of queries differ"
            verdicts[name] = (verdict, reason if not reason or shown else WITHHELD)
    return unit_of("graded", "graded scores", verdicts)


def _verify_embeddings(run: Run, roots: Roots) -> Unit:
    """Verdict over the keys of embedded inputs by ``model/group``. Vectors are not compared."""
    verdicts: Verdicts = {}
    cache: KeyCache = {}
    for group in run.groups:
        shown = may_show(run, group_sources(group))
        for model in run.models:
            name = score_name(model, group)
            found = _attempt(partial(embedding_entry, run, model, group, cache))
            verdict, reason = _judge_entry(
                roots.embeddings.entries.get(name), found, something_at(run.layout.embedded(model, group))
            )
            verdicts[name] = (verdict, reason if not reason or shown else WITHHELD)
    return unit_of("embeddings", "embedded inputs", verdicts)


def _attempt(make: Callable[[], Entry]) -> Entry | str:
    """``make()``, or what is wrong."""
    try:
        return make()
    except MedhebError as error:
        return f"{Path(error.where).name} {error.fault}"
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    except RecursionError:
        return "is nested too deeply"


def _judge_entry(recorded: Entry | None, found: Entry | str, present: bool) -> tuple[Verdict, str]:
    if recorded is None:
        return "EXTRA", "is not recorded; record again: snakemake audit"
    if recorded.state == "not-built":
        if isinstance(found, Entry) and found.state == "built":
            return "EXTRA", "was not built when recorded and is there now; record again: snakemake audit"
        return "NOT-BUILT", recorded.reason
    if isinstance(found, str):
        return ("UNREADABLE", found) if present else ("MISSING", "is recorded but not there")
    if found.state == "not-built":
        return "MISSING", f"is recorded but not built any more: {found.reason}"
    if found.digests == recorded.digests:
        return "IDENTICAL", ""
    if found.digests.get("L2") == recorded.digests.get("L2"):
        return "EQUIVALENT", "image bytes differ, pixels and texts are equal"
    return "MISMATCH", "its content differs from the record"
