"""What earlier starts found in the text of a module, by the text's own digest.

Every job on a cluster needs the digest of its code, twice, and parsing is most of that work. Nothing depends on
this file: it may be deleted at any time, and where it cannot be read or written, modules are parsed again.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
from pathlib import Path

from medheb.core.digests import sha256_bytes
from medheb.core.files import write_text
from medheb.core.json_text import parse_json

# Part of the name: another way of looking at code, or another Python, finds something else.
VERSION = f"1_{sys.implementation.cache_tag}"
MOST = 5_000
Found = tuple[str, tuple[str, ...]]


class KnownCode:
    """Digest and imported names of module texts, kept from one start to the next.

    Args:
        path: the file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._kept: dict[str, Found] | None = None
        self._used: dict[str, Found] = {}
        self._new = False

    def get(self, text: bytes) -> Found | None:
        """What was found in a text; None if it was not seen."""
        if self._kept is None:
            self._kept = _read(self._path)
        key = sha256_bytes(text)
        if key in self._kept:
            self._used[key] = self._kept[key]
        return self._used.get(key)

    def put(self, text: bytes, found: Found) -> None:
        """Remember what was found in a text; written when the process ends."""
        if not self._new:
            atexit.register(self.write)
        self._new = True
        self._used[sha256_bytes(text)] = found

    def write(self) -> None:
        """Write what is known, if there is anything new; what was used last stays if it becomes too much."""
        if not self._new:
            return
        everything = {**(self._kept or {}), **self._used}
        kept = everything if len(everything) <= MOST else self._used
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_text(self._path, json.dumps(kept, sort_keys=True))
        except OSError:
            return  # no home folder on this node, or a full one
        self._new = False


def user_file() -> Path:
    """Where a user keeps such files."""
    named = Path(os.environ.get("XDG_CACHE_HOME", ""))
    try:
        folder = named if named.is_absolute() else Path.home() / ".cache"
    except RuntimeError:  # a user without a home
        folder = Path(os.devnull)
    return folder / "medheb" / f"code_{VERSION}.json"


def _read(path: Path) -> dict[str, Found]:
    try:
        content = parse_json(path.read_bytes())
        return {str(key): (str(digest), tuple(map(str, names))) for key, (digest, names) in content.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}
