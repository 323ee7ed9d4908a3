"""Both sides of a batch through the network in one call, with little padding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from medheb.models.base import Prepared

if TYPE_CHECKING:
    from medheb.models.decoder import DecoderEncoder

WORTH = 0.02


def groups_of(lengths: Sequence[int]) -> list[list[int]]:
    """Numbers of the inputs in at most three groups by length, each padded to its longest, so that padding is least.

    A label is a tenth as long as the picture beside it: padded to one length, half of the work would be padding. A
    further group, that is a further pass through the network, must save more than ``WORTH`` of the padded tokens.
    """
    count = len(lengths)
    order = sorted(range(count), key=lambda number: (lengths[number], number))
    ordered = np.array([0, *(lengths[number] for number in order)], dtype=np.int64)
    places = np.arange(count + 1)
    # cost[first, second]: groups up to the one, up to the other, and the rest
    head = places * ordered
    middle = (places[None, :] - places[:, None]) * ordered[None, :]
    cost = head[:, None] + middle + ((count - places) * ordered[-1])[None, :]
    cost = np.where(places[:, None] <= places[None, :], cost, np.iinfo(np.int64).max)
    options = (
        (0, 0),
        (0, int(cost[0].argmin())),
        tuple(int(place) for place in np.unravel_index(int(cost.argmin()), cost.shape)),
    )
    first, second = options[0]
    for option in options[1:]:
        if cost[option] < (1 - WORTH) * cost[first, second]:
            first, second = option
    return [group for group in (order[:first], order[first:second], order[second:]) if group]


def padded_tokens(lengths: Sequence[int]) -> int:
    """What the groups cost in all."""
    return sum(len(group) * max(lengths[number] for number in group) for group in groups_of(lengths))


class Sides(nn.Module):
    """The encoder as one module, so that data parallelism sees one forward pass a step.

    Args:
        encoder: its network is trained.
    """

    def __init__(self, encoder: DecoderEncoder) -> None:
        super().__init__()
        self.network = encoder.network
        self._encoder = encoder

    def forward(self, inputs: Sequence[Prepared]) -> Tensor:
        """Unit vectors [n, d] in the order of ``inputs``."""
        groups = groups_of([part.tokens for part in inputs])
        vectors = torch.cat([self._encoder.vectors([inputs[number] for number in group]) for group in groups])
        places = torch.tensor([number for group in groups for number in group], device=vectors.device)
        return vectors[torch.argsort(places)]
