"""Verify a user's own copy of a source where it lies. Nothing is copied, and no name or id of it is logged."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from medheb.core.errors import BlockedError, MedhebError
from medheb.core.files import write_json
from medheb.core.status import OK, Status, status_of
from medheb.fetch.check_files import Wanted, check_files
from medheb.fetch.digest_cache import DigestCache
from medheb.fetch.located import CopiedProject, LocalCopy, local_copy_file
from medheb.fetch.physionet import Project, find_projects, folders_below, matching
from medheb.fetch.space import disk_trouble
from medheb.fetch.sums import NAME
from medheb.fetch.verification import FileVerdict, Verification, where_of
from medheb.manifest.base import read_json
from medheb.manifest.dataset import Dataset, SourceFile
from medheb.manifest.hosts import PhysioNetHost
from medheb.manifest.load import Run

LOG = logging.getLogger("medheb.fetch")
IMAGE_FIELDS = ("qry_img_path", "tgt_img_path")
# Task files name pictures from their image root, which may lie inside the project's `files` folder.
IMAGE_PREFIXES = ("", "files/")


def verify_local_copy(run: Run, dataset: Dataset) -> Status:
    """Verify the copy that the configuration names, and leave ``local.json`` exactly if it may be used.

    Returns:
        ok; blocked (no copy, not readable, incomplete); or failed (wrong content).
    """
    target = local_copy_file(run.layout, dataset.id)
    origin = f"fetch {dataset.id}"
    try:
        try:
            target.unlink(missing_ok=True)
            verification = verify_local(run, dataset)
            if trouble := verification.trouble():
                raise trouble
            write_json(target, _known(verification).model_dump(mode="json"))
        except OSError as error:
            raise disk_trouble(error, origin) from None
    except MedhebError as error:
        return status_of(error, origin)
    return OK


def verify_local(
    run: Run, dataset: Dataset, *, full: bool = False, reread: bool = False, workers: int | None = None
) -> Verification:
    """Verify a copy file by file.

    By default the files that match the manifest's ``needed`` patterns are read, and those that existing task files
    name. Files that an earlier run found right and that did not change since are not read again. A source that needs
    several projects is found right only if each of them is.

    Args:
        run: names the copy in ``local_copies``.
        dataset: the source.
        full: read all listed files, and count those that the list does not name.
        reread: read also what an earlier run found right.
        workers: threads; None for one a processor.

    Raises:
        BlockedError: the configuration names no copy, or it (or one of its projects) is not recognised.
        MedhebError: the list of digests or a task file is faulty.
    """
    where = where_of(dataset.id)
    given = run.config.local_copies.get(dataset.id)
    if given is None:
        raise BlockedError(
            where, "is not named", f"Set 'local_copies: {{{dataset.id}: <folder>}}' in the configuration"
        )
    folder = Path(given).expanduser()
    cache = DigestCache(local_copy_file(run.layout, dataset.id).with_name("verified.bin"), reread)
    hosts = [host for host in (dataset.host, *dataset.mirrors) if isinstance(host, PhysioNetHost)]
    if hosts:
        projects = find_projects(folder, [hosts, *([host] for host in dataset.also)], where)
        parts = [_verify_project(run, dataset, project, full, cache, workers) for project in projects]
    else:
        parts = [_verify_folder(run, dataset, _best_folder(folder, dataset, where), full, cache, workers)]
    notes = [f"{part.slug}: {note}" if len(parts) > 1 else note for part in parts for note in part.notes]
    verification = replace(parts[0], also=tuple(parts[1:]), notes=tuple(notes))
    for part in parts:
        LOG.info("%s", part.line())
    for note in notes:
        LOG.warning("%s: %s", where, note)
    return verification


def _verify_project(
    run: Run, dataset: Dataset, project: Project, full: bool, cache: DigestCache, workers: int | None
) -> Verification:
    where = where_of(dataset.id)
    LOG.info("%s: found %s %s as %s", where, project.slug, project.version, project.layout)
    wanted, notes = _wanted_of_project(run, dataset, project, full)
    found = check_files(project.root, wanted, cache, where, workers)
    return Verification(
        dataset=dataset.id,
        slug=project.slug,
        version=project.version,
        layout=project.layout,
        root=Path(os.path.realpath(project.root)),
        full=full,
        listed=len(project.sums.digests),
        list_digest=project.sums.digest,
        extra=_count_extra(project.root, set(project.sums.digests)) if full else None,
        files=tuple(found),
        notes=(*notes, *_alternate_notes(found)),
        closed=_closed(run),
    )


def _verify_folder(
    run: Run, dataset: Dataset, root: Path, full: bool, cache: DigestCache, workers: int | None
) -> Verification:
    wanted = [_wanted_of_manifest(file) for file in dataset.files]
    found = check_files(root, wanted, cache, where_of(dataset.id), workers)
    return Verification(
        dataset=dataset.id,
        slug="",
        version="",
        layout="folder",
        root=Path(os.path.realpath(root)),
        full=full,
        listed=len(wanted),
        list_digest=None,
        extra=_count_extra(root, {file.path for file in dataset.files}) if full else None,
        files=tuple(found),
        notes=(*_manifest_notes(dataset), *_alternate_notes(found)),
        closed=_closed(run),
    )


def _closed(run: Run) -> tuple[Path, ...]:
    return run.layout.sources, run.layout.benchmark, run.layout.results, Path.cwd()


def _wanted_of_project(run: Run, dataset: Dataset, project: Project, full: bool) -> tuple[list[Wanted], list[str]]:
    digests = project.sums.digests
    needed, idle = matching(digests, project.needed)
    notes = [f"pattern '{pattern}' of the manifest matches no listed file" for pattern in idle]
    if project.version == "unstated":
        notes.append("no name tells the version; the files are judged by the copy's own list")
    chosen = set(digests) if full else {*needed, *_named_by_tasks(run, dataset, project)}
    # The files of a manifest are those of its host, not of the further projects.
    of_host = project.slug not in {host.slug for host in dataset.also}
    known = {file.path: file for file in dataset.files} if of_host else {}
    wanted = []
    if NAME in known:
        wanted.append(_wanted_of_manifest(known[NAME]))
    for path, digest in digests.items():
        if path in chosen and path != NAME:
            wanted.append(Wanted(path, digest, accepted=_accepted(known[path], digest) if path in known else ()))
    return wanted, notes


def _accepted(file: SourceFile, listed: bytes | None) -> tuple[tuple[bytes, str], ...]:
    accepted = [(bytes.fromhex(other.sha256), other.note) for other in file.accepted]
    if listed is not None and file.sha256 is not None and bytes.fromhex(file.sha256) != listed:
        accepted.append((bytes.fromhex(file.sha256), f"the manifest's digest: {file.digest_source}"))
    return tuple(accepted)


def _wanted_of_manifest(file: SourceFile) -> Wanted:
    accepted = _accepted(file, None)
    if file.sha256 is None and file.md5 is not None:
        return Wanted(file.path, bytes.fromhex(file.md5), "md5", accepted, file.bytes)
    digest = bytes.fromhex(file.sha256) if file.sha256 else None
    return Wanted(file.path, digest, "sha256", accepted, file.bytes)


def _manifest_notes(dataset: Dataset) -> list[str]:
    if not dataset.files:
        return ["not verifiable: the manifest lists no files of this source"]
    return []


def _alternate_notes(found: list[FileVerdict]) -> list[str]:
    """Reasons of accepted alternates; they are the manifest's words, so they may be shown."""
    notes = sorted({verdict.note for verdict in found if verdict.state == "accepted alternate"})
    counts = [
        sum(verdict.note == note and verdict.state == "accepted alternate" for verdict in found) for note in notes
    ]
    return [f"{count} accepted under another digest: {note}" for count, note in zip(counts, notes, strict=True)]


def _named_by_tasks(run: Run, dataset: Dataset, project: Project) -> Iterator[str]:
    """Listed paths that existing task files of this source name."""
    for task in run.tasks.values():
        path = run.layout.task_index(task.index)
        if dataset.id not in task.sources or not path.is_file():
            continue
        rows = read_json(path, "Build the index again")
        if not isinstance(rows, list):
            raise MedhebError(path, "is not a list of records", "Delete it and build the index again")
        for name in _texts([row.get(field) for row in rows if isinstance(row, dict) for field in IMAGE_FIELDS]):
            for prefix in IMAGE_PREFIXES:
                if prefix + name in project.sums.digests:
                    yield prefix + name


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for part in value:
            yield from _texts(part)


def _best_folder(given: Path, dataset: Dataset, where: str) -> Path:
    """The nearest folder that holds most of the manifest's files."""
    paths = [file.path for file in dataset.files]
    best, most = given, 0
    for folder in folders_below(given, where):
        count = sum(os.path.lexists(folder / path) for path in paths)
        if count > most:
            best, most = folder, count
        if count == len(paths):
            break
    return best


def _count_extra(root: Path, listed: set[str]) -> int:
    """Files below ``root`` that the list does not name. Folders behind links are not entered."""
    start = os.path.realpath(root)
    extra = 0
    for folder, _, names in os.walk(start):
        inner = os.path.relpath(folder, start)
        prefix = "" if inner == "." else inner.replace(os.sep, "/") + "/"
        extra += sum(prefix + name not in listed and prefix + name != NAME for name in names)
    return extra


def _known(verification: Verification) -> LocalCopy:
    first, *others = [_copied(part) for part in verification.parts]
    return LocalCopy(
        **first.model_dump(),
        dataset=verification.dataset,
        full=verification.full,
        notes=verification.notes,
        also=tuple(others),
    )


def _copied(part: Verification) -> CopiedProject:
    return CopiedProject(
        root=str(part.root),
        layout=part.layout,
        slug=part.slug,
        version=part.version,
        listed=part.listed,
        checked=len(part.files),
        counts={str(state): count for state, count in part.counts.items()},
        bytes=part.bytes,
        list_sha256=part.list_digest,
    )
