"""The text tower of MedImageInsight: a transformer with norms first that reads in both directions."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn

EPSILON = 1e-12
PREFIX = "lang_encoder."


class Block(nn.Module):
    """Attention, then a perceptron with the quick GELU, each after a norm and beside a shortcut."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attn = nn.MultiheadAttention(width, heads, batch_first=True)
        self.ln_1 = nn.LayerNorm(width, eps=EPSILON)
        self.mlp = nn.ModuleDict({"c_fc": nn.Linear(width, 4 * width), "c_proj": nn.Linear(4 * width, width)})
        self.ln_2 = nn.LayerNorm(width, eps=EPSILON)

    def forward(self, states: torch.Tensor, padding: torch.Tensor) -> torch.Tensor:
        """[b, n, width] and which positions are padding, [b, n], to [b, n, width]."""
        normed = self.ln_1(states)
        states = states + self.attn(normed, normed, normed, key_padding_mask=padding, need_weights=False)[0]
        inner = self.mlp["c_fc"](self.ln_2(states))
        result: torch.Tensor = states + self.mlp["c_proj"](inner * torch.sigmoid(1.702 * inner))
        return result


class TextTransformer(nn.Module):
    """Token ids to the state at the end-of-text token, which has the highest number of the vocabulary."""

    def __init__(self, vocabulary: int, positions: int, width: int, layers: int, heads: int) -> None:
        super().__init__()
        self.token_embedding = nn.Embedding(vocabulary, width)
        self.positional_embedding = nn.Parameter(torch.zeros(positions, width))
        self.resblocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.ln_final = nn.LayerNorm(width, eps=EPSILON)

    @classmethod
    def of(cls, tensors: dict[str, torch.Tensor], heads: int) -> TextTransformer:
        """The tower that the tensors under ``lang_encoder.`` describe; takes them out of ``tensors``.

        Raises:
            KeyError: a tensor is missing.
        """
        names = [name for name in tensors if name.startswith(PREFIX)]
        state = {name.removeprefix(PREFIX): tensors.pop(name) for name in names}
        vocabulary, width = state["token_embedding.weight"].shape
        layers = len({name.split(".")[1] for name in state if name.startswith("resblocks.")})
        tower = cls(vocabulary, len(state["positional_embedding"]), width, layers, heads)
        _require_same(tower.state_dict(), state)
        tower.load_state_dict(state)
        return tower

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """[b, n] and its mask to [b, width]."""
        states = self.token_embedding(ids) + self.positional_embedding[: ids.shape[1]]
        padding = mask == 0
        for block in self.resblocks:
            states = block(states, padding)
        last = ids.masked_fill(padding, -1).argmax(dim=-1)
        result: torch.Tensor = self.ln_final(states)[torch.arange(len(ids), device=ids.device), last]
        return result


def _require_same(wanted: Mapping[str, torch.Tensor], found: Mapping[str, torch.Tensor]) -> None:
    for name in sorted(wanted.keys() ^ found.keys()):
        raise KeyError(f"{PREFIX}{name}" if name in wanted else f"a place for {PREFIX}{name}")
    for name in wanted:
        if wanted[name].shape != found[name].shape:
            raise KeyError(f"a {PREFIX}{name} of shape {tuple(wanted[name].shape)}")
