"""Unpack the wanted members of an archive, whole or not at all."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

from pydantic import Field

from medheb.core.errors import MedhebError
from medheb.core.files import atomic_folder
from medheb.fetch.archives import Budget, Entry, entries
from medheb.manifest.base import RelativePath, Sha256, Strict
from medheb.manifest.dataset import Unpack


class Member(Strict):
    """One unpacked file; ``path`` is its path in the archive and below the target folder."""

    path: RelativePath
    bytes: int = Field(ge=0)
    sha256: Sha256


def wanted_files(archive: Path, rules: Unpack) -> Iterator[Entry]:
    """Files of ``archive`` that match ``rules.include``, in archive order; all other members are checked too.

    Raises:
        MedhebError: as :func:`medheb.fetch.archives.entries`, or a pattern that matches nothing (at the end).
    """
    budget = Budget(archive, archive.stat().st_size, rules)
    return matching(entries(archive, budget), archive, rules, budget)


def matching(
    walk: Iterator[Entry], archive: Path, rules: Unpack, budget: Budget, used: set[str] | None = None
) -> Iterator[Entry]:
    """Files of ``walk`` that match ``rules.include``, with their bytes counted; ``archive`` is named in errors.

    Args:
        walk: all members.
        archive: named in errors.
        rules: which members, and the caps.
        budget: counts them.
        used: patterns that matched something are added to it, for a caller who judges several archives together.

    Raises:
        MedhebError: what ``walk`` raises, a broken cap, or, without ``used``, a pattern that matches nothing (at the
            end).
    """
    unmatched = set(rules.include)
    for entry in walk:
        if entry.folder:
            continue
        found = {pattern for pattern in rules.include if fnmatchcase(entry.path, pattern)}
        unmatched -= found
        if used is not None:
            used |= found
        if found:
            yield Entry(entry.path, False, _counted(entry.chunks, budget))
    if used is None:
        require_all_used(archive, rules, set(rules.include) - unmatched)


def require_all_used(archive: str | Path, rules: Unpack, used: set[str]) -> None:
    """Refuse a pattern that no file matched; ``archive`` is named in the error."""
    for pattern in rules.include:
        if pattern not in used:
            raise MedhebError(
                archive,
                f"holds no file that matches unpack.include '{pattern}'",
                "Correct the pattern in the manifest; names are as in the archive, * also crosses /",
            )


def _counted(chunks: Iterator[bytes], budget: Budget) -> Iterator[bytes]:
    for chunk in chunks:
        budget.wanted(len(chunk))
        yield chunk


def read_members(archive: Path, rules: Unpack) -> Iterator[tuple[str, bytes]]:
    """Path and content of each wanted file, without touching the disk; use only what comes after the last one.

    Raises:
        MedhebError: as :func:`wanted_files`, possibly after some members were given.
    """
    for entry in wanted_files(archive, rules):
        yield entry.path, b"".join(entry.chunks)


def unpack(archive: Path, target: Path, rules: Unpack) -> tuple[Member, ...]:
    """Write the wanted files of ``archive`` below ``target``, which is replaced whole.

    Returns:
        What was written, sorted by path bytes.

    Raises:
        MedhebError: a harmful member, a broken cap, damaged bytes, or a pattern that matches nothing;
            ``target`` is then as it was before.
    """
    return write_members(wanted_files(archive, rules), target)


def write_members(wanted: Iterator[Entry], target: Path) -> tuple[Member, ...]:
    """Write files below ``target``, which is replaced whole; after an error it is as it was before.

    Returns:
        What was written, sorted by path bytes.
    """
    with atomic_folder(target) as staging:
        members = [write_member(staging, entry) for entry in wanted]
    return tuple(sorted(members, key=lambda member: member.path.encode()))


def write_member(staging: Path, entry: Entry) -> Member:
    """Write one file below ``staging``, durably."""
    path = staging / entry.path
    path.parent.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256()
    size = 0
    with path.open("xb") as stream:
        for chunk in entry.chunks:
            stream.write(chunk)
            digest.update(chunk)
            size += len(chunk)
        stream.flush()
        os.fsync(stream.fileno())
    return Member(path=entry.path, bytes=size, sha256=digest.hexdigest())
