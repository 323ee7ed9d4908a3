"""Adapters of a network (LoRA, DoRA): every tensor finds its place and changes the output, or loading fails.

The libraries only warn: adapters saved before transformers 4.52 name layers differently, load without a match, and
leave the base model to be scored under the adapter's name. Here each tensor is placed by its layer's name, none may be
left over or missing, and the output must differ from the base's.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import torch
from torch import nn

from medheb.core.errors import MedhebError
from medheb.models.hub_weights import load_fault, read_settings, refused_pickle, require_head

WEIGHTS = "adapter_model.safetensors"
SETTINGS = "adapter_config.json"
PREFIX = "base_model.model."
PARTS = (".lora_A", ".lora_B", ".lora_magnitude_vector", ".lora_embedding_A", ".lora_embedding_B")
REMEDY = "Choose the base model that it was trained on; a merged checkpoint needs no adapter"
SAVE_AGAIN = "Save or convert the whole adapter again"
STACK_NUMBER = re.compile(r"(?<=\.)\d+(?=\.)")
PROBE = tuple(range(1, 9))  # token ids of a short text, in any vocabulary


def with_adapter(network: nn.Module, folder: Path) -> nn.Module:
    """The network with an adapter merged into its weights.

    Raises:
        MedhebError: no safetensors, a tensor without a place, a place without a tensor, or an adapter that changes
            nothing.
    """
    tensors = _placed(network, _read(folder), folder / WEIGHTS)
    before = _probe(network)
    merged = _merged(network, folder, tensors)
    if float((_probe(merged) - before).abs().max()) == 0.0:
        raise MedhebError(folder / WEIGHTS, "changes nothing: the output is that of the base model", REMEDY)
    return merged


def _read(folder: Path) -> dict[str, torch.Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    path = folder / WEIGHTS
    if not path.is_file():
        for pickle in (folder / "adapter_model.bin", folder / "adapter_model.pt"):
            if pickle.is_file():
                raise refused_pickle(pickle)
        raise MedhebError(path, "is missing", "Put the adapter's weights there as safetensors; see docs/models.md")
    require_head(path)
    try:
        tensors: dict[str, torch.Tensor] = load_file(path)
        return tensors
    except (OSError, SafetensorError) as error:
        raise load_fault(path, error) from error


def _placed(network: nn.Module, tensors: dict[str, torch.Tensor], path: Path) -> dict[str, torch.Tensor]:
    """The tensors under the names that the network's layers have now."""
    layers = {name for name, _ in network.named_modules()}
    placed: dict[str, torch.Tensor] = {}
    lost: list[str] = []
    for name, values in tensors.items():
        layer, part = _split(name)
        found = next((option for option in _options(layer) if option in layers), None)
        place = f"{PREFIX}{found}{part}"
        if found is None or not part:
            lost.append(name)
        elif place in placed:
            raise MedhebError(path, f"does not fit: two tensors have the same place, the second is {name}", SAVE_AGAIN)
        else:
            placed[place] = values
    if lost or not placed:
        what = f"{len(lost)} of {len(tensors)} tensors have no place in the base model"
        raise MedhebError(path, f"does not fit: {what}, the first is {lost[0]}" if lost else "holds no tensors", REMEDY)
    return placed


def _split(name: str) -> tuple[str, str]:
    for part in PARTS:
        at = name.find(part)
        if at > 0:
            return name[:at], name[at:]
    return name, ""


def _options(layer: str) -> list[str]:
    """Names that a layer may have now: as it is, without outer names, or below the language model."""
    bare = layer.removeprefix(PREFIX).removeprefix("model.")
    options = [layer.removeprefix(PREFIX), bare, bare.removeprefix("model.")]
    for tower in ("visual.", "language_model."):
        if tower in bare:
            options.append(bare[bare.index(tower) :])
    if "visual." not in bare and "layers." in bare:
        options.append("language_model." + bare[bare.index("layers.") :])
    return options


def _merged(network: nn.Module, folder: Path, tensors: dict[str, torch.Tensor]) -> nn.Module:
    from peft import PeftConfig, get_peft_model, set_peft_model_state_dict

    read_settings(folder / SETTINGS)
    try:
        settings: Any = PeftConfig.from_pretrained(str(folder))
        _refuse_bare_layers(network, folder, settings, tensors)
        targets = sorted({_split(name.removeprefix(PREFIX))[0] for name in tensors})
        _refuse_lost_patterns(folder, settings, targets)
        settings.target_modules = targets
        settings.exclude_modules = None
        settings.inference_mode = True
        wrapped: Any = get_peft_model(network, settings)
        result: Any = set_peft_model_state_dict(wrapped, tensors)
    except (ValueError, TypeError, RuntimeError, KeyError) as error:
        raise load_fault(folder, error) from error
    missing = sorted(name for name in result.missing_keys if any(part in f".{name}" for part in PARTS))
    for names, what in (
        (missing, "parts of the adapter have no weights"),
        (result.unexpected_keys, "weights have no place"),
    ):
        if names:
            raise MedhebError(folder / WEIGHTS, f"does not fit: {len(names)} {what}, the first is {names[0]}", REMEDY)
    merged: nn.Module = wrapped.merge_and_unload()
    return merged.eval().requires_grad_(False)


def _refuse_bare_layers(network: nn.Module, folder: Path, settings: Any, tensors: dict[str, torch.Tensor]) -> None:
    """Where the settings name kinds of layers (``q_proj``), each layer of a stack has tensors, or the file lost some.

    Patterns and single layers cannot be judged: old ones have names that the network no longer has.

    Raises:
        MedhebError: a layer without tensors.
    """
    kinds = getattr(settings, "target_modules", None)
    chosen = [getattr(settings, name, None) for name in ("layers_to_transform", "layers_pattern", "exclude_modules")]
    if not kinds or isinstance(kinds, str) or any(value is not None for value in chosen):
        return
    having = {_split(name.removeprefix(PREFIX))[0] for name in tensors}
    stacks = {STACK_NUMBER.sub("#", name) for name in having if name.rpartition(".")[2] in kinds}
    bare = sorted(
        name for name, _ in network.named_modules() if name not in having and STACK_NUMBER.sub("#", name) in stacks
    )
    if bare:
        fault = f"does not fit: {len(bare)} layers that its settings name have no tensors, the first is {bare[0]}"
        raise MedhebError(folder / WEIGHTS, fault, SAVE_AGAIN)


def _refuse_lost_patterns(folder: Path, settings: Any, targets: list[str]) -> None:
    """Ranks and scales for some layers must find one each: the library ignores the others and scales them as the rest.

    Raises:
        MedhebError: a pattern that no layer of the adapter matches, such as one with an old layer name.
    """
    for kind in ("rank_pattern", "alpha_pattern"):
        for pattern in getattr(settings, kind, None) or {}:
            # as peft matches them
            if not any(re.match(rf"(.*\.)?({pattern})$", target) for target in targets):
                fault = f"has a {kind} for {pattern}, which is no layer of the adapter"
                raise MedhebError(folder / SETTINGS, fault, "Name the layer as the base model does now")


@torch.inference_mode()
def _probe(network: Any) -> torch.Tensor:
    device = next(network.parameters()).device
    ids = torch.tensor([PROBE], device=device)
    states: torch.Tensor = network(
        input_ids=ids, attention_mask=torch.ones_like(ids), use_cache=False
    ).last_hidden_state
    return states.float()
