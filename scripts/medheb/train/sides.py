"""Both sides of a batch through the network in one call, with as little padding as two passes allow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from medheb.models.base import Prepared

if TYPE_CHECKING:
    from medheb.models.decoder import DecoderEncoder


def two_groups(lengths: Sequence[int]) -> list[list[int]]:
    """Numbers of the inputs in at most two groups, each padded to its longest, so that padding is least.

    A label is a tenth as long as the picture beside it: padded to one length, half of the work would be padding.
    """
    order = sorted(range(len(lengths)), key=lambda number: (lengths[number], number))
    if not order:
        return []
    longest = lengths[order[-1]]
    costs = {
        cut: cut * (lengths[order[cut - 1]] if cut else 0) + (len(order) - cut) * longest for cut in range(len(order))
    }
    cut = min(costs, key=lambda place: (costs[place], place))
    return [group for group in (order[:cut], order[cut:]) if group]


def padded_tokens(lengths: Sequence[int]) -> int:
    """What the groups cost in all."""
    return sum(len(group) * max(lengths[number] for number in group) for group in two_groups(lengths))


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
        groups = two_groups([part.tokens for part in inputs])
        vectors = torch.cat([self._encoder.vectors([inputs[number] for number in group]) for group in groups])
        places = torch.tensor([number for group in groups for number in group], device=vectors.device)
        return vectors[torch.argsort(places)]
