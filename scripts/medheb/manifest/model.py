"""An embedding model: one entry of ``models.yaml``."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from medheb.manifest.base import Identifier, RelativePath, Strict
from medheb.manifest.networks import (
    Blip2Adapter,
    MedImageInsightAdapter,
    NetworkAdapter,
    Qwen2VLAdapter,
    Qwen3VLAdapter,
    SentenceTransformersAdapter,
    SiglipAdapter,
)
from medheb.manifest.weights import FolderWeights, HubWeights, PackagedWeights


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


Adapter = Annotated[
    DualEncoderAdapter
    | RandomAdapter
    | ConstantAdapter
    | SiglipAdapter
    | Blip2Adapter
    | MedImageInsightAdapter
    | Qwen2VLAdapter
    | Qwen3VLAdapter
    | SentenceTransformersAdapter,
    Field(discriminator="name"),
]


class GpuSeconds(Strict):
    """Estimate for planning: nobody has measured it here."""

    per_1000: float = Field(gt=0, description="seconds of one data-centre GPU (H100 class) for 1000 units")
    unit: Literal["tokens", "images"]


class Facts(Strict):
    """What is known of a model besides how it is run. Null: nobody has seen it."""

    page: str | None = Field(default=None, pattern=r"^https://", description="where its authors describe it")
    citation: str = ""
    dimension: int | None = Field(default=None, ge=1, description="values of a vector")
    parameters: int | None = Field(default=None, ge=1)
    gpu_gigabytes: float | None = Field(default=None, gt=0, description="estimate: memory to run it in its dtype")
    gpu_seconds: GpuSeconds | None = None
    train_sources: tuple[Identifier, ...] = Field(
        default=(), description="sources of the benchmark that it was trained on: scores there are not zero-shot"
    )
    train_note: str = Field(default="", description="what is said of its training data, and by whom")


class Model(Strict):
    """One model of a run."""

    id: Identifier
    title: str = Field(min_length=3)
    canary: bool = Field(default=False, description="a check of the ranking, not a competitor")
    enabled: bool = Field(default=True, description="false: runs only where the configuration's `models` names it")
    note: str = ""
    facts: Facts = Facts()
    adapter: Adapter

    def weights(self) -> tuple[PackagedWeights, ...]:
        """All packages that this model needs."""
        if isinstance(self.adapter, DualEncoderAdapter):
            return (self.adapter.image.weights, self.adapter.text.weights)
        return ()

    def folders(self) -> dict[str, HubWeights | FolderWeights]:
        """The folders of weights that this model needs, by slot: ``base``, and ``lora`` where it has an adapter."""
        if not isinstance(self.adapter, NetworkAdapter):
            return {}
        lora = getattr(self.adapter, "lora", None)
        return {"base": self.adapter.weights} | ({"lora": lora} if lora else {})

    @property
    def bridge(self) -> Bridge | None:
        """The bridge to fit before embedding, if the model has one."""
        return self.adapter.bridge if isinstance(self.adapter, DualEncoderAdapter) else None


class ModelList(Strict):
    """Content of ``models.yaml``."""

    models: tuple[Model, ...] = Field(min_length=1)
