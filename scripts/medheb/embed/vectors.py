"""Vectors of whole inputs, out of the stored vectors of their parts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from medheb.core.batches import batched
from medheb.embed.store import Store
from medheb.models.base import Adapter, Rendered, Vectors

PARTS_AT_ONCE = 4096


def input_vectors(store: Store, adapter: Adapter, inputs: Sequence[Rendered]) -> Vectors:
    """Unit vectors of inputs, float32 [n, d].

    Raises:
        MedhebError: the store lacks a part, or a shard is damaged.
    """
    rows: list[Vectors] = []
    most = max((len(adapter.parts(rendered)) for rendered in inputs), default=1)
    for batch in batched(inputs, max(1, PARTS_AT_ONCE // most)):
        parts = [[part.key for part in adapter.parts(rendered)] for rendered in batch]
        row_of = {key: row for row, key in enumerate(dict.fromkeys(key for keys in parts for key in keys))}
        vectors = store.load(list(row_of))
        for rendered, keys in zip(batch, parts, strict=True):
            rows.append(adapter.combine(rendered, vectors[[row_of[key] for key in keys]]))
    return np.stack(rows) if rows else np.empty((0, 0), dtype=np.float32)
