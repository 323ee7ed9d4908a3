"""The loaded network of MedImageInsight: layer sizes are read from the tensors, every tensor must find its place."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import nn

from medheb.core.errors import MedhebError
from medheb.manifest.networks import MedImageInsightAdapter
from medheb.models.devices import Placement, place
from medheb.models.hub_weights import load_fault, load_tokenizer, require_all_used, unit
from medheb.models.medimageinsight import tokenizer_folder, weights_file
from medheb.models.medimageinsight_text import TextTransformer
from medheb.models.tower_encoder import TowerEncoder

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
# Names of towers and projections in older files.
TOWERS = (
    (r"^visual\.", "image_encoder."),
    (r"^text\.", "lang_encoder."),
    (r"^vision_projection$", "image_projection"),
    (r"^text_projection$", "lang_projection"),
)
# From the published names of the picture's tower, older and newer ones, to those of transformers.
RENAMES = (
    (r"^conv_embeds\.", "convs."),
    (r"^main_blocks\.", "blocks."),
    (r"^(blocks\.\d+\.\d+)\.0\.", r"\1.spatial_block."),
    (r"^(blocks\.\d+\.\d+)\.1\.", r"\1.channel_block."),
    (r"\.cpe\.0\.proj\.", ".conv1."),
    (r"\.cpe\.1\.proj\.", ".conv2."),
    (r"\.spatial_block\.attn\.", ".spatial_block.window_attn."),
    (r"\.channel_block\.attn\.", ".channel_block.channel_attn."),
    (r"\.mlp\.", ".ffn."),
    (r"^(convs\.\d+)\.proj\.", r"\1.conv."),
    (r"\.(conv\d)\.fn\.dw\.", r".\1."),
    (r"\.(window_attn|channel_attn)\.norm\.", r".norm1."),
    (r"\.(window_attn|channel_attn)\.fn\.", r".\1."),
    (r"\.ffn\.norm\.", r".norm2."),
    (r"\.ffn\.fn\.net\.fc", r".ffn.fc"),
)


class MedImageInsightEncoder(TowerEncoder):
    """MedImageInsight with its weights."""

    def __init__(self, settings: MedImageInsightAdapter, folder: Path, device: str) -> None:
        placement = place(settings.dtype, settings.attention, device, flash=False)
        path = weights_file(folder)
        tensors = _tensors(path)
        try:
            self.vision = _vision(tensors, settings, placement, path)
            self.norm = _layer_norm(tensors)
            self.text = TextTransformer.of(tensors, settings.text_heads)
            self._projections = {name: tensors.pop(f"{name}_projection") for name in ("image", "lang")}
        except KeyError as error:
            raise MedhebError(
                path, f"lacks {error.args[0]}", "Put the model's own weights there; see docs/models.md"
            ) from None
        left = sorted(tensors.keys() - {"logit_scale"})
        require_all_used(path, {"missing_keys": [], "mismatched_keys": [], "unexpected_keys": left})
        for part in (self.vision, self.norm, self.text):
            part.to(placement.device, placement.dtype).eval().requires_grad_(False)
        self._projections = {
            name: values.to(placement.device, placement.dtype) for name, values in self._projections.items()
        }
        pad = load_tokenizer(tokenizer_folder(folder)).pad_token_id or 0
        super().__init__(placement, MEAN, STD, pad)
        self.dimension = int(self._projections["image"].shape[1])

    def images(self, pixels: torch.Tensor) -> torch.Tensor:
        """[b, 3, size, size] to unit vectors [b, dimension]: mean over positions, norm, projection."""
        maps = self.vision(pixels).last_hidden_state
        return unit(self.norm(maps.flatten(2).mean(dim=2)) @ self._projections["image"])

    def texts(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """[b, n] to unit vectors [b, dimension]."""
        return unit(self.text(ids, mask) @ self._projections["lang"])


def _tensors(path: Path) -> dict[str, torch.Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return {_renamed(name, TOWERS): values for name, values in load_file(path).items()}
    except (OSError, SafetensorError) as error:
        raise load_fault(path, error) from error


def _renamed(name: str, rules: Sequence[tuple[str, str]]) -> str:
    for old, new in rules:
        name = re.sub(old, new, name)
    return name


def _vision(
    tensors: dict[str, torch.Tensor], settings: MedImageInsightAdapter, placement: Placement, path: Path
) -> nn.Module:
    from transformers import Florence2VisionConfig
    from transformers.models.florence2.modeling_florence2 import Florence2VisionBackbone

    state: dict[str, torch.Tensor] = {}
    for name in [
        name for name in tensors if re.match(r"image_encoder\.(convs|blocks|conv_embeds|main_blocks)\.", name)
    ]:
        state[_renamed(name.removeprefix("image_encoder."), RENAMES)] = tensors.pop(name)
    stages = len({name.split(".")[1] for name in state if name.startswith("convs.")})
    widths = [state[f"convs.{stage}.conv.weight"].shape[0] for stage in range(stages)]
    depths = [
        len({name.split(".")[2] for name in state if name.startswith(f"blocks.{stage}.")}) for stage in range(stages)
    ]
    heads = [max(1, width // settings.head_width) for width in widths]
    config = Florence2VisionConfig(
        embed_dim=widths, depths=depths, num_heads=heads, num_groups=heads, window_size=settings.window
    )
    config._attn_implementation = placement.attention
    network: nn.Module = Florence2VisionBackbone(config)
    try:
        found = network.load_state_dict(state, strict=False)
    except RuntimeError as error:
        raise load_fault(path, error) from error
    require_all_used(
        path, {"missing_keys": found.missing_keys, "mismatched_keys": [], "unexpected_keys": found.unexpected_keys}
    )
    return network


def _layer_norm(tensors: dict[str, torch.Tensor]) -> nn.LayerNorm:
    weight = tensors.pop("image_encoder.norms.weight")
    norm = nn.LayerNorm(len(weight))
    norm.load_state_dict({"weight": weight, "bias": tensors.pop("image_encoder.norms.bias")})
    return norm
