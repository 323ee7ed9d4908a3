"""Exact best candidates of 10,000 queries among 100,000 of 1,024 values, ours or faiss's, in a process of its own.

``python exact_top.py ours|faiss FOLDER`` prints seconds and the peak of memory.
"""

from __future__ import annotations

import importlib
import os
import sys
import time
from pathlib import Path

THREADS = 2
os.environ["OPENBLAS_NUM_THREADS"] = str(THREADS)  # read when NumPy starts

import numpy as np  # noqa: E402
from peak import peak_mb  # noqa: E402

QUERIES, CANDIDATES, VALUES, BEST = 10_000, 100_000, 1024, 5


def make(folder: Path, queries: int = QUERIES, candidates: int = CANDIDATES) -> None:
    """Unit vectors, written block by block."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for name, rows in (("queries", queries), ("pool", candidates)):
        out = np.lib.format.open_memmap(folder / f"{name}.npy", "w+", np.float32, (rows, VALUES))
        for start in range(0, rows, 10_000):
            block = rng.standard_normal((min(10_000, rows - start), VALUES), dtype=np.float32)
            out[start : start + len(block)] = block / np.linalg.norm(block, axis=1, keepdims=True)
    np.save(folder / "right.npy", rng.integers(0, candidates, queries))


def ours(queries: np.ndarray, pool: np.ndarray, right: list[int]) -> np.ndarray:
    """Best candidates with the counts of higher and equal ones, as the evaluation takes them."""
    from medheb.evaluate.ranking import rank_global

    return np.array([ranked.top[:BEST] for ranked in rank_global(queries, pool, right, 1e-6)])


def by_faiss(queries: np.ndarray, pool: np.ndarray, right: list[int]) -> np.ndarray:
    """Best candidates of the flat index."""
    import faiss

    faiss.omp_set_num_threads(THREADS)
    index = faiss.IndexFlatIP(pool.shape[1])
    index.add(pool)
    return index.search(queries, BEST)[1]


if __name__ == "__main__":
    way, folder = sys.argv[1], Path(sys.argv[2])
    queries, pool = np.load(folder / "queries.npy"), np.load(folder / "pool.npy")
    right = np.load(folder / "right.npy").tolist()
    if way == "faiss":
        importlib.import_module("faiss")
    started, worked = time.monotonic(), time.process_time()
    best = (ours if way == "ours" else by_faiss)(queries, pool, right)
    print(
        f"seconds={time.monotonic() - started:.6g} cpu_seconds={time.process_time() - worked:.6g} "
        f"peak_mb={peak_mb():.6g}"
    )
    np.save(folder / f"{way}.npy", best)
