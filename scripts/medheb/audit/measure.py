"""Hash files as they are now; whatever is wrong with one becomes a verdict, never an exception."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from pathlib import Path, PurePosixPath

from PIL import Image

from medheb.audit.tolerance import grid_digest
from medheb.audit.tree import on_disk
from medheb.audit.verdicts import CheckedLevel, Verdict
from medheb.core.batches import batched
from medheb.core.digests import PICTURE_SUFFIXES, content_digest, sha256_bytes

BATCH = 1024  # files in flight: bounds memory when there are hundreds of thousands
# A PNG that ends within its last chunks still decodes, so completeness is checked apart from the pixels.
PNG_END = b"\x00\x00\x00\x00IEND\xaeB`\x82"


@dataclass(frozen=True, slots=True)
class Measured:
    """Digests of a file now; ``L2`` is None where only bytes were asked for, ``L3`` where no tolerance is declared."""

    bytes: int
    L1: str
    L2: str | None
    L3: str | None = None


@dataclass(frozen=True)
class Problem:
    """Why a file has no digests: MISSING if it vanished, else UNREADABLE.

    ``L1`` is known if the bytes could be read but not decoded.
    """

    verdict: Verdict
    reason: str
    L1: str | None = None


class _UnstableError(Exception):
    """A file cannot be read as one consistent regular file."""


def read_stable(place: bytes) -> bytes:
    """Content of a regular file that did not change while it was read.

    Symbolic links are refused and pipes do not block.

    Raises:
        FileNotFoundError: no such file.
        OSError: it cannot be opened or read; ELOOP for a symbolic link.
        _UnstableError: not a regular file, or changed meanwhile.
    """
    handle = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as stream:
        before = os.fstat(handle)
        if not stat.S_ISREG(before.st_mode):
            raise _UnstableError("is not a regular file")
        content = stream.read()
        after = os.fstat(handle)
    if _signature(before) != _signature(after) or len(content) != before.st_size:
        raise _UnstableError("changed while it was read; verify again when no job runs")
    if _signature(os.lstat(place)) != _signature(after):
        raise _UnstableError("was replaced while it was read; verify again when no job runs")
    return content


def _signature(state: os.stat_result) -> tuple[int, int, int, int]:
    return state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns


def check_complete(path: str, content: bytes) -> None:
    """Refuse an image that is cut short or fails its own checksums even if its pixels decode.

    Raises:
        Exception: whatever the image library raises on broken data.
    """
    suffix = PurePosixPath(path).suffix.lower()
    if suffix not in PICTURE_SUFFIXES:
        return
    with Image.open(BytesIO(content)) as image:
        if image.format == "PNG" and PNG_END not in content:
            raise ValueError("the PNG ends before its end mark")
        image.verify()


def read_checked(place: bytes) -> bytes | Problem:
    """:func:`read_stable`, with whatever is wrong as a verdict."""
    try:
        return read_stable(place)
    except FileNotFoundError:
        return Problem("MISSING", "vanished while the audit ran")
    except _UnstableError as error:
        return Problem("UNREADABLE", str(error))
    except OSError as error:
        return Problem("UNREADABLE", f"cannot be read: {error.strerror or type(error).__name__}")
    except MemoryError:
        return Problem("UNREADABLE", "does not fit into memory")


def measure(benchmark: Path, path: str, level: CheckedLevel, tolerant: Collection[str] = ()) -> Measured | Problem:
    """Digests of ``benchmark/path``: bytes only for L1, bytes and content for L2, a grid too if it is ``tolerant``."""
    content = read_checked(on_disk(benchmark, path))
    if isinstance(content, Problem):
        return content
    digest = sha256_bytes(content)
    if level == "L1":
        return Measured(len(content), digest, None)
    try:
        check_complete(path, content)
        grid = grid_digest(content) if path in tolerant else None
        return Measured(len(content), digest, content_digest(Path(path), content), grid)
    except Exception as error:  # noqa: BLE001 - decoders raise anything on broken data; an audit must go on
        return Problem("UNREADABLE", f"cannot be decoded: {_first_line(error)}" if content else "is empty", digest)


def _first_line(error: Exception) -> str:
    text = str(error).splitlines()[0] if str(error) else ""
    # The image library quotes the address of its buffer, which differs from run to run.
    return text if text and "BytesIO" not in text else "not an image that can be identified"


def measure_all(
    benchmark: Path, paths: Iterable[str], level: CheckedLevel, workers: int = 1, tolerant: Collection[str] = ()
) -> dict[str, Measured | Problem]:
    """:func:`measure` for many paths. Decoding and hashing release the interpreter lock, so threads help."""
    ordered = sorted(paths, key=str.encode)
    if workers <= 1:
        return {path: measure(benchmark, path, level, tolerant) for path in ordered}
    found: dict[str, Measured | Problem] = {}
    with ThreadPoolExecutor(max_workers=workers) as pool:
        for batch in batched(ordered, BATCH):
            found.update(
                zip(batch, pool.map(partial(measure, benchmark, level=level, tolerant=tolerant), batch), strict=True)
            )
    return found
