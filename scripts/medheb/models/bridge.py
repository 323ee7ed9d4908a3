"""The bridge of a dual encoder: one linear map from image features to text space, fitted by ridge regression.

The two towers were trained apart and share no space. Captioned images of the training sources (one
person in the demo) join them; everybody else is only ever tested.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from medheb.core.digests import sha256_bytes
from medheb.core.errors import MedhebError
from medheb.core.files import write_bytes
from medheb.models.base import Vectors

MIN_PAIRS = 20


@dataclass(frozen=True)
class FittedBridge:
    """Means of both training sides and the map between them.

    image_mean [d], text_mean [t], weight [d, t]; all float32.
    """

    image_mean: Vectors
    text_mean: Vectors
    weight: Vectors

    def centred_image(self, features: Vectors) -> Vectors:
        """Unit rows of image features minus the training mean, [n, d]."""
        return unit_rows(features - self.image_mean)

    def bridged_image(self, features: Vectors) -> Vectors:
        """Unit rows of image features mapped into text space, [n, t]."""
        return unit_rows(self.centred_image(features) @ self.weight)

    def centred_text(self, texts: Vectors) -> Vectors:
        """Unit rows of text vectors minus the mean of the training captions, [n, t]."""
        return unit_rows(texts - self.text_mean)


def unit_rows(vectors: NDArray[np.floating]) -> Vectors:
    """Rows scaled to length one; a zero row stays zero (the engine refuses it by name)."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    scaled: Vectors = (vectors / np.where(lengths > 0, lengths, 1.0)).astype(np.float32)
    return scaled


def fit_bridge(images: Vectors, texts: Vectors, ridge: float) -> FittedBridge:
    """Fit on pairs of image features [n, d] and unit text vectors [n, t].

    ``ridge`` is relative to the mean eigenvalue of the image covariance, so it means the same for
    every tower.

    Raises:
        ValueError: too few pairs, or not one text an image.
    """
    if len(images) != len(texts) or len(images) < MIN_PAIRS:
        raise ValueError(f"needs at least {MIN_PAIRS} pairs, has {len(images)} images and {len(texts)} texts")
    image_mean = images.mean(axis=0, dtype=np.float64)
    text_mean = texts.mean(axis=0, dtype=np.float64)
    x = unit_rows(images - image_mean).astype(np.float64)
    y = unit_rows(texts - text_mean).astype(np.float64)
    covariance = x.T @ x
    penalty = ridge * np.trace(covariance) / len(covariance)
    weight = np.linalg.solve(covariance + penalty * np.eye(len(covariance)), x.T @ y)
    return FittedBridge(image_mean.astype(np.float32), text_mean.astype(np.float32), weight.astype(np.float32))


def write_bridge(path: Path, bridge: FittedBridge) -> None:
    """Write a bridge atomically."""
    tensors = {"image_mean": bridge.image_mean, "text_mean": bridge.text_mean, "weight": bridge.weight}
    write_bytes(path, save(tensors))


def read_bridge(path: Path) -> tuple[FittedBridge, str]:
    """Read a bridge and the sha256 of its file.

    Raises:
        MedhebError: missing or damaged.
    """
    try:
        content = path.read_bytes()
        tensors = load(content)
        return FittedBridge(tensors["image_mean"], tensors["text_mean"], tensors["weight"]), sha256_bytes(content)
    except (FileNotFoundError, KeyError, SafetensorError) as error:
        raise MedhebError(path, f"is not a fitted bridge ({error})", "Delete it and run again") from error
