"""``medheb refresh``: ask a host what it holds now, tell the difference, and write the lock if there is one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from medheb.core.errors import MedhebError
from medheb.core.files import write_json
from medheb.fetch.accept import selected
from medheb.fetch.listing import by_address
from medheb.fetch.lock import Lock, LockedFile, lock_file, make_lock, read_lock
from medheb.fetch.probe import PROBED, probe
from medheb.fetch.remote import RemoteFile, client_for
from medheb.fetch.space import disk_trouble
from medheb.manifest.base import validate
from medheb.manifest.config import Transfer
from medheb.manifest.dataset import Dataset
from medheb.manifest.hosts import HuggingFaceHost, KaggleDatasetHost
from medheb.manifest.load import Run

MAX_SHOWN = 20
LISTING_KINDS = frozenset(
    {"zenodo", "figshare", "osf", "huggingface", "kaggle_dataset", "kaggle_competition", "synapse", "modelscope"}
)
# Why these are never asked what they hold.
NOT_ASKED = {
    "package": "one version of a package cannot change",
    "physionet": "it is never asked; your own copy counts",
    "portal": "it hands out links in person only",
    "academic_torrents": "a torrent cannot change",
    "google_drive": "it tells neither size nor digest before a download",
}


@dataclass(frozen=True)
class Refresh:
    """What looking again found.

    Args:
        lock: what stands in the lock now.
        path: the lock.
        changed: the lock was written.
        differences: readable lines on what changed since the lock; without paths where those must not be shown.
        against_manifest: readable lines on where host and manifest disagree.
    """

    lock: Lock
    path: Path
    changed: bool
    differences: tuple[str, ...]
    against_manifest: tuple[str, ...]


def refresh(run: Run, dataset_id: str, today: str | None = None) -> Refresh:
    """Ask a source's host what it holds now, compare, and write the lock if anything differs.

    Raises:
        BlockedError: the host cannot be asked (network, token, terms, optional client).
        MedhebError: the run has no such source, its host cannot be asked, or the lock is damaged.
    """
    (dataset,) = selected(run, [dataset_id])
    kind = dataset.host.kind
    if kind in NOT_ASKED:
        raise MedhebError(dataset.title, f"its host kind is {kind}: {NOT_ASKED[kind]}", "There is nothing to refresh")
    path = lock_file(run, dataset_id)
    before = read_lock(path)
    listed = client_for(kind).listing(without_pins(dataset), dataset.host)
    files, gone = _wanted(dataset, _seen(dataset, listed, run.config.transfer))
    revision = _revision(dataset, listed)
    if revision is None and not any(file.bytes or file.sha256 or file.md5 or file.mark for file in files):
        raise MedhebError(
            dataset.title, "its host tells nothing that could change: no size, digest or version", "Look at its page"
        )
    date = today or datetime.now(UTC).strftime("%Y-%m-%d")
    now = make_lock(dataset, files, date, revision)
    against = _against_manifest(dataset, files, gone)
    if before is not None and before.model_copy(update={"seen": now.seen}) == now:
        return Refresh(before, path, changed=False, differences=(), against_manifest=against)
    try:
        write_json(path, now.model_dump(mode="json"))
    except OSError as error:
        raise disk_trouble(error, f"the lock of {dataset_id}") from error
    return Refresh(now, path, True, _first(now) if before is None else _differences(before, now), against)


def without_pins(dataset: Dataset) -> Dataset:
    """A manifest to ask with: clients add its sizes and digests to what a host says, and refuse what differs.

    Hosts that list by themselves are asked for everything; the others, for the manifest's paths.
    """
    if dataset.host.kind in LISTING_KINDS:
        return dataset.model_copy(update={"files": (), "download_bytes": None})
    bare = tuple(
        file.model_copy(update={"bytes": None, "sha256": None, "md5": None, "accepted": ()}) for file in dataset.files
    )
    return dataset.model_copy(update={"files": bare, "download_bytes": None})


def _seen(dataset: Dataset, listed: list[RemoteFile], transfer: Transfer) -> list[LockedFile]:
    """What the host said of each file. Addresses are left out: they may hold a signature."""
    seen: list[LockedFile] = []
    for entry in listed:
        file, mark = entry, None
        if dataset.host.kind in PROBED:
            headers = probe(dataset, entry, transfer)
            file, mark = replace(entry, bytes=headers.bytes), headers.mark
        content = {"path": file.path, "bytes": file.bytes, "sha256": file.sha256, "md5": file.md5, "mark": mark}
        seen.append(validate(LockedFile, content, f"the host's list of {dataset.id}"))
    return seen


def _wanted(dataset: Dataset, seen: list[LockedFile]) -> tuple[list[LockedFile], list[str]]:
    """Files that the manifest names (all if it names none), and names that the host lacks."""
    elsewhere: set[str] = set()
    if dataset.host.kind in LISTING_KINDS:
        # The host knows nothing of files with addresses of their own.
        elsewhere = {file.path for file in by_address(dataset).files}
    names = {file.path for file in dataset.files} - elsewhere
    if not names:
        return [file for file in seen if file.path not in elsewhere], []
    return [file for file in seen if file.path in names], sorted(names - {file.path for file in seen})


def _revision(dataset: Dataset, listed: list[RemoteFile]) -> str | None:
    """What the host calls its newest state; addresses of these clients begin with it."""
    host = dataset.host
    moving = (isinstance(host, HuggingFaceHost) and host.revision is None) or (
        isinstance(host, KaggleDatasetHost) and host.version is None
    )
    return listed[0].address.partition(":")[0] if moving and listed else None


def _first(lock: Lock) -> tuple[str, ...]:
    size = "of unknown size" if lock.bytes is None else f"with {lock.bytes} bytes"
    return (f"first lock: {lock.count} files {size}",)


def _differences(before: Lock, now: Lock) -> tuple[str, ...]:
    lines: list[str] = []
    old_host, new_host = before.host.model_dump(mode="json"), now.host.model_dump(mode="json")
    for key in sorted(old_host.keys() | new_host.keys()):
        if old_host.get(key) != new_host.get(key):
            lines.append(f"host.{key}: {old_host.get(key)} -> {new_host.get(key)}")
    for name in ("revision", "count", "bytes"):
        old, new = getattr(before, name), getattr(now, name)
        if old != new:
            lines.append(f"{'files' if name == 'count' else name}: {_or_unknown(old)} -> {_or_unknown(new)}")
    if before.files and now.files:
        lines += _file_lines({file.path: file for file in before.files}, {file.path: file for file in now.files})
    elif before.list_digest != now.list_digest:
        lines.append(f"digest of the list: {before.list_digest[:12]} -> {now.list_digest[:12]}")
    return tuple(lines)


def _file_lines(old: dict[str, LockedFile], new: dict[str, LockedFile]) -> list[str]:
    lines = [f"added    {path} ({_or_unknown(new[path].bytes)} bytes)" for path in sorted(new.keys() - old.keys())]
    lines += [f"gone     {path}" for path in sorted(old.keys() - new.keys())]
    for path in sorted(old.keys() & new.keys()):
        changes = [
            f"{name} {_short(getattr(old[path], name))} -> {_short(getattr(new[path], name))}"
            for name in ("bytes", "sha256", "md5", "mark")
            if getattr(old[path], name) != getattr(new[path], name)
        ]
        if changes:
            lines.append(f"changed  {path}: {', '.join(changes)}")
    return _cut(lines)


def _against_manifest(dataset: Dataset, files: Iterable[LockedFile], gone: list[str]) -> tuple[str, ...]:
    """Where the host contradicts what the manifest pins; facts that one side does not know do not count."""
    offered = {file.path: file for file in files}
    lines = [f"gone     {path}" for path in gone]
    for pinned in dataset.files:
        file = offered.get(pinned.path)
        # An accepted alternate has another size, too.
        if file is None or file.sha256 in {other.sha256 for other in pinned.accepted}:
            continue
        for name in ("bytes", "sha256", "md5"):
            old, new = getattr(pinned, name), getattr(file, name)
            if old is not None and new is not None and old != new:
                lines.append(f"changed  {pinned.path}: {name} {_short(old)} -> {_short(new)}")
    if lines and not dataset.show_content:
        return (f"{len(lines)} differences (paths are not shown for this source)",)
    return tuple(_cut(lines))


def _cut(lines: list[str]) -> list[str]:
    return lines if len(lines) <= MAX_SHOWN else [*lines[:MAX_SHOWN], f"... and {len(lines) - MAX_SHOWN} more"]


def _or_unknown(value: int | str | None) -> str:
    return "unknown" if value is None else str(value)


def _short(value: int | str | None) -> str:
    return value[:12] if isinstance(value, str) and len(value) in {32, 64} else _or_unknown(value)


def print_refresh(result: Refresh, console: Console) -> None:
    """Print what changed at the host since the lock, where it disagrees with the manifest, and what to do."""
    lines = list(result.differences) if result.changed else [f"nothing changed since {result.lock.seen}"]
    if result.changed:
        lines.append(f"wrote {result.path}")
    if result.against_manifest:
        lines += ["host and manifest disagree:", *result.against_manifest]
        lines.append("Look at the source's page and correct the manifest; until then these files are refused")
    for line in lines:
        console.print(f"{result.lock.dataset}: {line}", markup=False, highlight=False, soft_wrap=True)
