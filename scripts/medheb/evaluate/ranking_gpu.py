"""The ranking of :mod:`medheb.evaluate.ranking` on a GPU: only counts and the best few candidates leave it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from medheb.evaluate.ranking import Ranked, top_positions
from medheb.evaluate.score import TOP
from medheb.models.base import Vectors

BLOCK_SCORES = 2**28  # 1 GiB


@torch.inference_mode()
def rank_on(device: str, queries: Vectors, pool: Vectors, positives: Sequence[int], tolerance: float) -> list[Ranked]:
    """Rank each query against every candidate; see :func:`medheb.evaluate.ranking.rank_global`."""
    torch.backends.cuda.matmul.allow_tf32 = False
    candidates = torch.from_numpy(pool).to(device)
    results: list[Ranked] = []
    step = max(1, BLOCK_SCORES // len(pool))
    for start in range(0, len(queries), step):
        scores = torch.from_numpy(queries[start : start + step]).to(device) @ candidates.T
        right = torch.tensor(positives[start : start + step], device=device)[:, None]
        best = scores.gather(1, right)
        above = (scores > best + tolerance).sum(1)
        tied = (scores >= best - tolerance).sum(1) - above
        top = scores.topk(min(TOP, len(pool)), dim=1)
        crowded = (scores >= top.values[:, -1:]).sum(1) > TOP  # which equal candidates are shown must not be chance
        places, values = top.indices.cpu().numpy(), top.values.cpu().numpy()
        for row, (mean, higher, equal) in enumerate(
            zip(best[:, 0].tolist(), above.tolist(), tied.tolist(), strict=True)
        ):
            # Among equal scores the first candidate comes first, as on a CPU.
            order = np.lexsort((places[row], -values[row]))
            shown, shown_scores = places[row][order], values[row][order]
            if crowded[row]:
                whole = scores[row].cpu().numpy()
                shown = top_positions(whole)
                shown_scores = whole[shown]
            results.append(Ranked(len(pool), higher, equal, 1, mean, shown, shown_scores))
    return results
