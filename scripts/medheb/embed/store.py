"""The embedding store: append-only shards of vectors by content key. Resume point and cache in one.

A shard is a safetensors file with ``vectors`` float32 [n, d]; its keys and the sha256 of the vectors
stand in the header. A shard is written whole under a temporary name and renamed, so a reader
never sees half of one, and several jobs may append at once.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from medheb.core.digests import sha256_bytes
from medheb.core.errors import MedhebError
from medheb.core.files import write_bytes
from medheb.models.base import Vectors

log = logging.getLogger("medheb.embed")
SUFFIX = ".safetensors"


class Store:
    """Vectors of one model fingerprint, by input key.

    Args:
        folder: the fingerprint's folder; created when first written to.
        repair: set aside damaged shards (their inputs are embedded again) instead of refusing them.
    """

    def __init__(self, folder: Path, *, repair: bool = False) -> None:
        self.folder = folder
        self._shard_of: dict[str, tuple[Path, int]] = {}
        for path in sorted(folder.glob(f"*{SUFFIX}")) if folder.is_dir() else []:
            try:
                keys = _read_keys(path)
            except MedhebError as error:
                if not repair:
                    raise
                log.warning("%s: %s; its inputs are embedded again", path, error.fault)
                path.unlink(missing_ok=True)
                continue
            for row, key in enumerate(keys):
                self._shard_of.setdefault(key, (path, row))

    def __contains__(self, key: str) -> bool:
        return key in self._shard_of

    def __len__(self) -> int:
        return len(self._shard_of)

    def __iter__(self) -> Iterator[str]:
        return iter(self._shard_of)

    def append(self, keys: Sequence[str], vectors: Vectors) -> None:
        """Write one shard; vectors is float32 [len(keys), d]."""
        if vectors.shape[:1] != (len(keys),) or vectors.dtype != np.float32:
            raise ValueError(f"{len(keys)} keys need float32 rows, got {vectors.dtype} {vectors.shape}")
        head = {"keys": json.dumps(list(keys)), "sha256": sha256_bytes(vectors.tobytes())}
        path = self.folder / f"{sha256_bytes(head['keys'].encode())[:32]}{SUFFIX}"
        write_bytes(path, save({"vectors": np.ascontiguousarray(vectors)}, metadata=head))
        for row, key in enumerate(keys):
            self._shard_of.setdefault(key, (path, row))

    def load(self, keys: Sequence[str]) -> Vectors:
        """Vectors of ``keys`` in their order, float32 [n, d]; each shard is read and checked once.

        Raises:
            MedhebError: a key that is not in the store, or a shard whose vectors changed.
        """
        by_shard: dict[Path, list[tuple[int, int]]] = {}
        for position, key in enumerate(keys):
            if key not in self._shard_of:
                raise MedhebError(self.folder, f"lacks the vector of input {key[:12]}", "Run the embedding step again")
            path, row = self._shard_of[key]
            by_shard.setdefault(path, []).append((position, row))
        result: Vectors | None = None
        for path, places in sorted(by_shard.items()):
            vectors = _read_vectors(path)
            if result is None:
                result = np.empty((len(keys), vectors.shape[1]), dtype=np.float32)
            positions, rows = zip(*places, strict=True)
            result[list(positions)] = vectors[list(rows)]
        return result if result is not None else np.empty((0, 0), dtype=np.float32)


def _damaged(path: Path, why: object) -> MedhebError:
    return MedhebError(path, f"is damaged ({why})", "Delete it and run the embedding step again")


def _read_keys(path: Path) -> list[str]:
    try:
        with safe_open(path, framework="numpy") as shard:
            keys: list[str] = json.loads(shard.metadata()["keys"])
            rows = shard.get_slice("vectors").get_shape()[0]
    except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
        raise _damaged(path, error) from error
    if rows != len(keys):
        raise _damaged(path, f"{len(keys)} keys for {rows} vectors")
    return keys


def _read_vectors(path: Path) -> Vectors:
    try:
        with safe_open(path, framework="numpy") as shard:
            vectors: Vectors = shard.get_tensor("vectors")
            expected = shard.metadata()["sha256"]
    except (SafetensorError, OSError, KeyError, TypeError) as error:
        raise _damaged(path, error) from error
    if sha256_bytes(vectors.tobytes()) != expected:
        raise _damaged(path, "its vectors do not have the digest that was written with them")
    return vectors
