"""InfoNCE over the targets of a batch, with the false-negative mask (paper, section 4 and appendix A.1, eq. 1-3)."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

MarginOn = Literal["cosine", "exponential"]


def false_negatives(cosines: Tensor, places: Tensor, temperature: float, margin: float, on: MarginOn) -> Tensor:
    """Targets that are too close to be told apart from the positive, bool [b, n]; never the positive itself.

    Args:
        cosines: of each query with each target, [b, n].
        places: column of each query's positive, [b].
        temperature: tau.
        margin: delta; a target counts as too close strictly above the positive by it.
        on: ``cosine`` compares cosines (the paper's text). ``exponential`` compares exp(cos / tau) as equation 2 is
            written: a margin of 0.1 is then next to nothing, and every target above the positive is masked.
    """
    cosines = cosines.detach()
    positive = cosines.gather(1, places[:, None])
    if on == "cosine":
        close = cosines > positive + margin
    else:
        # exp(100) overflows in float32: compared as logarithms, in double precision.
        bar = positive.double() / temperature
        if margin > 0:
            bar = torch.logaddexp(bar, torch.full_like(bar, math.log(margin)))
        close = cosines.double() / temperature > bar
    return close.scatter(1, places[:, None], False)


def info_nce(
    queries: Tensor,
    targets: Tensor,
    places: Tensor,
    *,
    temperature: float,
    margin: float,
    margin_on: MarginOn = "cosine",
    equal: Tensor | None = None,
) -> Tensor:
    """Sum of the losses of the queries; divide by the number of queries of all ranks.

    Args:
        queries: unit rows, [b, d].
        targets: unit rows of the whole batch, those of other ranks included, [n, d].
        places: row of ``targets`` that is each query's positive, [b].
        temperature: tau.
        margin: delta of the mask.
        margin_on: what the margin is measured on, see :func:`false_negatives`.
        equal: bool [b, n], further targets that are no negatives, such as copies of the positive.
    """
    cosines = queries.float() @ targets.float().T
    masked = false_negatives(cosines, places, temperature, margin, margin_on)
    if equal is not None:
        masked = masked | equal.scatter(1, places[:, None], False)
    logits = (cosines / temperature).masked_fill(masked, -torch.inf)
    return cross_entropy(logits, places, reduction="sum")
