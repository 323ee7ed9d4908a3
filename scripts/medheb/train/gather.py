"""Targets of all ranks, so that each query has them as negatives; gradients flow back to the rank they came from."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.nn.functional import all_gather


@dataclass(frozen=True)
class Everyone:
    """Targets of all ranks.

    Args:
        targets: [n, d], in the order of ranks.
        keys: content numbers of the targets, [n].
        first: row of this rank's first target.
    """

    targets: Tensor
    keys: Tensor
    first: int


def gathered(targets: Tensor, keys: Tensor) -> Everyone:
    """Targets and their keys from all ranks, which may have different numbers of them.

    Args:
        targets: of this rank, [m, d].
        keys: of their contents, int64 [m].
    """
    if not (dist.is_available() and dist.is_initialized()) or dist.get_world_size() == 1:
        return Everyone(targets, keys, 0)
    size = torch.tensor([len(targets)], device=targets.device)
    sizes = [torch.zeros_like(size) for _ in range(dist.get_world_size())]
    dist.all_gather(sizes, size)
    counts = [int(one) for one in sizes]
    longest = max(counts)
    padded = torch.zeros(longest, targets.shape[1], dtype=targets.dtype, device=targets.device)
    padded = torch.cat([targets, padded[len(targets) :]])
    padded_keys = torch.cat([keys, torch.zeros(longest - len(keys), dtype=keys.dtype, device=keys.device)])
    every_key = [torch.zeros_like(padded_keys) for _ in counts]
    dist.all_gather(every_key, padded_keys)
    rows = all_gather(padded)  # type: ignore[no-untyped-call]
    return Everyone(
        torch.cat([row[:count] for row, count in zip(rows, counts, strict=True)]),
        torch.cat([row[:count] for row, count in zip(every_key, counts, strict=True)]),
        sum(counts[: dist.get_rank()]),
    )
