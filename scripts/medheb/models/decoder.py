"""The loaded network behind a stream of tokens: the last token's state, scaled to length one in float32."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from medheb.core.errors import MedhebError
from medheb.manifest.networks import DecoderAdapter, Qwen2VLAdapter
from medheb.models.base import Prepared, Vectors
from medheb.models.devices import place
from medheb.models.hub_weights import load_network, unit
from medheb.models.lora import with_adapter
from medheb.models.pixels import Grid

# The head that writes words is not loaded: its logits would cost gigabytes for a volume.
SPARE = ("lm_head.",)


class DecoderEncoder:
    """A decoder with its weights.

    Args:
        network: class of transformers that holds vision tower and language model without a head.
        settings: of the model's manifest.
        folder: the checkpoint.
        lora: folder of an adapter, if there is one.
        grid: how the checkpoint cuts pictures.
        pad: token that fills up shorter streams.
        device: where it runs.
    """

    def __init__(
        self, network: Any, settings: DecoderAdapter, folder: Path, lora: Path | None, grid: Grid, pad: int, device: str
    ) -> None:
        placement = place(settings.dtype, settings.attention, device)
        self.placement = placement
        self.network: Any = load_network(network, folder, placement, SPARE)
        if lora is not None:
            self.network = with_adapter(self.network, lora)
        self.grid = grid
        self.pad = pad
        self.plain_positions = isinstance(settings, Qwen2VLAdapter) and settings.positions == "plain"
        self.dimension = int(self.network.config.get_text_config().hidden_size)
        shape = (1, 3, 1, 1, 1)
        self._mean = torch.tensor(grid.mean, dtype=torch.float32, device=placement.device).reshape(shape)
        self._std = torch.tensor(grid.std, dtype=torch.float32, device=placement.device).reshape(shape)

    @torch.inference_mode()
    def encode(self, prepared: Sequence[Prepared]) -> Vectors:
        """Unit vectors, float32 [n, dimension]."""
        vectors: Vectors = self.vectors(prepared).cpu().numpy()
        return vectors

    def vectors(self, prepared: Sequence[Prepared]) -> torch.Tensor:
        """Unit vectors, float32 [n, dimension], on the device; with gradients where those are recorded."""
        lengths = torch.tensor([len(part.arrays["input_ids"]) for part in prepared])
        shape = (len(prepared), int(lengths.max()))
        ids = torch.full(shape, self.pad, dtype=torch.long)
        types = torch.zeros(shape, dtype=torch.int32)
        for row, part in enumerate(prepared):
            ids[row, : lengths[row]] = torch.from_numpy(part.arrays["input_ids"])
            types[row, : lengths[row]] = torch.from_numpy(part.arrays["types"])
        device = self.placement.device
        mask = (torch.arange(shape[1])[None] < lengths[:, None]).long().to(device)
        inputs = {"input_ids": ids.to(device), "attention_mask": mask, **self._pictures(prepared)}
        if self.plain_positions:
            inputs["position_ids"] = torch.arange(shape[1], device=device).expand(3, *shape)
        inputs["mm_token_type_ids"] = types.to(device)
        try:
            states = self.network(**inputs, use_cache=False).last_hidden_state
        except ValueError as error:
            # Placeholders and pictures do not match: a vector would be worth nothing.
            raise MedhebError(
                "model", f"cannot read its input ({error})", "Report it: an adapter is at fault"
            ) from error
        last = states[torch.arange(shape[0], device=device), (lengths - 1).to(device)]
        return unit(last)

    def _pictures(self, prepared: Sequence[Prepared]) -> dict[str, torch.Tensor]:
        found: dict[str, torch.Tensor] = {}
        for kind, name in (("image", "pixel_values"), ("video", "pixel_values_videos")):
            holders = [part.arrays for part in prepared if f"{kind}_patches" in part.arrays]
            if not holders:
                continue
            values = [self._normalised(arrays[f"{kind}_patches"]) for arrays in holders]
            found[name] = torch.cat(values).to(self.placement.dtype)
            grids = np.concatenate([arrays[f"{kind}_grids"] for arrays in holders])
            found[f"{kind}_grid_thw"] = torch.from_numpy(grids).to(self.placement.device)
        return found

    def _normalised(self, patches: Any) -> torch.Tensor:
        """uint8 [n, 3, t, p, p] to float [n, 3 * temporal * p * p]; a single frame fills its step."""
        values = torch.from_numpy(patches).to(self.placement.device).float() / 255.0
        values = (values - self._mean) / self._std
        if values.shape[2] < self.grid.temporal:
            values = values.repeat_interleave(self.grid.temporal, dim=2)
        return values.flatten(1)
