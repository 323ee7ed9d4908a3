"""Exact best candidates of 10,000 queries among 100,000 of 1,024 values, one of three ways in a process of its own.

``python exact_top.py ours|faiss|torch FOLDER`` prints seconds and the peak of memory.
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


def make(folder: Path) -> None:
    """Unit vectors, written block by block."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for name, rows in (("queries", QUERIES), ("pool", CANDIDATES)):
        out = np.lib.format.open_memmap(folder / f"{name}.npy", "w+", np.float32, (rows, VALUES))
        for start in range(0, rows, 10_000):
            block = rng.standard_normal((min(10_000, rows - start), VALUES), dtype=np.float32)
            out[start : start + len(block)] = block / np.linalg.norm(block, axis=1, keepdims=True)
    np.save(folder / "right.npy", rng.integers(0, CANDIDATES, QUERIES))


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
    found: np.ndarray = index.search(queries, BEST)[1]
    return found


def by_torch(queries: np.ndarray, pool: np.ndarray, right: list[int]) -> np.ndarray:
    """Best candidates by product and selection in torch, blocks of queries as large as ours."""
    import torch

    from medheb.evaluate.ranking import BLOCK_BYTES

    torch.set_num_threads(THREADS)
    candidates = torch.from_numpy(pool)
    blocks = torch.from_numpy(queries).split(BLOCK_BYTES // (4 * len(pool)))  # type: ignore[no-untyped-call]
    return torch.cat([(block @ candidates.T).topk(BEST, dim=1).indices for block in blocks]).numpy()


WAYS = {"ours": ours, "faiss": by_faiss, "torch": by_torch}
LIBRARY = {"ours": "medheb.evaluate.ranking", "faiss": "faiss", "torch": "torch"}

if __name__ == "__main__":
    way, folder = sys.argv[1], Path(sys.argv[2])
    queries, pool = np.load(folder / "queries.npy"), np.load(folder / "pool.npy")
    right = np.load(folder / "right.npy").tolist()
    importlib.import_module(LIBRARY[way])
    started, worked = time.monotonic(), time.process_time()
    best = WAYS[way](queries, pool, right)
    print(
        f"seconds={time.monotonic() - started:.6g} cpu_seconds={time.process_time() - worked:.6g} "
        f"peak_mb={peak_mb():.6g}"
    )
    np.save(folder / f"{way}.npy", best)
