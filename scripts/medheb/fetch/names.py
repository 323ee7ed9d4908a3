"""Which member names of an archive are harmless on every file system.

A name that is fine here may escape its folder or overwrite another file elsewhere (Windows drives,
case-insensitive or Unicode-normalising file systems), so the rules are those of the strictest system.
"""

from __future__ import annotations

import unicodedata
from pathlib import Path

from medheb.core.errors import MedhebError

MAX_NAME_BYTES = 255
MAX_PATH_BYTES = 1024
REMEDY = "Nothing was unpacked; check the archive with its publisher before you use it"


def hostile(archive: str | Path, fault: str) -> MedhebError:
    """The refusal of an archive whose content breaks a rule."""
    return MedhebError(archive, fault, REMEDY)


def shown(name: str) -> str:
    """A member name as one short printable word."""
    text = ascii(name)
    return text if len(text) <= 120 else text[:117] + "..."


class NameGuard:
    """Accepts the members of one archive one by one, and refuses the first harmful name.

    Args:
        archive: named in errors.
    """

    def __init__(self, archive: Path) -> None:
        self._archive = archive
        self._seen: dict[str, tuple[str, bool]] = {}

    def accept(self, name: str, folder: bool) -> str:
        """Check one member and return its path in plain form (no ``.`` parts, no closing slash).

        A folder may be listed twice; the archive's own root comes back as an empty path.

        Raises:
            MedhebError: the name could leave its folder, or collide with an earlier one.
        """
        parts = self._parts(name)
        if not parts and not folder:
            raise hostile(self._archive, f"member {shown(name)} has no name")
        for depth in range(1, len(parts) + 1):
            last = depth == len(parts)
            self._note("/".join(parts[:depth]), folder=folder or not last, explicit=last)
        return "/".join(parts)

    def _parts(self, name: str) -> list[str]:
        fault = _fault(name)
        if fault:
            raise hostile(self._archive, f"member {shown(name)} {fault}")
        return [part for part in name.split("/") if part not in {"", "."}]

    def _note(self, path: str, folder: bool, explicit: bool) -> None:
        key = unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())
        earlier = self._seen.get(key)
        if earlier is None:
            self._seen[key] = (path, folder)
            return
        other, was_folder = earlier
        if other != path:
            same = "are one name where case or Unicode form does not count"
            raise hostile(self._archive, f"members {shown(other)} and {shown(path)} {same}")
        if was_folder != folder:
            raise hostile(self._archive, f"member {shown(path)} is both a file and a folder")
        if explicit and not folder:
            raise hostile(self._archive, f"member {shown(path)} occurs twice")


def _fault(name: str) -> str | None:
    if any(ord(sign) < 32 or ord(sign) == 127 for sign in name):
        return "holds a NUL or control character"
    if "\\" in name:
        return "holds a backslash"
    if ":" in name:
        return "holds a colon (a drive on some systems)"
    if name.startswith("/"):
        return "is an absolute path"
    parts = name.split("/")
    if ".." in parts:
        return "leaves its folder with '..'"
    try:
        encoded = [part.encode("utf-8") for part in parts]
    except UnicodeEncodeError:
        return "is not valid UTF-8"
    if any(len(part) > MAX_NAME_BYTES for part in encoded) or len(name.encode("utf-8")) > MAX_PATH_BYTES:
        return "is too long a name"
    return None
