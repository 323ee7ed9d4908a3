"""The embedding store: append-only shards of vectors by content key. Resume point and cache in one.

A shard is a safetensors file with ``vectors`` float32 [n, d]; its keys, the store's fingerprint, the sha256 of the
vectors and what did not go as planned stand in the header. A shard is written whole under a temporary name and renamed,
so a reader never sees half of one, and several jobs may append at once.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from medheb.core.batches import batched
from medheb.core.digests import json_digest, sha256_bytes
from medheb.core.errors import MedhebError
from medheb.core.files import write_bytes
from medheb.core.json_text import parse_json
from medheb.models.base import Vectors

log = logging.getLogger("medheb.embed")
SUFFIX = ".safetensors"
HEAD = "medheb"
ROWS_AT_ONCE = 4096


@dataclass(frozen=True)
class _Head:
    """What a shard says of its vectors.

    Args:
        keys: of the rows.
        cut: keys of texts that are longer than the model reads.
        notes: what else did not go as planned.
    """

    keys: list[str]
    cut: frozenset[str]
    notes: tuple[str, ...]


class Store:
    """Vectors of one model fingerprint, by the key of a part.

    Args:
        folder: named after the fingerprint; created when first written to.
        repair: set aside damaged shards (their parts are embedded again) instead of refusing them.
    """

    def __init__(self, folder: Path, *, repair: bool = False) -> None:
        self.folder = folder
        self.repair = repair
        self._shard_of: dict[str, tuple[Path, int]] = {}
        self._open: dict[Path, Vectors] = {}
        self._cut: set[str] = set()
        self._notes: dict[Path, tuple[str, ...]] = {}
        for path in sorted(folder.glob(f"*{SUFFIX}")) if folder.is_dir() else []:
            try:
                head = _read_head(path)
            except MedhebError as error:
                self._set_aside(path, error)
                continue
            self._take_in(path, head)

    def __contains__(self, key: str) -> bool:
        return key in self._shard_of

    def __len__(self) -> int:
        return len(self._shard_of)

    def __iter__(self) -> Iterator[str]:
        return iter(self._shard_of)

    def append(
        self, keys: Sequence[str], vectors: Vectors, cut: Collection[str] = (), notes: Iterable[str] = ()
    ) -> None:
        """Write one shard.

        Args:
            keys: of the parts.
            vectors: float32 [len(keys), d].
            cut: those of the keys whose text is longer than the model reads.
            notes: what else did not go as planned when these vectors were made.
        """
        if vectors.shape[:1] != (len(keys),) or vectors.dtype != np.float32:
            raise ValueError(f"{len(keys)} keys need float32 rows, got {vectors.dtype} {vectors.shape}")
        content = np.ascontiguousarray(vectors)
        head = _Head(list(keys), frozenset(cut), tuple(sorted(set(notes))))
        written = {
            "fingerprint": self.folder.name,
            "keys": head.keys,
            "cut": sorted(head.cut),
            "notes": head.notes,
            "sha256": hashlib.sha256(content.data).hexdigest(),
        }
        path = self.folder / f"{json_digest(head.keys)[:32]}{SUFFIX}"
        # One entry, because the format keeps several in no order: equal shards are equal files.
        write_bytes(path, save({"vectors": content}, metadata={HEAD: json.dumps(written, sort_keys=True)}))
        self._open.pop(path, None)
        self._take_in(path, head)

    def load(self, keys: Sequence[str]) -> Vectors:
        """Vectors of ``keys`` in their order, float32 [n, d]; each shard is checked when it is first read.

        Raises:
            MedhebError: a key that is not in the store, or a shard whose vectors changed.
        """
        result: Vectors | None = None
        for path, (positions, rows) in sorted(self._places(keys).items()):
            vectors = self._vectors(path)
            if result is None:
                result = np.empty((len(keys), vectors.shape[1]), dtype=np.float32)
            if vectors.shape[1] != result.shape[1]:
                raise _damaged(path, f"{vectors.shape[1]} values a vector, others have {result.shape[1]}")
            result[positions] = vectors[rows]
        return result if result is not None else np.empty((0, 0), dtype=np.float32)

    def check(self, keys: Iterable[str]) -> None:
        """Read the vectors of those ``keys`` that are here; shards that changed are set aside or refused.

        Raises:
            MedhebError: a shard whose vectors changed, unless this store repairs.
        """
        for path in sorted(self._places([key for key in keys if key in self])):
            try:
                self._vectors(path)
            except MedhebError as error:
                self._set_aside(path, error)
                self._shard_of = {key: place for key, place in self._shard_of.items() if place[0] != path}

    def digest(self, keys: Iterable[str] | None = None) -> str:
        """Digest over keys and vectors, whatever shards they lie in."""
        found: list[list[str]] = []
        for some in batched(sorted(keys if keys is not None else self), ROWS_AT_ONCE):
            found += [[key, sha256_bytes(row.tobytes())] for key, row in zip(some, self.load(some), strict=True)]
        return json_digest(found)

    def notes(self, keys: Iterable[str]) -> tuple[str, ...]:
        """What did not go as planned when the vectors of those ``keys`` that are here were made, by whatever job."""
        here = [key for key in keys if key in self]
        found = {note for path in {self._shard_of[key][0] for key in here} for note in self._notes[path]}
        if cut := sum(key in self._cut for key in here):
            found.add(f"texts of this group of tasks that are longer than the model reads, cut at their end: {cut}")
        return tuple(sorted(found))

    def _take_in(self, path: Path, head: _Head) -> None:
        self._cut |= head.cut
        self._notes[path] = head.notes
        for row, key in enumerate(head.keys):
            self._shard_of.setdefault(key, (path, row))

    def _places(self, keys: Sequence[str]) -> dict[Path, tuple[list[int], list[int]]]:
        places: dict[Path, tuple[list[int], list[int]]] = {}
        for position, key in enumerate(keys):
            if key not in self._shard_of:
                raise MedhebError(self.folder, f"lacks the vector of input {key[:12]}", "Run the embedding step again")
            path, row = self._shard_of[key]
            positions, rows = places.setdefault(path, ([], []))
            positions.append(position)
            rows.append(row)
        return places

    def _vectors(self, path: Path) -> Vectors:
        if path not in self._open:
            self._open[path] = _map_vectors(path)
        return self._open[path]

    def _set_aside(self, path: Path, error: MedhebError) -> None:
        if not self.repair:
            raise error
        log.warning("%s: %s; its parts are embedded again", path, error.fault)
        path.unlink(missing_ok=True)


def _damaged(path: Path, why: object) -> MedhebError:
    return MedhebError(path, f"is damaged ({why})", "Delete it and run the embedding step again")


def _read_head(path: Path) -> _Head:
    try:
        with safe_open(path, framework="numpy") as shard:
            head = parse_json(shard.metadata()[HEAD])
            keys: list[str] = head["keys"]
            cut, notes = frozenset(head.get("cut", ())), tuple(head.get("notes", ()))
            rows = shard.get_slice("vectors").get_shape()[0]
            fingerprint = head["fingerprint"]
    except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
        raise _damaged(path, error) from error
    if rows != len(keys):
        raise _damaged(path, f"{len(keys)} keys for {rows} vectors")
    if fingerprint != path.parent.name:
        raise _damaged(path, f"written for fingerprint {fingerprint[:12]}, another model, revision or setting")
    return _Head(keys, cut, notes)


def _map_vectors(path: Path) -> Vectors:
    """A read-only view of a shard's vectors; pages are loaded when they are used."""
    try:
        with safe_open(path, framework="numpy") as shard:
            part = shard.get_slice("vectors")
            rows, columns = part.get_shape()
            kind, expected = part.get_dtype(), parse_json(shard.metadata()[HEAD])["sha256"]
        # the format puts the data last
        start = path.stat().st_size - 4 * rows * columns
        vectors: Vectors = np.memmap(path, dtype="<f4", mode="r", offset=start, shape=(rows, columns))
    except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
        raise _damaged(path, error) from error
    if kind != "F32" or hashlib.sha256(vectors.data).hexdigest() != expected:
        raise _damaged(path, "its vectors do not have the digest that was written with them")
    return vectors
