"""Read the list of digests of a PhysioNet project, ``SHA256SUMS.txt``.

PhysioNet writes 64 hex digits, one blank and the path; coreutils writes two blanks, or a blank and ``*``. Names may
hold blanks. Names carry subject ids, so no message here ever quotes a line.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field
from pathlib import Path

from medheb.core.errors import MedhebError

NAME = "SHA256SUMS.txt"
HEX_DIGITS = 64
MAX_BYTES = 1 << 30
REMEDY = "Download the list again from the project's page; do not edit it"


@dataclass(frozen=True)
class Sums:
    """A parsed list.

    ``digests`` maps each path (from the project root, in file system encoding with surrogate escapes) to its 32 raw
    sha256 bytes, in the order of the list. ``digest`` is the hex sha256 of the list itself.
    """

    digests: dict[str, bytes] = field(repr=False)
    digest: str
    bytes: int


def read_sums(path: Path, where: str) -> Sums:
    """Read a list whole.

    Args:
        path: the list.
        where: how errors name it; a path may tell more than a log should hold.

    Raises:
        MedhebError: unreadable, empty, too large, or a line is malformed, leaves the project or repeats a path with
            another digest. Lines are named by their number only.
    """
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise MedhebError(where, f"has {size} bytes, more than any list of digests", REMEDY)
        content = path.read_bytes()
    except OSError as error:
        raise MedhebError(where, f"cannot be read ({error.strerror})", "Check that you may read the copy") from None
    return parse_sums(content, where)


def parse_sums(content: bytes, where: str) -> Sums:
    """Parse the bytes of a list; see :func:`read_sums`.

    As in ``sha256sum -c`` the first line tells whether a second sign (blank or ``*``) stands before each name.
    """
    digest = hashlib.sha256(content).hexdigest()
    text = os.fsdecode(content.removeprefix(b"\xef\xbb\xbf"))
    digests: dict[str, bytes] = {}
    marked: bool | None = None
    for number, whole in enumerate(text.split("\n"), start=1):
        line = whole.removesuffix("\r")
        if not line:
            continue
        escaped = line[0] == "\\"
        if escaped:
            line = line[1:]
        try:
            value = bytes.fromhex(line[:HEX_DIGITS])
        except ValueError:
            value = b""
        # fromhex skips blanks, so a short digest shows in the length.
        if len(value) != HEX_DIGITS // 2 or line[HEX_DIGITS : HEX_DIGITS + 1] != " ":
            raise MedhebError(where, f"line {number} is not '<sha256> <path>'", REMEDY)
        second = line[HEX_DIGITS + 1 : HEX_DIGITS + 2]
        if marked is None:
            marked = second in {" ", "*"}
        name = line[HEX_DIGITS + 2 :] if marked and second in {" ", "*"} else line[HEX_DIGITS + 1 :]
        if escaped:
            name = _unescaped(name)
        name = name.removeprefix("./")
        if _leaves_root(name):
            raise MedhebError(where, f"line {number} names a path that is empty or leaves the project", REMEDY)
        if digests.setdefault(name, value) != value:
            raise MedhebError(where, f"line {number} repeats an earlier path with another digest", REMEDY)
    if not digests:
        raise MedhebError(where, "holds no digests", REMEDY)
    return Sums(digests, digest, len(content))


def _leaves_root(name: str) -> bool:
    return not name or name[0] == "/" or "\0" in name or (".." in name and ".." in name.split("/"))


def _unescaped(name: str) -> str:
    # One pass, so that an escaped backslash before an n stays what it is.
    parts = name.split("\\\\")
    return "\\".join(part.replace("\\n", "\n").replace("\\r", "\r") for part in parts)
