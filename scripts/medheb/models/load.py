"""From a model's manifest entry to its adapter, its encoder, and the fingerprint that its vectors are stored under."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medheb.core.digests import json_digest
from medheb.core.errors import MedhebError
from medheb.core.layout import Layout
from medheb.manifest.model import ConstantAdapter, DualEncoderAdapter, Model, RandomAdapter
from medheb.manifest.networks import NetworkAdapter, number_format
from medheb.models.base import Adapter, Encoder
from medheb.models.bridge import read_bridge
from medheb.models.canaries import CanaryAdapter, ConstantEncoder, RandomEncoder
from medheb.models.networks import VERSIONS, network_adapter, network_encoder, weights_digest

if TYPE_CHECKING:  # torch takes seconds to import; canaries and fingerprints do without
    from medheb.models import dual_encoder
    from medheb.models.towers import ImageEncoder, TextEncoder

FLOAT32, BFLOAT16 = "float32", "bfloat16"


@dataclass(frozen=True)
class Kind:
    """How the models of one adapter name are made. Its functions import torch only when called.

    Args:
        version: raise it when vectors change on purpose; old vectors are then never used again.
        adapter: the adapter of an entry.
        encoder: the encoder of an entry on a device (``cpu``, ``cuda:0``).
        gpu_dtype: number format of the network on a GPU; on a CPU it is always float32.
        on_device: whether it has a network that runs on a GPU where there is one.
        weights: digest of what decides vectors and does not stand in the manifest: files found or fitted on this
            machine.
    """

    version: int
    adapter: Callable[[Model, Layout], Adapter]
    encoder: Callable[[Model, Layout, str], Encoder]
    gpu_dtype: str = FLOAT32
    on_device: bool = True
    weights: Callable[[Model, Layout], Any] | None = None


def package_folder(layout: Layout, model: Model, package: str) -> Path:
    """Where the unpacked package of a model lies."""
    return layout.model_folder(model.id) / package


def dtype_on(model: Model, device: str) -> str:
    """Number format of a model's network on a device."""
    if isinstance(model.adapter, NetworkAdapter):
        return number_format(model.adapter.dtype, device)
    return KINDS[model.adapter.name].gpu_dtype if device.startswith("cuda") else FLOAT32


def uses_device(model: Model) -> bool:
    """Whether it matters on what a model runs."""
    return KINDS[model.adapter.name].on_device


def fingerprint(model: Model, layout: Layout, device: str = "cpu") -> str:
    """Digest of all that decides a vector besides the input: adapter, its version and settings, weights, dtype.

    Raises:
        MedhebError: weights or a bridge that the model needs are not there.
    """
    weights = KINDS[model.adapter.name].weights
    return json_digest([*vector_settings(model), weights(model, layout) if weights else None, dtype_on(model, device)])


def vector_settings(model: Model) -> list[Any]:
    """What of a model's manifest decides its vectors: not its licence, its host, or how its package is unpacked.

    Defaults are left out, so that an option added later changes no fingerprint. Batch size does not
    change a vector (see towers.py). Folders of weights count by what is in them, and the number format by the device
    (see :func:`fingerprint`); which attention computes a network changes its vectors by rounding only.
    """
    left_out = {"batch_size", "weights", "lora", "dtype", "attention"}
    adapter = model.adapter.model_dump(mode="json", exclude_defaults=True, exclude=left_out)
    return [model.id, KINDS[model.adapter.name].version, _weights_by_digest(adapter)]


def _weights_by_digest(settings: dict[str, Any]) -> dict[str, Any]:
    reduced: dict[str, Any] = {}
    for key, value in settings.items():
        if key == "weights":
            reduced[key] = value["file"]["sha256"]
        else:
            reduced[key] = _weights_by_digest(value) if isinstance(value, dict) else value
    return reduced


def load_adapter(model: Model, layout: Layout) -> Adapter:
    """The model without its weights."""
    return KINDS[model.adapter.name].adapter(model, layout)


def load_encoder(model: Model, layout: Layout, device: str = "cpu") -> Encoder:
    """The model with its weights on a device.

    Raises:
        MedhebError: weights or bridge are missing or damaged.
    """
    return KINDS[model.adapter.name].encoder(model, layout, device)


def _settings_of_towers(model: Model) -> DualEncoderAdapter:
    if not isinstance(model.adapter, DualEncoderAdapter):
        raise MedhebError(model.id, "is no dual encoder", "Only dual encoders have towers")
    return model.adapter


def load_towers(model: Model, layout: Layout, device: str = "cpu") -> tuple[ImageEncoder, TextEncoder]:
    """Image and text tower of a dual encoder (see :func:`load_encoder`)."""
    from medheb.models.towers import load_image_encoder, load_text_encoder

    settings = _settings_of_towers(model)
    image_folder = package_folder(layout, model, settings.image.weights.host.name)
    text_folder = package_folder(layout, model, settings.text.weights.host.name)
    images = load_image_encoder(settings.image, image_folder, settings.batch_size, device)
    return images, load_text_encoder(settings.text, text_folder, settings.batch_size, device)


def dual_adapter(model: Model, layout: Layout) -> dual_encoder.DualEncoderAdapter:
    """The adapter of a dual encoder."""
    from medheb.models import dual_encoder

    settings = _settings_of_towers(model)
    folder = package_folder(layout, model, settings.text.weights.host.name) / settings.text.path
    return dual_encoder.DualEncoderAdapter(settings.image, folder, settings.text.max_tokens)


def _dual_encoder(model: Model, layout: Layout, device: str) -> Encoder:
    from medheb.models.dual_encoder import DualEncoder

    images, texts = load_towers(model, layout, device)
    return DualEncoder(images, texts, read_bridge(layout.bridge(model.id))[0])


def _canary(model: Model, layout: Layout, device: str) -> Encoder:
    if isinstance(model.adapter, RandomAdapter):
        return RandomEncoder(model.adapter.dimension)
    if isinstance(model.adapter, ConstantAdapter):
        return ConstantEncoder(model.adapter.dimension)
    raise MedhebError(model.id, "is no canary", "Only canaries do without weights")


KINDS: dict[str, Kind] = {
    "dual_encoder": Kind(
        version=2,
        adapter=dual_adapter,
        encoder=_dual_encoder,
        weights=lambda model, layout: read_bridge(layout.bridge(model.id))[1],
    ),
    "random": Kind(2, lambda *_: CanaryAdapter(), _canary, on_device=False),
    "constant": Kind(1, lambda *_: CanaryAdapter(), _canary, on_device=False),
    **{
        name: Kind(version, network_adapter, network_encoder, weights=weights_digest)
        for name, version in VERSIONS.items()
    },
}
