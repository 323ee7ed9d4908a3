"""Gather all recorded digests into one page of roots, and describe the environment they were made in."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from medheb.audit.environment import describe_environment
from medheb.audit.graded import graded_entry, task_of_graded
from medheb.audit.privacy import may_show
from medheb.audit.results import KeyCache, embedding_entry, group_sources, index_entry, score_entry
from medheb.audit.schema import (
    SECTION_LEVELS,
    Entry,
    Roots,
    SourceRecord,
    SourceRoots,
    environment_path,
    index_sums_path,
    overall_roots,
    read_source_record,
    record_path,
    roots_path,
    section_of,
)
from medheb.core.digests import sha256sums
from medheb.core.errors import MedhebError
from medheb.core.files import write_json, write_text
from medheb.manifest.load import Run


def write_roots(run: Run) -> Roots:
    """Write ``roots.json``, ``environment.json`` and ``SHA256SUMS-index`` from the sources' records and the results.

    Raises:
        MedhebError: a source has no record, or an index, score or receipt is missing or damaged.
    """
    cache: KeyCache = {}
    sources = {dataset: summary_of(read_source_record(record_path(run.layout, dataset))) for dataset in run.datasets}
    index = section_of(
        {
            key: _guarded(run, task.sources, key, partial(index_entry, run, task))
            for key, task in run.every_task.items()
        },
        SECTION_LEVELS["index"],
    )
    scores = section_of(
        {
            score_name(model, key): _guarded(run, task.sources, key, partial(score_entry, run, model, task))
            for model in run.models
            for key, task in run.tasks.items()
        },
        SECTION_LEVELS["scores"],
    )
    graded = section_of(
        {
            score_name(model, key): _guarded(
                run, task_of_graded(run, key).sources, key, partial(graded_entry, run, model, key)
            )
            for model in run.models
            for key in run.graded_entries
        },
        SECTION_LEVELS["graded"],
    )
    embeddings = section_of(
        {
            score_name(model, group): _guarded(
                run, group_sources(group), group, partial(embedding_entry, run, model, group, cache)
            )
            for model in run.models
            for group in run.groups
        },
        SECTION_LEVELS["embeddings"],
    )
    sections = {"index": index, "scores": scores, "graded": graded, "embeddings": embeddings}
    roots = Roots(
        sources=sources,
        index=index,
        scores=scores,
        graded=graded,
        embeddings=embeddings,
        overall=overall_roots(sources, sections),
    )
    write_text(index_sums_path(run.layout), sha256sums(shown_index(run, index.entries)))
    write_json(environment_path(run.layout), describe_environment())
    write_json(roots_path(run.layout), roots.model_dump())
    return roots


def _guarded(run: Run, sources: Iterable[str], name: str, make: Callable[[], Entry]) -> Entry:
    """``make()``; for a source that may not be shown, an error says where it happened but not with what."""
    try:
        return make()
    except OSError as error:
        raise MedhebError(name, f"cannot be read: {error.strerror}", "Repair it and run the workflow again") from None
    except MedhebError as error:
        if may_show(run, sources):
            raise
        raise MedhebError(name, "cannot be recorded (details of this source are withheld)", error.remedy) from None


def summary_of(record: SourceRecord) -> SourceRoots:
    """What ``roots.json`` takes over from a source's record."""
    return SourceRoots(
        state=record.state,
        reason=record.reason,
        remedy=record.remedy,
        file_count=record.file_count,
        roots=record.roots,
        exact=record.exact,
    )


def score_name(model: str, item: str) -> str:
    """Name of a score, graded score or embedding entry."""
    return f"{model}/{item}"


def shown_index(run: Run, entries: dict[str, Entry]) -> dict[str, str]:
    """``path -> L1`` of the built task JSONs whose sources may all be shown."""
    return {
        run.every_task[key].index: entry.digests["L1"]
        for key, entry in entries.items()
        if entry.state == "built" and may_show(run, run.every_task[key].sources)
    }
