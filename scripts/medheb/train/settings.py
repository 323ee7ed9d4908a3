"""Settings that decide what is learned, as one digest; those that only decide how fast are left out."""

from __future__ import annotations

import math
import platform
from importlib.metadata import version

from medheb import __version__
from medheb.core.digests import json_digest
from medheb.manifest.medemb import MedEmb
from medheb.manifest.model import Model
from medheb.models.load import vector_settings

# What may change between two parts of one training.
FREE = {"bases", "sizes", "ranks", "nodes", "workers", "checkpoint_minutes", "gradient_checkpointing"}


LIBRARIES = ("torch", "transformers", "peft", "accelerate")


def versions() -> dict[str, str]:
    """Versions of all that a training computes with."""
    return {"medheb": __version__, "python": platform.python_version()} | {name: version(name) for name in LIBRARIES}


def settings_digest(options: MedEmb, model: Model) -> str:
    """Of all settings that decide what is learned."""
    return json_digest([options.model_dump(mode="json", exclude=FREE), vector_settings(model)])


def learning_rate(options: MedEmb, part: float) -> float:
    """Rate at a part of the epoch: up to the peak over ``warmup``, then down along half a cosine to zero."""
    if part < options.warmup:
        return options.learning_rate * part / options.warmup
    rest = (part - options.warmup) / (1 - options.warmup)
    return options.learning_rate * 0.5 * (1 + math.cos(math.pi * min(rest, 1.0)))
