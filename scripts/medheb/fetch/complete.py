"""The marker beside fetched files: what came, from where, by which rules it was unpacked. Written last."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final, Literal

from medheb.core.errors import MedhebError
from medheb.core.files import write_json
from medheb.core.json_text import parse_json
from medheb.fetch.unpack import Member
from medheb.manifest.base import Strict, validate
from medheb.manifest.dataset import SourceFile, Unpack
from medheb.manifest.hosts import Host

LOG = logging.getLogger("medheb.fetch")
SCHEMA_VERSION: Final = 2


class Complete(Strict):
    """Content of ``COMPLETE.json``.

    ``host`` is the manifest's first host, ``served_by`` the one that delivered. ``archives`` are the files as they
    came, sha256 and size filled in. ``root`` is the folder that all members share (an sdist's ``<name>-<version>``),
    empty if there is none.
    """

    schema_version: Literal[2] = SCHEMA_VERSION
    host: Host
    served_by: Host
    archives: tuple[SourceFile, ...]
    unpack: Unpack | None
    root: str
    members: tuple[Member, ...]

    def serves(self, host: Host, files: tuple[SourceFile, ...], unpack: Unpack | None) -> bool:
        """True if a manifest that asks for this would give the very same files."""
        if (self.host, self.unpack) != (host, unpack):
            return False
        if not files:
            return True
        came = {file.path: file for file in self.archives}
        return came.keys() == {file.path for file in files} and all(_fits(came[file.path], file) for file in files)


def _fits(came: SourceFile, pinned: SourceFile) -> bool:
    if came.sha256 in {other.sha256 for other in pinned.accepted}:
        return True
    pairs = ((pinned.sha256, came.sha256), (pinned.bytes, came.bytes), (pinned.md5, came.md5))
    return all(wanted is None or wanted == got for wanted, got in pairs)


def common_root(members: tuple[Member, ...]) -> str:
    """The first folder of all members if they share it, else an empty text."""
    roots = {member.path.split("/", 1)[0] if "/" in member.path else "" for member in members}
    return roots.pop() if len(roots) == 1 else ""


def write_complete(path: Path, complete: Complete) -> None:
    """Write the marker atomically."""
    write_json(path, complete.model_dump(mode="json"))


def read_complete(path: Path) -> Complete:
    """Read a marker.

    Raises:
        MedhebError: missing, or not a marker.
    """
    remedy = "Fetch again: delete the file and run the workflow"
    try:
        content = parse_json(path.read_bytes())
    except FileNotFoundError:
        raise MedhebError(path, "is missing", remedy) from None
    except ValueError as error:
        raise MedhebError(path, "is not JSON", remedy) from error
    return validate(Complete, content, path)


def whole(marker: Path, folder: Path, host: Host, files: tuple[SourceFile, ...], unpack: Unpack | None) -> bool:
    """True if ``folder`` is what the manifest asks for and undamaged; the log says what is wrong otherwise."""
    if not marker.exists():
        return False
    try:
        complete = read_complete(marker)
    except MedhebError as error:
        LOG.warning("%s", error)
        return False
    if not complete.serves(host, files, unpack):
        LOG.info("%s was made for another manifest; it is made again", folder)
        return False
    fault = damage(folder, complete)
    if fault:
        LOG.warning("%s is damaged (%s); it is made again", folder, fault)
    return fault is None


def damage(folder: Path, complete: Complete) -> str | None:
    """What differs between ``folder`` and its marker, by names and sizes; None if nothing does."""
    expected = {member.path: member.bytes for member in complete.members}
    found: dict[str, int] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            return f"{name} is a symbolic link"
        if path.is_file():
            found[name] = path.stat().st_size
    for name in sorted(expected.keys() | found.keys()):
        if name not in found:
            return f"{name} is missing"
        if name not in expected:
            return f"{name} does not belong there"
        if found[name] != expected[name]:
            return f"{name} has {found[name]} bytes instead of {expected[name]}"
    return None
