"""Deliver a source from the first of its hosts that has it: list, compare, download, lay out, mark as complete."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from medheb.core.digests import CHUNK_BYTES, sha256_file
from medheb.core.errors import MedhebError
from medheb.core.files import atomic_folder, remove_leftovers
from medheb.fetch.addresses import is_safe
from medheb.fetch.archives import TAR_SUFFIXES, ZIP_SUFFIXES, Budget, Entry, entries
from medheb.fetch.complete import Complete, common_root, read_complete, whole, write_complete
from medheb.fetch.expected import Check, Expected, expected_of, manifest_file
from medheb.fetch.http import first_of
from medheb.fetch.limits import fetch_all
from medheb.fetch.listing import UNLISTED, by_address, compare, of_host, open_ended
from medheb.fetch.names import NameGuard
from medheb.fetch.package import clear_dead_attempts
from medheb.fetch.remote import HostClient, RemoteFile, client_for
from medheb.fetch.remote_zip import fetch_members
from medheb.fetch.space import MEGABYTE, require_space
from medheb.fetch.unpack import Member, matching, require_all_used, write_member
from medheb.manifest.dataset import Dataset, SourceFile, Unpack
from medheb.manifest.hosts import Host, TorrentHost
from medheb.manifest.load import Run

LOG = logging.getLogger("medheb.fetch")
MARKER = "COMPLETE.json"
LISTED = "the host's listing"
SEEN = "seen when it was fetched; nobody publishes a digest"
IN_PIECES = "not digested as a whole: single members were read over byte ranges; size and md5 as its host lists them"


@dataclass(frozen=True)
class Came:
    """A file as its host serves it, verified, and where it lies.

    ``members`` are those of an archive that were read from its host one by one; ``place`` is their folder then.
    """

    file: SourceFile
    place: Path
    members: tuple[Member, ...] | None = None


def deliver(run: Run, dataset: Dataset) -> None:
    """Fill the source's ``files`` folder: archives unpacked, other files as they are. The marker comes last.

    Raises:
        BlockedError: the first host's reason, if that lies outside our reach.
        MedhebError: the first host's reason otherwise; each host's stands in the log.
        OSError: a folder cannot be written.
    """
    folder = run.layout.source_files(dataset.id)
    marker = folder.with_name(MARKER)
    remove_leftovers(folder.parent)
    if _is_complete(marker, folder, dataset):
        LOG.info("%s is complete", folder)
        return
    try:
        # Files with addresses of their own are few and small, so trouble with them shows early.
        came = _from_addresses(run, dataset)
        host, theirs = _from_hosts(run, dataset)
        came += theirs
        if dataset.unpack and any(is_archive(item.file.path) and item.members is None for item in came):
            require_space(folder, dataset.disk_bytes or dataset.unpack.max_bytes, f"unpacking {dataset.id}")
        # The marker goes first and comes back last, so it never stands beside files that it does not describe.
        marker.unlink(missing_ok=True)
        with atomic_folder(folder) as staging:
            members = lay_out(came, staging, dataset.unpack, dataset.id)
    finally:
        shutil.rmtree(_members_folder(run, dataset), ignore_errors=True)
    write_complete(
        marker,
        Complete(
            host=dataset.host,
            served_by=host,
            archives=tuple(item.file for item in came),
            unpack=dataset.unpack,
            root=common_root(members),
            members=members,
        ),
    )
    LOG.info("%d files, %.1f MB, in %s", len(members), sum(member.bytes for member in members) / MEGABYTE, folder)


def is_archive(path: str) -> bool:
    """True if a file is unpacked where the manifest has unpack rules."""
    return path.lower().endswith(ZIP_SUFFIXES + TAR_SUFFIXES)


def _is_complete(marker: Path, folder: Path, dataset: Dataset) -> bool:
    more = open_ended(dataset)
    if not whole(marker, folder, dataset.host, () if more else dataset.files, dataset.unpack):
        return False
    if not more:
        return True
    # The host says what else there is; the files that the manifest names must be among what came.
    complete, names = read_complete(marker), {file.path for file in dataset.files}
    named = tuple(file for file in complete.archives if file.path in names)
    only = complete.model_copy(update={"archives": named})
    return only.serves(dataset.host, dataset.files, dataset.unpack)


def _from_addresses(run: Run, dataset: Dataset) -> list[Came]:
    """Files that carry their own address; no host is asked for them."""
    named = by_address(dataset)
    listed = [RemoteFile(file.path, str(file.url), file.bytes, file.sha256, file.md5) for file in named.files]
    client, transfer = client_for("https"), run.config.transfer
    return _fetched(run, named, listed, lambda file, place: client.fetch(named, None, file, place, transfer))


def _from_hosts(run: Run, dataset: Dataset) -> tuple[Host, list[Came]]:
    if dataset.files and not of_host(dataset).files and dataset.host.kind in UNLISTED:
        return dataset.host, []
    hosts: list[Host] = [dataset.host, *dataset.mirrors]
    # A torrent is information: it is tried only where there is nothing else, to say so.
    asked = [host for host in hosts if not isinstance(host, TorrentHost)] or hosts
    troubles: list[MedhebError] = []
    for host in asked:
        try:
            return host, _from_one(run, dataset, host, client_for(host.kind))
        except MedhebError as error:
            LOG.warning("%s from %s: %s", dataset.id, host.kind, error)
            troubles.append(error)
    raise first_of(troubles, "hosts")


def _from_one(run: Run, dataset: Dataset, host: Host, client: HostClient) -> list[Came]:
    theirs = of_host(dataset)
    listed = client.listing(theirs, host)
    if not listed:
        raise MedhebError(dataset.id, "its host lists no files", "Look at the source's page, and correct the manifest")
    elsewhere = {file.path for file in by_address(dataset).files}
    here = [file for file in listed if file.path not in elsewhere]
    transfer = run.config.transfer
    return _fetched(run, theirs, here, lambda file, place: client.fetch(theirs, host, file, place, transfer))


def _fetched(
    run: Run, dataset: Dataset, files: Sequence[RemoteFile], fetch: Callable[[RemoteFile, Path], None]
) -> list[Came]:
    compare(dataset, files)
    listed = [file for file in files if not _in_pieces(dataset, file.path)]
    places = [_place(run, dataset, file) for file in listed]
    for folder in sorted({place.parent for place in places}):
        clear_dead_attempts(folder)
    missing = [
        (file, place)
        for file, place in zip(listed, places, strict=True)
        if not _is_there(place, expected_of(dataset, file), f"{dataset.id}: {file.path}")
    ]
    size = sum(file.bytes or 0 for file, _ in missing)
    require_space(run.layout.sources, size, f"source {dataset.id}")
    if missing:
        LOG.info("%s: downloading %d files, %.1f MB at least", dataset.id, len(missing), size / MEGABYTE)
        fetch_all([partial(fetch, file, place) for file, place in missing], run.config.transfer.per_host)
    came = [_seen(dataset, file, place) for file, place in zip(listed, places, strict=True)]
    return came + [_members(run, dataset, file) for file in files if _in_pieces(dataset, file.path)]


def _in_pieces(dataset: Dataset, path: str) -> bool:
    rules = dataset.unpack
    return rules is not None and rules.remote and path.lower().endswith(ZIP_SUFFIXES)


def _members_folder(run: Run, dataset: Dataset) -> Path:
    """Where members that were read over ranges wait until all else has come."""
    return run.layout.source_files(dataset.id).with_name("members")


def _members(run: Run, dataset: Dataset, file: RemoteFile) -> Came:
    """Read the wanted members of a zip from its host, most of which is never sent."""
    rules, expected, pinned = dataset.unpack, expected_of(dataset, file), manifest_file(dataset, file.path)
    if rules is None or not is_safe(file.address):
        raise MedhebError(
            f"manifest of {dataset.id}",
            f"has unpack.remote, but the host of {file.path} gives no address that can be read in pieces",
            "Set unpack.remote to false, so that the whole archive is downloaded",
        )
    if pinned and (pinned.sha256 or pinned.accepted):
        raise MedhebError(
            f"manifest of {dataset.id}",
            f"has unpack.remote, but also a sha256 of {file.path}, which cannot be checked then",
            "Set unpack.remote to false, so that the whole archive is downloaded and checked",
        )
    place = _members_folder(run, dataset) / file.path
    what = f"{dataset.id}: {file.path}"
    members = fetch_members(file.address, rules, place, run.config.transfer, what=what, size=expected.size)
    seen = SourceFile(path=file.path, bytes=expected.size, sha256=None, md5=expected.md5, digest_source=IN_PIECES)
    return Came(seen, place, members)


def _place(run: Run, dataset: Dataset, file: RemoteFile) -> Path:
    """By content if its sha256 is known, so that sources share it; else in the source's own folder."""
    expected = expected_of(dataset, file)
    if expected.sha256 and not expected.accepted:
        return run.layout.archive(expected.sha256, file.path)
    return run.layout.source_files(dataset.id).with_name("archives") / file.path


def _is_there(place: Path, expected: Expected, what: str) -> bool:
    """True if an earlier fetch left the file: by its digest, or by its size where there is none."""
    if not place.is_file():
        return False
    if not expected.pinned:
        return expected.size is None or place.stat().st_size == expected.size
    check = Check(expected)
    for chunk in _chunks(place):
        check.update(chunk)
    try:
        check.finish(what)
    except MedhebError:
        LOG.warning("%s is not the pinned file; it is fetched again", place)
        return False
    return True


def _chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as stream:
        while chunk := stream.read(CHUNK_BYTES):
            yield chunk


def _seen(dataset: Dataset, file: RemoteFile, place: Path) -> Came:
    expected = expected_of(dataset, file)
    pinned = manifest_file(dataset, file.path)
    known = expected.sha256 is not None and not expected.accepted
    return Came(
        SourceFile(
            path=file.path,
            bytes=place.stat().st_size,
            sha256=expected.sha256 if known else sha256_file(place),
            md5=expected.md5,
            digest_source=pinned.digest_source if pinned else LISTED if expected.pinned else SEEN,
            accepted=pinned.accepted if pinned else (),
        ),
        place,
    )


def lay_out(came: Sequence[Came], staging: Path, rules: Unpack | None, source: str) -> tuple[Member, ...]:
    """Put everything below ``staging``: wanted members of archives, and all other files as they are.

    Args:
        came: the source's files.
        staging: an empty folder.
        rules: which members of archives are wanted, caps for each archive; None: archives stay as they are.
        source: named in errors.

    Returns:
        What is there, sorted by path bytes.

    Raises:
        MedhebError: a harmful archive, two files of one name, or a pattern that matches nothing in any archive.
    """
    guard, members, used = NameGuard(Path(source)), list[Member](), set[str]()
    archives = False
    for item in came:
        if rules is None or not is_archive(item.file.path):
            guard.accept(item.file.path, False)
            members.append(_linked(item, staging))
            continue
        archives = True
        if item.members is not None:
            # Each pattern matched in this archive, or nothing of it would have come.
            used |= set(rules.include)
            members += [_moved(item.place, staging, member, guard) for member in item.members]
            continue
        for entry in _wanted(item.place, rules, used):
            guard.accept(entry.path, False)
            members.append(write_member(staging, entry))
    if rules and archives:
        require_all_used(source, rules, used)
    return tuple(sorted(members, key=lambda member: member.path.encode()))


def _wanted(archive: Path, rules: Unpack, used: set[str]) -> Iterator[Entry]:
    budget = Budget(archive, archive.stat().st_size, rules)
    return matching(entries(archive, budget), archive, rules, budget, used)


def _moved(folder: Path, staging: Path, member: Member, guard: NameGuard) -> Member:
    guard.accept(member.path, False)
    target = staging / member.path
    target.parent.mkdir(parents=True, exist_ok=True)
    os.replace(folder / member.path, target)
    return member


def _linked(item: Came, staging: Path) -> Member:
    """A second name of the downloaded file; a copy where the file system has no such names."""
    target = staging / item.file.path
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(item.place, target)
    except OSError:
        shutil.copyfile(item.place, target)
        with target.open("rb+") as stream:
            os.fsync(stream.fileno())
    return Member(path=item.file.path, bytes=int(item.file.bytes or 0), sha256=str(item.file.sha256))
