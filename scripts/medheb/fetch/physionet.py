"""Find the root of a PhysioNet project in a user's copy, however it was downloaded.

Four layouts: the tree that wget leaves (``physionet.org/files/<slug>/<version>``, full of ``index.html``), the folder
in the project's ZIP (``<title>-<version>``), a copy of a bucket (``<slug>-<version>.physionet.org`` or
``<slug>/<version>``), and the project's files in any other folder. The layout only tells where a version stands;
the files and their verdict are the same.
"""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from medheb.core.errors import BlockedError, MedhebError
from medheb.fetch.sums import NAME, Sums, read_sums
from medheb.manifest.hosts import PhysioNetHost

RootLayout = Literal["wget tree", "ZIP folder", "bucket copy", "bare root"]
MAX_DEPTH = 5
MAX_ENTRIES = 50_000
# Versions are short; a longer number in a folder's name may be an id and is never taken for one, or shown.
VERSION = re.compile(r"\d{1,3}(?:\.\d{1,3}){1,3}")
BUCKET = re.compile(rf"(?P<slug>.+)-(?P<version>{VERSION.pattern})\.physionet\.org")
TITLED = re.compile(rf"(?P<title>.+)-(?P<version>{VERSION.pattern})")
UNSTATED = "unstated"


@dataclass(frozen=True)
class Claim:
    """What the names around a root say: ``sure`` if they name the project itself, and the version if they do."""

    layout: RootLayout
    version: str | None
    sure: bool


@dataclass(frozen=True)
class Project:
    """A recognised project. ``version`` is ``unstated`` where no name tells it and the manifest supports several."""

    root: Path = field(repr=False)
    layout: RootLayout
    slug: str
    version: str
    sums: Sums = field(repr=False)
    needed: tuple[str, ...] = field(repr=False)


def find_projects(given: Path, needed: Sequence[Sequence[PhysioNetHost]], where: str) -> list[Project]:
    """All needed projects in ``given``, which is the root of the one project or a folder above them.

    Where a project may come from several hosts, the first wins, then the version that its manifest prefers.

    Args:
        given: the folder of the configuration.
        needed: for each project the hosts that it may come from.
        where: how errors name the copy; its path is never quoted.

    Returns:
        One project for each entry of ``needed``, in its order; no two share a root.

    Raises:
        BlockedError: no such project, an unsupported version, or several that names do not tell apart.
        MedhebError: a list of digests is faulty.
    """
    roots = list(_project_roots(given, where))
    names = [_slugs(hosts) for hosts in needed]
    if not roots:
        place = f"the root of {names[0]}" if len(needed) == 1 else f"a folder that holds {' and '.join(names)}"
        raise BlockedError(
            where,
            f"has no {NAME} within {MAX_DEPTH} folders and {MAX_ENTRIES} entries",
            f"Point local_copies at {place}, and download {NAME} of each project if it is missing",
        )
    if len(needed) == 1:
        return [_find(roots, needed[0], where)]
    found: list[Project] = []
    for number, hosts in enumerate(needed):
        # What names call another of the projects is never taken for this one, whatever it lists.
        others = [host for group in (*needed[:number], *needed[number + 1 :]) for host in group]
        free = [root for root in roots if not any(_surely(root, host.slug) for host in others)]
        taken = {project.root for project in found}
        free = [root for root in free if root not in taken]
        try:
            found.append(_find(free, hosts, f"{where}, project {names[number]}"))
        except BlockedError as error:
            remedy = f"Point local_copies at a folder that holds one copy each of {_supported(needed)}"
            raise BlockedError(error.where, error.fault, remedy) from None
    return found


def _supported(needed: Sequence[Sequence[PhysioNetHost]]) -> str:
    return " and ".join(" or ".join(f"{host.slug} ({', '.join(host.versions)})" for host in hosts) for hosts in needed)


def _slugs(hosts: Sequence[PhysioNetHost]) -> str:
    return " or ".join(host.slug for host in hosts)


def _surely(root: Path, slug: str) -> bool:
    claim = read_names(root, slug)
    return claim is not None and claim.sure


def _find(roots: Sequence[Path], hosts: Sequence[PhysioNetHost], where: str) -> Project:
    if not roots:
        raise BlockedError(where, "is not there", f"Download {_slugs(hosts)}")
    claims = [(host, root, claim) for host in hosts for root in roots if (claim := read_names(root, host.slug))]
    fitting = [entry for entry in claims if entry[2].version is None or entry[2].version in entry[0].versions]
    sure = [entry for entry in fitting if entry[2].sure]
    if sure:
        host, root, claim = min(sure, key=lambda entry: (hosts.index(entry[0]), *_preference(entry)))
        return _project(host, root, claim, read_sums(root / NAME, f"{NAME} of {host.slug}"))
    if not fitting:
        raise _nothing_fits(hosts, claims, where)
    return _by_content(fitting, _slugs(hosts), where)


def read_names(root: Path, slug: str) -> Claim | None:
    """What the names of ``root`` and its parents say about project ``slug``; None if they name another project."""
    parts = root.absolute().parts
    name, parent, above = (*reversed(parts[-3:]), "", "")[:3]
    crawled = (root / "index.html").is_file()
    version = name if VERSION.fullmatch(name) else None
    if version and parent == slug:
        return Claim("wget tree" if crawled or above == "files" else "bucket copy", version, sure=True)
    if version and above == "files":
        return None
    if bucket := BUCKET.fullmatch(name):
        return Claim("bucket copy", bucket["version"], sure=True) if bucket["slug"] == slug else None
    if titled := TITLED.fullmatch(name):
        return Claim("ZIP folder", titled["version"], sure=titled["title"] == slug)
    return Claim("wget tree" if crawled else "bare root", version, sure=False)


def matching(paths: Iterable[str], patterns: Sequence[str]) -> tuple[list[str], list[str]]:
    """The paths that match any of the shell patterns (``*`` also crosses ``/``), and the patterns that match none."""
    paths = list(paths)
    chosen = re.compile("|".join(fnmatch.translate(pattern) for pattern in patterns)).match
    found = [path for path in paths if chosen(path)]
    idle = [pattern for pattern in patterns if not any(map(re.compile(fnmatch.translate(pattern)).match, found))]
    return found, idle


def folders_below(given: Path, where: str, stop: str | None = None) -> Iterator[Path]:
    """``given`` and the folders below it, nearest first, sorted, without links and hidden ones, within the bounds.

    Args:
        given: where to begin; may itself be a link.
        where: how errors name the copy.
        stop: a folder that holds a file of this name is not entered further.

    Raises:
        BlockedError: ``given`` is no folder, or cannot be read.
    """
    if not os.path.isdir(given):  # noqa: PTH112 - Path.is_dir raises where a parent may not be entered
        fault = "is a file, not a folder" if os.path.isfile(given) else "is not there, or you may not enter it"  # noqa: PTH113
        raise BlockedError(where, fault, "Correct its path under local_copies; unpack a ZIP first")
    level, seen = [given], 0
    for depth in range(MAX_DEPTH + 1):
        below: list[Path] = []
        for folder in level:
            yield folder
            if depth == MAX_DEPTH:
                continue
            inner: list[Path] = []
            try:
                with os.scandir(folder) as entries:
                    for entry in entries:
                        seen += 1
                        if seen > MAX_ENTRIES:
                            return
                        if entry.is_dir(follow_symlinks=False) and not entry.name.startswith("."):
                            inner.append(folder / entry.name)
                        elif entry.name == stop:
                            inner = []
                            break
            except OSError as error:
                if folder == given:
                    raise BlockedError(
                        where, f"cannot be read ({error.strerror})", "Ask its owner for the right to read it"
                    ) from None
                continue
            below += sorted(inner)
        level = below


def _project_roots(given: Path, where: str) -> Iterator[Path]:
    for folder in folders_below(given, where, stop=NAME):
        path = folder / NAME
        if path.is_file() and not path.is_symlink():
            yield folder


def _preference(entry: tuple[PhysioNetHost, Path, Claim]) -> tuple[int, str]:
    host, root, claim = entry
    return host.versions.index(claim.version) if claim.version else len(host.versions), str(root)


def _project(host: PhysioNetHost, root: Path, claim: Claim, sums: Sums) -> Project:
    version = claim.version or (host.versions[0] if len(host.versions) == 1 else UNSTATED)
    return Project(root, claim.layout, host.slug, version, sums, host.needed)


def _by_content(fitting: list[tuple[PhysioNetHost, Path, Claim]], slugs: str, where: str) -> Project:
    """The one whose list serves most of the needed patterns; a name that begins with the slug breaks ties."""
    ranked: list[tuple[tuple[int, bool], PhysioNetHost, Path, Claim, Sums]] = []
    for host, root, claim in fitting:
        sums = read_sums(root / NAME, f"{NAME} of {host.slug}")
        served = len(host.needed) - len(matching(sums.digests, host.needed)[1])
        ranked.append(((served, root.name.startswith(host.slug)), host, root, claim, sums))
    best = max(rank for rank, *_ in ranked)
    first, *others = [entry for entry in ranked if entry[0] == best]
    if best[0] == 0:
        raise BlockedError(
            where,
            f"holds a project whose {NAME} lists nothing that the tasks need",
            f"Point local_copies at a copy of {slugs}",
        )
    if others:
        raise BlockedError(
            where,
            f"holds {len(others) + 1} projects that may be {slugs}",
            "Point local_copies at the root of the right one",
        )
    return _project(*first[1:])


def _nothing_fits(
    hosts: Sequence[PhysioNetHost], claims: list[tuple[PhysioNetHost, Path, Claim]], where: str
) -> MedhebError:
    supported = "; ".join(f"{host.slug} {', '.join(host.versions)}" for host in hosts)
    found = sorted({claim.version for _, _, claim in claims if claim.version})
    fault = f"has version {', '.join(found)} only" if found else "holds another project"
    return BlockedError(where, fault, f"Supported: {supported}")
