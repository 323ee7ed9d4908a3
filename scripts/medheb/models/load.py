"""From a model's manifest entry to its encoder, and the fingerprint that its vectors are stored under."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medheb.core.digests import json_digest
from medheb.core.errors import MedhebError
from medheb.core.layout import Layout
from medheb.index.records import Item
from medheb.manifest.model import ConstantAdapter, DualEncoderAdapter, Model, RandomAdapter
from medheb.models.base import Encoder, ImageRef, Rendered, Side, render_content
from medheb.models.bridge import read_bridge
from medheb.models.canaries import ConstantEncoder, RandomEncoder

if TYPE_CHECKING:  # torch takes seconds to import; canaries and fingerprints do without
    from medheb.models.towers import ImageEncoder, TextEncoder

# Raise an adapter's version when its vectors change on purpose: old vectors are then never used again.
ADAPTER_VERSIONS = {"dual_encoder": 1, "random": 1, "constant": 1}

Renderer = Callable[[Item, str, Side, Sequence[ImageRef]], Rendered]
RENDERERS: dict[str, Renderer] = dict.fromkeys(ADAPTER_VERSIONS, render_content)


def package_folder(layout: Layout, model: Model, package: str) -> Path:
    """Where the unpacked package of a model lies."""
    return layout.model_folder(model.id) / package


def fingerprint(model: Model, layout: Layout) -> str:
    """Digest of all that decides a vector besides the input: adapter, its version and settings, weights, bridge, dtype.

    Raises:
        MedhebError: the model needs a bridge that has not been fitted.
    """
    bridge = read_bridge(layout.bridge(model.id))[1] if model.bridge else None
    return json_digest([*vector_settings(model), bridge, "float32"])


def vector_settings(model: Model) -> list[Any]:
    """What of a model's manifest decides its vectors: not its licence, its host, or how its package is unpacked.

    Defaults are left out, so that an option added later changes no fingerprint. Batch size does not
    change a vector (see towers.py).
    """
    adapter = model.adapter.model_dump(mode="json", exclude_defaults=True, exclude={"batch_size"})
    return [model.id, ADAPTER_VERSIONS[model.adapter.name], _weights_by_digest(adapter)]


def _weights_by_digest(settings: dict[str, Any]) -> dict[str, Any]:
    reduced: dict[str, Any] = {}
    for key, value in settings.items():
        if key == "weights":
            reduced[key] = value["file"]["sha256"]
        else:
            reduced[key] = _weights_by_digest(value) if isinstance(value, dict) else value
    return reduced


def load_towers(model: Model, layout: Layout) -> tuple[ImageEncoder, TextEncoder]:
    """Image and text tower of a dual encoder (see :func:`load_encoder`)."""
    from medheb.models.towers import load_image_encoder, load_text_encoder

    adapter = model.adapter
    if not isinstance(adapter, DualEncoderAdapter):
        raise MedhebError(model.id, "is no dual encoder", "Only dual encoders have towers")
    images = load_image_encoder(
        adapter.image, package_folder(layout, model, adapter.image.weights.host.name), adapter.batch_size
    )
    texts = load_text_encoder(
        adapter.text, package_folder(layout, model, adapter.text.weights.host.name), adapter.batch_size
    )
    return images, texts


def load_encoder(model: Model, layout: Layout) -> Encoder:
    """The model, ready to encode.

    Raises:
        MedhebError: weights or bridge are missing or damaged.
    """
    adapter = model.adapter
    if isinstance(adapter, RandomAdapter):
        return RandomEncoder(adapter.dimension)
    if isinstance(adapter, ConstantAdapter):
        return ConstantEncoder(adapter.dimension)
    from medheb.models.dual_encoder import DualEncoder

    images, texts = load_towers(model, layout)
    return DualEncoder(images, texts, read_bridge(layout.bridge(model.id))[0])
