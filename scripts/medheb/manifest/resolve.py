"""A model's entry as one run uses it: the protocol's switches and the user's own folder of weights laid over it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from medheb.core.errors import MedhebError
from medheb.manifest.model import Model
from medheb.manifest.networks import Blip2Adapter, NetworkAdapter, Qwen2VLAdapter, Qwen3VLAdapter
from medheb.manifest.protocol import Protocol
from medheb.manifest.weights import FolderWeights


def resolved(
    models: Mapping[str, Model], protocol: Protocol, folders: Mapping[str, str], where: Path
) -> dict[str, Model]:
    """All entries as a run uses them.

    Args:
        models: by id.
        protocol: of the run.
        folders: model id: the user's own folder of its weights.
        where: the list of models, named in errors.

    Raises:
        MedhebError: a folder for a model that is not there, or that has none.
    """
    for key in folders:
        if key not in models or not isinstance(models[key].adapter, NetworkAdapter):
            able = sorted(name for name, model in models.items() if isinstance(model.adapter, NetworkAdapter))
            known = f"Allowed: {', '.join(able)}" if able else f"{where} holds no model with a folder of weights"
            raise MedhebError("the configuration", f"key 'weights' names '{key}'", known)
    return {key: _with_folder(under_protocol(model, protocol), folders.get(key)) for key, model in models.items()}


def under_protocol(model: Model, protocol: Protocol) -> Model:
    """A model with the settings that the protocol gives it; a switch that is not set leaves its entry alone."""
    changes: dict[str, Any] = {}
    adapter = model.adapter
    if isinstance(adapter, Blip2Adapter) and protocol.blip2_frames is not None:
        changes["frames"] = protocol.blip2_frames
    if isinstance(adapter, Qwen2VLAdapter) and adapter.prompt == "rzen" and protocol.rzen_text == "dropped":
        changes["text_beside_images"] = False
    if isinstance(adapter, Qwen3VLAdapter) and protocol.qwen3_max_tokens is not None:
        changes["max_tokens"] = protocol.qwen3_max_tokens
    return model.model_copy(update={"adapter": adapter.model_copy(update=changes)}) if changes else model


def _with_folder(model: Model, folder: str | None) -> Model:
    if folder is None or not isinstance(model.adapter, NetworkAdapter):
        return model
    weights = FolderWeights(kind="folder", path=folder, licence=model.adapter.weights.licence)
    return model.model_copy(update={"adapter": model.adapter.model_copy(update={"weights": weights})})
