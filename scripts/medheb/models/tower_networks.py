"""The loaded networks of SigLIP and BLIP-2; how their inputs look is said in siglip.py and blip2.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from medheb.manifest.networks import Blip2Adapter, SiglipAdapter
from medheb.models.devices import place
from medheb.models.hub_weights import load_image_processor, load_network, load_tokenizer, unit
from medheb.models.tower_encoder import TowerEncoder


class SiglipEncoder(TowerEncoder):
    """SigLIP with its weights."""

    def __init__(self, settings: SiglipAdapter, folder: Path, device: str) -> None:
        from transformers import SiglipModel

        placement = place(settings.dtype, settings.attention, device)
        network: Any = load_network(SiglipModel, folder, placement)
        self.network = network
        processor = load_image_processor(folder)
        super().__init__(placement, processor.image_mean, processor.image_std, pad=0)
        # Both towers project to the width of the picture's tower.
        self.dimension = int(network.config.vision_config.hidden_size)

    def images(self, pixels: torch.Tensor) -> torch.Tensor:
        """[b, 3, side, side] to [b, dimension]."""
        return pooled(self.network.get_image_features(pixel_values=pixels))

    def texts(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """[b, max_tokens] to [b, dimension]; the mask is left out on purpose."""
        return pooled(self.network.get_text_features(input_ids=ids))


def pooled(output: Any) -> torch.Tensor:
    """Features of a tower: an object that holds them since transformers 5, a tensor before."""
    features: torch.Tensor = output if isinstance(output, torch.Tensor) else output.pooler_output
    return features


class Blip2Encoder(TowerEncoder):
    """BLIP-2 with its weights. The Q-Former stays in float32, and has no flash attention."""

    def __init__(self, settings: Blip2Adapter, folder: Path, device: str) -> None:
        from transformers import Blip2ForImageTextRetrieval

        placement = place(settings.dtype, settings.attention, device, flash=False)
        network: Any = load_network(Blip2ForImageTextRetrieval, folder, placement)
        self.network = network
        self.pooling = settings.pooling
        processor = load_image_processor(folder)
        pad = load_tokenizer(folder).pad_token_id or 0
        super().__init__(placement, processor.image_mean, processor.image_std, pad)
        self.dimension = int(network.config.image_text_hidden_size)

    def images(self, pixels: torch.Tensor) -> torch.Tensor:
        """[b, 3, side, side] to unit vectors [b, dimension]."""
        network = self.network
        states = network.vision_model(pixel_values=pixels).last_hidden_state
        queries = network.query_tokens.expand(len(pixels), -1, -1)
        asked = network.qformer(
            query_embeds=queries,
            encoder_hidden_states=states.to(queries.dtype),
            encoder_attention_mask=torch.ones(states.shape[:-1], dtype=torch.long, device=states.device),
        ).last_hidden_state
        each = unit(network.vision_projection(asked.to(network.vision_projection.weight.dtype)))
        return each[:, 0] if self.pooling == "first" else unit(each.mean(dim=1))

    def texts(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """[b, n] to unit vectors [b, dimension]."""
        network = self.network
        embedded = network.embeddings(input_ids=ids).to(network.query_tokens.dtype)
        states = network.qformer(query_embeds=embedded, query_length=0, attention_mask=mask).last_hidden_state
        return unit(network.text_projection(states[:, 0].to(network.text_projection.weight.dtype)))
