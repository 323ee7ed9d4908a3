"""The marker beside unpacked files: what was unpacked, from what, by which rules. Written last."""

from __future__ import annotations

import json
from pathlib import Path

from medheb.core.errors import MedhebError
from medheb.core.files import write_json
from medheb.fetch.unpack import Member
from medheb.manifest.base import Strict, validate
from medheb.manifest.dataset import SourceFile, Unpack
from medheb.manifest.hosts import PackageHost

SCHEMA_VERSION = 1


class Complete(Strict):
    """Content of ``COMPLETE.json``.

    ``root`` is the folder that all members share (an sdist's ``<name>-<version>``), empty if there is none.
    """

    schema_version: int = SCHEMA_VERSION
    host: PackageHost
    archive: SourceFile
    unpack: Unpack
    root: str
    members: tuple[Member, ...]

    def serves(self, host: PackageHost, archive: SourceFile, unpack: Unpack) -> bool:
        """True if a manifest that asks for this would be unpacked to the very same files."""
        return (self.host, self.archive.sha256, self.unpack) == (host, archive.sha256, unpack)


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
        content = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise MedhebError(path, "is missing", remedy) from None
    except ValueError as error:
        raise MedhebError(path, "is not JSON", remedy) from error
    return validate(Complete, content, path)


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
