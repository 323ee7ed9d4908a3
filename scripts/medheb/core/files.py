"""Atomic writes: a unique temporary name in the same folder, flush, rename.

No lock is ever needed for correctness: advisory locks silently do nothing on some cluster file
systems, while ``os.replace`` within one folder is atomic everywhere we run.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from medheb.core.batches import batched

TEMPORARY_MARK = ".part."
JSON_PIECES = 1 << 14


def temporary_name(target: Path) -> Path:
    """A sibling of ``target`` that no other process, host or attempt will choose."""
    unique = f"{socket.gethostname()}.{os.getpid()}.{uuid.uuid4().hex[:12]}"
    return target.with_name(f".{target.name}{TEMPORARY_MARK}{unique}")


def fsync_folder(folder: Path) -> None:
    """Make a rename in ``folder`` durable; file systems that cannot sync a folder are left alone."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    except OSError:
        pass
    finally:
        os.close(handle)


@contextmanager
def atomic_open(target: Path) -> Iterator[IO[bytes]]:
    """Open a binary stream that becomes ``target`` only if the block ends without an error."""
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = temporary_name(target)
    try:
        with temporary.open("xb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, target)
        fsync_folder(target.parent)
    finally:
        temporary.unlink(missing_ok=True)


def write_bytes(target: Path, content: bytes) -> None:
    """Write ``content`` to ``target`` atomically."""
    with atomic_open(target) as stream:
        stream.write(content)


def write_text(target: Path, content: str) -> None:
    """Write UTF-8 text with LF line ends atomically."""
    write_bytes(target, content.encode("utf-8"))


def write_json(target: Path, content: Any) -> None:
    """Write readable, deterministic JSON (sorted keys, UTF-8, LF) atomically."""
    encoder = json.JSONEncoder(indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False)
    with atomic_open(target) as stream:
        # In pieces: the text of a large record need not be in memory twice.
        for pieces in batched(encoder.iterencode(content), JSON_PIECES):
            stream.write("".join(pieces).encode("utf-8"))
        stream.write(b"\n")


@contextmanager
def atomic_folder(target: Path) -> Iterator[Path]:
    """Yield an empty staging folder that replaces ``target`` whole if the block ends without an error.

    A reader sees the old folder or the new one, never a mixture.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    staging = temporary_name(target)
    staging.mkdir()
    try:
        yield staging
        if target.exists():
            discarded = temporary_name(target)
            os.replace(target, discarded)
            os.replace(staging, target)
            shutil.rmtree(discarded, ignore_errors=True)
        else:
            os.replace(staging, target)
        fsync_folder(target.parent)
    finally:
        if staging.exists():
            shutil.rmtree(staging, ignore_errors=True)


def remove_leftovers(folder: Path) -> int:
    """Delete temporary files and staging folders of killed attempts directly in ``folder``.

    Only call it where one job owns the folder. Returns how many were removed.
    """
    removed = 0
    if not folder.is_dir():
        return removed
    for entry in sorted(folder.iterdir()):
        if entry.name.startswith(".") and TEMPORARY_MARK in entry.name:
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry, ignore_errors=True)
            else:
                entry.unlink(missing_ok=True)
            removed += 1
    return removed
