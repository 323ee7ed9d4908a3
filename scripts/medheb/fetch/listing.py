"""Hold what a host lists against what the manifest wants."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from medheb.core.errors import BlockedError, MedhebError
from medheb.fetch.expected import changed, manifest_file
from medheb.fetch.names import NameGuard
from medheb.fetch.remote import RemoteFile
from medheb.manifest.dataset import Dataset

# These tell nothing of what they hold; the manifest names their files.
UNLISTED = frozenset({"https", "github", "academic_torrents"})


def of_host(dataset: Dataset) -> Dataset:
    """The manifest without the files that carry their own ``url``: those are not looked for at its hosts."""
    return dataset.model_copy(update={"files": tuple(file for file in dataset.files if not file.url)})


def by_address(dataset: Dataset) -> Dataset:
    """The manifest with only the files that carry their own ``url``."""
    return dataset.model_copy(update={"files": tuple(file for file in dataset.files if file.url)})


def open_ended(dataset: Dataset) -> bool:
    """True if the manifest names no file of its host, so that all that the host lists is wanted."""
    return not of_host(dataset).files and dataset.host.kind not in UNLISTED


def wanted(dataset: Dataset, offered: Iterable[RemoteFile], host: str) -> list[RemoteFile]:
    """Of the files that a host offers those that the manifest names, all if it names none; sorted by path.

    Files with a ``url`` of their own do not count as named, and are left out even if the host offers them.
    Where the host gives no size or digest, the manifest's is filled in.

    Args:
        dataset: the manifest.
        offered: what the host lists.
        host: named in errors.

    Raises:
        MedhebError: a file is not there any more, or the host lists two under one name.
    """
    elsewhere = {file.path for file in by_address(dataset).files}
    return _chosen(of_host(dataset), (file for file in offered if file.path not in elsewhere), host)


def _chosen(dataset: Dataset, offered: Iterable[RemoteFile], host: str) -> list[RemoteFile]:
    by_path: dict[str, RemoteFile] = {}
    for file in offered:
        if file.path in by_path:
            raise MedhebError(dataset.id, f"{host} lists '{file.path}' twice", "Name one by its url in the manifest")
        by_path[file.path] = file
    if not dataset.files:
        return sorted(by_path.values(), key=lambda file: file.path)
    missing = [file.path for file in dataset.files if file.path not in by_path]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise changed(f"{dataset.id}: {missing[0]}", f"this file{more} at {host}", "a listing without it")
    return sorted((_filled(dataset, by_path[file.path]) for file in dataset.files), key=lambda file: file.path)


def named(dataset: Dataset, addresses: Mapping[str, str], host: str) -> list[RemoteFile]:
    """The manifest's files with their addresses, for hosts that list nothing; sorted by path.

    A file's own ``url`` wins over the given address.

    Raises:
        BlockedError: the manifest names no files.
    """
    if not dataset.files:
        raise BlockedError(
            f"manifest of {dataset.id}",
            f"names no files, and {host} cannot list them",
            f"Add them under 'files' once somebody has seen them, or set local_copies.{dataset.id} to your own copy",
        )
    return _chosen(dataset, [RemoteFile(path, address) for path, address in addresses.items()], host)


def _filled(dataset: Dataset, file: RemoteFile) -> RemoteFile:
    pinned = manifest_file(dataset, file.path)
    if pinned is None:
        return file
    return RemoteFile(
        path=file.path,
        address=pinned.url or file.address,
        bytes=pinned.bytes if file.bytes is None else file.bytes,
        sha256=file.sha256 or pinned.sha256,
        md5=file.md5 or pinned.md5,
    )


def compare(dataset: Dataset, listed: Iterable[RemoteFile]) -> None:
    """Refuse a listing that is not what the manifest pins, before anything is transferred.

    A file with accepted alternates is judged by its sha256 alone, if the host gives it.

    Raises:
        MedhebError: another size or digest, or a name that no file may have.
    """
    guard = NameGuard(Path(dataset.id))
    for file in listed:
        try:
            plain = guard.accept(file.path, False)
        except MedhebError as error:
            raise MedhebError(dataset.id, f"the host lists a harmful name: {error.fault}", error.remedy) from error
        if plain != file.path:
            raise MedhebError(
                dataset.id, f"the host lists a name that is not plain: {file.path!r}", "Correct the manifest"
            )
        pinned = manifest_file(dataset, file.path)
        if pinned is None:
            continue
        what = f"{dataset.id}: {file.path}"
        right = [digest for digest in (pinned.sha256, *(other.sha256 for other in pinned.accepted)) if digest]
        if right and file.sha256 and file.sha256 not in right:
            raise changed(what, f"sha256 {' or '.join(right)}", f"sha256 {file.sha256}")
        if pinned.accepted:
            continue
        if None not in (pinned.bytes, file.bytes) and pinned.bytes != file.bytes:
            raise changed(what, f"{pinned.bytes} bytes", f"{file.bytes} bytes")
        if pinned.md5 and file.md5 and pinned.md5 != file.md5:
            raise changed(what, f"md5 {pinned.md5}", f"md5 {file.md5}")
