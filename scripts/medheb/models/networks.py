"""The real networks by adapter name: their adapter, their encoder, and the digest of their weights."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from medheb.core.errors import MedhebError
from medheb.core.layout import Layout
from medheb.fetch.found_weights import found_folder
from medheb.manifest.model import Model
from medheb.manifest.networks import (
    Blip2Adapter,
    MedImageInsightAdapter,
    NetworkAdapter,
    Qwen2VLAdapter,
    Qwen3VLAdapter,
    SentenceTransformersAdapter,
    SiglipAdapter,
)
from medheb.models.base import Adapter, Encoder
from medheb.models.blip2 import Blip2
from medheb.models.hub_weights import require_safetensors
from medheb.models.medimageinsight import MedImageInsight
from medheb.models.qwen2vl import Qwen2VL
from medheb.models.qwen3vl import Qwen3VL
from medheb.models.sentence_transformer import SentenceTransformerInputs
from medheb.models.siglip import Siglip

# Raise a version when vectors change on purpose: old vectors are then never used again.
VERSIONS = {
    "siglip": 1,
    "blip2_itc": 1,
    "medimageinsight": 1,
    "qwen2vl": 1,
    "qwen3vl": 1,
    "sentence_transformers": 1,
}
ADAPTERS: dict[type[NetworkAdapter], Callable[[Any, Callable[[], Path]], Adapter]] = {
    SiglipAdapter: Siglip,
    Blip2Adapter: Blip2,
    MedImageInsightAdapter: MedImageInsight,
    Qwen2VLAdapter: Qwen2VL,
    Qwen3VLAdapter: Qwen3VL,
    SentenceTransformersAdapter: SentenceTransformerInputs,
}


def settings_of(model: Model) -> NetworkAdapter:
    """The settings of a real network.

    Raises:
        MedhebError: the model is none.
    """
    if not isinstance(model.adapter, NetworkAdapter):
        raise MedhebError(f"model {model.id}", "is no network with a folder of weights", "Use its own adapter")
    return model.adapter


def folder_of(model: Model, layout: Layout, slot: str = "base") -> Path:
    """A folder of weights, as it was recorded when the model was fetched."""
    return Path(found_folder(layout, model.id, slot).folder)


def weights_digest(model: Model, layout: Layout) -> dict[str, str]:
    """Digests of a model's folders of weights by slot."""
    return {slot: found_folder(layout, model.id, slot).digest for slot in model.folders()}


def network_adapter(model: Model, layout: Layout) -> Adapter:
    """The adapter of a real network. Its folder is read at the first use, so that planning needs no weights."""
    settings = settings_of(model)
    return ADAPTERS[type(settings)](settings, partial(_processing_of, model, layout))


def _processing_of(model: Model, layout: Layout) -> Path:
    lora = folder_of(model, layout, "lora") if "lora" in model.folders() else None
    return processing_folder(folder_of(model, layout), lora)


def network_encoder(model: Model, layout: Layout, device: str) -> Encoder:
    """A real network with its weights on a device.

    Raises:
        MedhebError: weights that are missing, damaged or of another architecture.
    """
    lora = folder_of(model, layout, "lora") if "lora" in model.folders() else None
    return open_network(settings_of(model), folder_of(model, layout), lora, device)


def open_adapter(settings: NetworkAdapter, base: Path, lora: Path | None = None) -> Adapter:
    """The adapter of a checkpoint in a folder; the tokenizer that lies with a LoRA adapter is preferred."""
    return ADAPTERS[type(settings)](settings, partial(processing_folder, base, lora))


def open_network(settings: NetworkAdapter, base: Path, lora: Path | None, device: str) -> Encoder:
    """The network of a checkpoint in a folder, with the weights on a device.

    Raises:
        MedhebError: weights that are missing, damaged or of another architecture.
    """
    if isinstance(settings, SiglipAdapter):
        from medheb.models.tower_networks import SiglipEncoder

        return SiglipEncoder(settings, base, device)
    if isinstance(settings, Blip2Adapter):
        from medheb.models.tower_networks import Blip2Encoder

        return Blip2Encoder(settings, base, device)
    if isinstance(settings, MedImageInsightAdapter):
        from medheb.models.medimageinsight_network import MedImageInsightEncoder

        return MedImageInsightEncoder(settings, base, device)
    if isinstance(settings, SentenceTransformersAdapter):
        from medheb.models.sentence_transformer import SentenceTransformerEncoder

        return SentenceTransformerEncoder(settings, base, device)
    return _decoder(settings, base, lora, device)


def _decoder(settings: NetworkAdapter, base: Path, lora: Path | None, device: str) -> Encoder:
    from transformers import Qwen2VLModel, Qwen3VLModel

    from medheb.models.decoder import DecoderEncoder

    require_safetensors(base)
    where = partial(processing_folder, base, lora)
    inputs: Qwen2VL | Qwen3VL
    if isinstance(settings, Qwen2VLAdapter):
        inputs, network = Qwen2VL(settings, where), Qwen2VLModel
    elif isinstance(settings, Qwen3VLAdapter):
        inputs, network = Qwen3VL(settings, where), Qwen3VLModel
    else:
        raise MedhebError(f"adapter {type(settings).__name__}", "has no network", "Use one of models.yaml's adapters")
    pad = inputs.tokenizer.pad_token_id or 0
    return DecoderEncoder(network, inputs.settings, base, lora, inputs.grid, pad, device)


def processing_folder(base: Path, lora: Path | None) -> Path:
    """Where tokenizer and image processor lie: with the adapter where that brings its own, else with the base."""
    if (
        lora is not None
        and (lora / "tokenizer_config.json").is_file()
        and (lora / "preprocessor_config.json").is_file()
    ):
        return lora
    return base
