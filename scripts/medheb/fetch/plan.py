"""``medheb plan``: what a run would download and need, before anything is downloaded. Reads no data, asks no host."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from pydantic import Field

from medheb.core.errors import BlockedError, MedhebError
from medheb.core.layout import Layout
from medheb.core.status import read_status
from medheb.fetch.needs import Need, host_need, is_own_copy, local_copy_need
from medheb.fetch.terms import require_accepted
from medheb.manifest.base import Identifier, Strict
from medheb.manifest.dataset import AccessClass, Dataset, SourceFile
from medheb.manifest.load import Run

State = Literal["ready", "present", "blocked"]
Here = Literal["nothing", "some files", "complete", "local copy"]
BITS_PER_BYTE = 8
SECONDS_PER_HOUR = 3600


class SourcePlan(Strict):
    """One source of a run."""

    id: Identifier
    title: str
    access: AccessClass
    host: str = Field(description="kind of host; of a mirror where only that can be used")
    state: State
    here: Here
    reason: str = Field(description="why it is blocked, else empty")
    remedy: str = Field(description="what to do about it, else empty")
    own_copy: bool = Field(description="only verified where the user has it, never downloaded")
    download_bytes: int | None = Field(ge=0, description="whole source, or the user's copy of it; null if unknown")
    remaining_bytes: int | None = Field(ge=0, description="still to download, 0 for an own copy; null if unknown")
    disk_bytes: int | None = Field(ge=0, description="unpacked and built; null if unknown")
    disk_at_least: int = Field(ge=0, description="the download, which is kept, and what is known of the rest")
    inodes: int | None = Field(ge=0, description="files after unpacking and building; null if unknown")
    hours: float | None = Field(ge=0, description="of the remaining bytes at the assumed bandwidth; null if unknown")


class Sum(Strict):
    """Sum over some sources; an archive that several sources share counts once."""

    sources: int
    remaining_bytes: int = Field(description="of those whose size is known")
    remaining_unknown: int = Field(description="sources with unknown size")
    disk_bytes: int
    disk_unknown: int
    disk_at_least: int = Field(description="remaining downloads that are kept, and what is known of the rest")
    inodes: int
    inodes_unknown: int
    hours: float


class OwnCopies(Strict):
    """Sum over the sources that are verified only, whatever their state; nothing of them is downloaded."""

    sources: int
    bytes: int = Field(description="of those whose size is known")
    unknown: int = Field(description="sources with unknown size")


class Shortage(Strict):
    """The first source that the disk has no room for."""

    source: Identifier
    folder: str
    what: Literal["bytes", "files"]
    needed: int = Field(description="by all ready sources up to this one")
    free: int


class Plan(Strict):
    """What ``medheb plan --json`` prints."""

    schema_version: int = 1
    manifests: str
    bandwidth_mbit: float
    free_bytes: int
    free_inodes: int | None = Field(description="null where the file system has no limit")
    sources: tuple[SourcePlan, ...]
    ready: Sum
    blocked: Sum
    present: int
    own_copies: OwnCopies
    shortage: Shortage | None


def make_plan(run: Run) -> Plan:
    """Look at manifests, terms, tokens, clients and the disk; ask no host.

    Sizes are sums of what is known, with the count of what is not; so they are lower bounds.
    """
    speed = run.config.transfer.bandwidth_mbit
    work = {key: _remaining(run, dataset) for key, dataset in run.datasets.items()}
    sources = [_source(run, dataset, work[key], speed) for key, dataset in run.datasets.items()]
    free_bytes, free_inodes = free_space(run.layout.sources)
    ready = [source for source in sources if source.state == "ready"]
    return Plan(
        manifests=run.config.manifests,
        bandwidth_mbit=speed,
        free_bytes=free_bytes,
        free_inodes=free_inodes,
        sources=tuple(sources),
        ready=_sum(run, ready, work, speed),
        blocked=_sum(run, [source for source in sources if source.state == "blocked"], work, speed),
        present=sum(source.state == "present" for source in sources),
        own_copies=_own_copies([source for source in sources if source.own_copy]),
        shortage=_shortage(run, ready, work, free_bytes, free_inodes),
    )


def require_room(plan: Plan) -> None:
    """Refuse a run that the disk has no room for.

    Raises:
        MedhebError: names the first source that does not fit.
    """
    short = plan.shortage
    if short is None:
        return
    if short.what == "bytes":
        fault = f"needs {short.needed / 1e9:.1f} GB with the sources before it, {short.free / 1e9:.1f} GB are free"
    else:
        fault = f"needs {short.needed} files with the sources before it, the file system has room for {short.free}"
    raise MedhebError(
        f"source {short.source}",
        f"does not fit into {short.folder}: it {fault}",
        "Free some space, point 'paths' at a larger disk, or select fewer 'datasets'",
    )


def free_space(folder: Path) -> tuple[int, int | None]:
    """Free bytes and inodes where ``folder`` (which may not exist yet) will lie; None: no limit of inodes."""
    existing = folder.absolute()
    while not existing.exists():
        existing = existing.parent
    status = os.statvfs(existing)
    return shutil.disk_usage(existing).free, status.f_favail if status.f_files else None


def is_complete(layout: Layout, dataset: str) -> bool:
    """True if the last fetch of a source ended well and its files are still there."""
    folder = layout.source_files(dataset)
    try:
        fetched = read_status(layout.source_status(dataset)).ok
    except (MedhebError, OSError):
        return False
    return fetched and folder.is_dir()


def _remaining(run: Run, dataset: Dataset) -> dict[str, int] | None:
    """Bytes still to download, by what identifies the content; None if sizes are unknown."""
    if is_own_copy(run, dataset):
        return {}
    here = {file.path for file in dataset.files if _file_is_here(run.layout, dataset.id, file)}
    sizes = {file.path: file.bytes for file in dataset.files}
    known = {path: size for path, size in sizes.items() if size is not None}
    complete = bool(sizes) and len(known) == len(sizes)
    if complete and (dataset.download_bytes is None or sum(known.values()) == dataset.download_bytes):
        digests = {file.path: file.sha256 for file in dataset.files}
        return {digests[path] or f"{dataset.id}/{path}": size for path, size in known.items() if path not in here}
    if dataset.download_bytes is None:
        return None
    return {dataset.id: max(0, dataset.download_bytes - sum(known.get(path, 0) for path in here))}


def _file_is_here(layout: Layout, dataset: str, file: SourceFile) -> bool:
    places = [layout.source_files(dataset).with_name("archives") / file.path]
    if file.sha256:
        places.append(layout.archive(file.sha256, file.path))
    return file.bytes is not None and any(place.is_file() and place.stat().st_size == file.bytes for place in places)


def _source(run: Run, dataset: Dataset, work: Mapping[str, int] | None, speed: float) -> SourcePlan:
    host, needs = _usable_host(run, dataset)
    here = _here(run, dataset)
    state: State = "blocked" if needs else "present" if here in {"complete", "local copy"} else "ready"
    remaining = 0 if state == "present" else None if work is None else sum(work.values())
    known = [file.bytes for file in dataset.files if file.bytes is not None]
    whole = sum(known) if known and len(known) == len(dataset.files) else None
    size = whole if dataset.download_bytes is None else dataset.download_bytes
    own_copy = is_own_copy(run, dataset)
    return SourcePlan(
        id=dataset.id,
        title=dataset.title,
        access=dataset.access,
        host=host,
        state=state,
        here=here,
        own_copy=own_copy,
        reason="; ".join(need.reason for need in needs),
        remedy=". ".join(need.remedy for need in needs),
        download_bytes=size,
        remaining_bytes=remaining,
        disk_bytes=dataset.disk_bytes,
        disk_at_least=_room(dataset, 0 if own_copy else size or 0, dataset.disk_bytes or 0),
        inodes=dataset.inodes,
        hours=None if remaining is None else _hours(remaining, speed),
    )


def _here(run: Run, dataset: Dataset) -> Here:
    if dataset.id in run.config.local_copies:
        return "local copy"
    if is_complete(run.layout, dataset.id):
        return "complete"
    started = any(_file_is_here(run.layout, dataset.id, file) for file in dataset.files)
    return "some files" if started else "nothing"


def _usable_host(run: Run, dataset: Dataset) -> tuple[str, list[Need]]:
    """Kind of the host that would serve, and all that stands in the way of it, in the order to mend it."""
    kind, needs = _own_needs(run, dataset)
    return kind, needs + [need for other in dataset.requires for need in _required_needs(run, dataset, other)]


def _required_needs(run: Run, dataset: Dataset, other: str) -> list[Need]:
    """What stands in the way of a source that ``dataset`` uses files of, told as its obstacle."""
    reason = f"needs the files of {other}"
    if other not in run.datasets:
        remedy = f"Add {other} to 'datasets', and one of its tasks to 'tasks' unless that is 'all'"
        return [Need(f"{reason}, which this run leaves out", remedy)]
    needs = _own_needs(run, run.datasets[other])[1]
    if not needs:
        return []
    return [Need(f"{reason} ({'; '.join(need.reason for need in needs)})", f"First mend {other}, see there")]


def _own_needs(run: Run, dataset: Dataset) -> tuple[str, list[Need]]:
    kind = dataset.host.kind
    needs: list[Need | None] = []
    try:
        require_accepted(run, dataset)
    except BlockedError as error:
        needs.append(Need(error.fault, error.remedy))
    if dataset.id in run.config.local_copies:
        needs.append(local_copy_need(run, dataset))
    elif not is_complete(run.layout, dataset.id):
        first = host_need(dataset, dataset.host)
        mirrors = [mirror.kind for mirror in dataset.mirrors if host_need(dataset, mirror) is None]
        if first is not None and mirrors:
            kind, first = mirrors[0], None
        needs.append(first)
    return kind, [need for need in needs if need is not None]


def _own_copies(sources: Sequence[SourcePlan]) -> OwnCopies:
    return OwnCopies(
        sources=len(sources),
        bytes=sum(source.download_bytes or 0 for source in sources),
        unknown=sum(source.download_bytes is None for source in sources),
    )


def _hours(size: int, speed: float) -> float:
    return round(size * BITS_PER_BYTE / (speed * 1e6) / SECONDS_PER_HOUR, 6)


def _sum(run: Run, chosen: Sequence[SourcePlan], work: Mapping[str, Mapping[str, int] | None], speed: float) -> Sum:
    contents: dict[str, int] = {}
    at_least = 0
    for source in chosen:
        came = work[source.id] or {}
        fresh = sum(size for key, size in came.items() if key not in contents)
        at_least += _room(run.datasets[source.id], fresh, source.disk_bytes or 0)
        contents.update(came)
    remaining = sum(contents.values())
    return Sum(
        sources=len(chosen),
        remaining_bytes=remaining,
        remaining_unknown=sum(source.remaining_bytes is None for source in chosen),
        disk_bytes=sum(source.disk_bytes or 0 for source in chosen),
        disk_unknown=sum(source.disk_bytes is None for source in chosen),
        disk_at_least=at_least,
        inodes=sum(source.inodes or 0 for source in chosen),
        inodes_unknown=sum(source.inodes is None for source in chosen),
        hours=_hours(remaining, speed),
    )


def _room(dataset: Dataset, download: int, disk: int) -> int:
    if dataset.unpack is None:
        return max(download, disk)  # files that are not unpacked are part of disk_bytes already
    return disk if dataset.unpack.remote else download + disk  # an archive that is read in pieces is not kept


def _shortage(
    run: Run,
    ready: Iterable[SourcePlan],
    work: Mapping[str, Mapping[str, int] | None],
    free_bytes: int,
    free_inodes: int | None,
) -> Shortage | None:
    """Fill the disk in the order of the plan; unknown sizes count as nothing, so this never refuses by a guess."""
    folder = str(run.layout.sources)
    counted: set[str] = set()
    needed, files = 0, 0
    for source in ready:
        fresh = {key: size for key, size in (work[source.id] or {}).items() if key not in counted}
        counted.update(fresh)
        download, disk = sum(fresh.values()), source.disk_bytes or 0
        needed += _room(run.datasets[source.id], download, disk)
        files += source.inodes or 0
        if needed > free_bytes:
            return Shortage(source=source.id, folder=folder, what="bytes", needed=needed, free=free_bytes)
        if free_inodes is not None and files > free_inodes:
            return Shortage(source=source.id, folder=folder, what="files", needed=files, free=free_inodes)
    return None
