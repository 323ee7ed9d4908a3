"""Signs that a model has collapsed: all candidates point one way, or use few directions."""

from __future__ import annotations

import numpy as np

from medheb.models.base import Vectors

MOST = 1000  # candidates looked at, evenly spaced in the order of their keys
COLLAPSED_COSINE = 0.999


def sample(vectors: Vectors) -> Vectors:
    """At most :data:`MOST` rows."""
    rows = np.linspace(0, len(vectors) - 1, min(MOST, len(vectors))).astype(np.int64)
    return vectors[rows]


def mean_cosine(vectors: Vectors) -> float | None:
    """Mean cosine between different rows of unit vectors [n, d]; None for a single one."""
    count = len(vectors)
    if count < 2:
        return None
    total = vectors.sum(axis=0, dtype=np.float64)
    squares = float(np.einsum("nd,nd->", vectors, vectors, dtype=np.float64))
    return (float(total @ total) - squares) / (count * (count - 1))


def effective_rank(vectors: Vectors) -> float | None:
    """Exponential of the entropy of the singular values [n, d]; None for a single row.

    Source: Roy and Vetterli, The effective rank, EUSIPCO 2007.
    """
    if len(vectors) < 2:
        return None
    rows = vectors.astype(np.float64)
    gram = rows @ rows.T if len(rows) <= rows.shape[1] else rows.T @ rows
    values = np.sqrt(np.clip(np.linalg.eigvalsh(gram), 0, None))
    shares = values[values > values.max() * 1e-7] / values[values > values.max() * 1e-7].sum()
    return float(np.exp(-(shares * np.log(shares)).sum()))
