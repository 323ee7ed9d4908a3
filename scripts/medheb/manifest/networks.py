"""Settings of the adapters of real networks. What a default means for a vector stands in docs/models.md."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from medheb.manifest.base import Strict
from medheb.manifest.weights import FolderWeights, HubWeights

DataType = Literal["auto", "float32", "bfloat16"]
NumberFormat = Literal["float32", "bfloat16"]
Attention = Literal["auto", "sdpa", "flash_attention_2", "eager"]


def _rising(pixels: tuple[int, int]) -> tuple[int, int]:
    if not 0 < pixels[0] <= pixels[1]:
        raise ValueError("least and most pixels, rising")
    return pixels


Pixels = Annotated[tuple[int, int], AfterValidator(_rising)]


def number_format(dtype: DataType, device: str) -> NumberFormat:
    """The number format of a network on a device (``cpu``, ``cuda:0``): auto is bfloat16 on a GPU, float32 on a CPU."""
    if dtype != "auto":
        return dtype
    return "float32" if device.startswith("cpu") else "bfloat16"


class NetworkAdapter(Strict):
    """What all networks share."""

    weights: HubWeights | FolderWeights = Field(discriminator="kind")
    frames: int = Field(default=64, ge=1, description="slices of a volume or pictures of a list, evenly spaced")
    dtype: DataType = Field(default="auto", description="auto: bfloat16 on a GPU, float32 on a CPU")
    attention: Attention = Field(
        default="auto", description="auto: flash attention where it is installed and fits, else sdpa"
    )


class TowerAdapter(NetworkAdapter):
    """Two towers in one space: pictures, text and instruction are embedded apart and averaged (paper, section 5.1)."""

    dtype: DataType = "float32"
    instruction: Literal["field", "none"] = Field(
        default="field", description="field: a query's instruction is a text of its own in the mean; none: left out"
    )
    unit_fields: bool = Field(
        description="true: each field is scaled to length one before the mean, so that each weighs the same"
    )
    max_tokens: int = Field(ge=8, description="tokens of a text; more are cut off at its end and counted")


class SiglipAdapter(TowerAdapter):
    """SigLIP and MedSigLIP."""

    name: Literal["siglip"]
    unit_fields: bool = False
    max_tokens: int = Field(default=64, ge=8)
    resize: Literal["processor", "bilinear"] = Field(
        default="processor",
        description="processor: as the checkpoint says (bicubic, antialiased); bilinear: without antialiasing",
    )


class Blip2Adapter(TowerAdapter):
    """BLIP-2 with its contrastive heads; the matching head scores pairs and is not used."""

    name: Literal["blip2_itc"]
    unit_fields: bool = True
    max_tokens: int = Field(default=64, ge=8)
    pooling: Literal["mean", "first"] = Field(
        default="mean", description="of the query tokens' unit vectors: their mean, or the first"
    )


class MedImageInsightAdapter(TowerAdapter):
    """MedImageInsight: a DaViT and a text transformer of its own."""

    name: Literal["medimageinsight"]
    unit_fields: bool = True
    max_tokens: int = Field(default=77, ge=8)
    size: int = Field(default=480, ge=32, description="side of the square network input in pixels, aspect not kept")
    window: int = Field(default=12, ge=2, description="side of an attention window; no weight tells it")
    head_width: int = Field(default=32, ge=1, description="of the picture's attention heads; no weight tells it")
    text_heads: int = Field(default=16, ge=1)
    percentiles: tuple[float, float] | None = Field(
        default=None, description="grey values between these percentiles are stretched to the full range first"
    )


class DecoderAdapter(NetworkAdapter):
    """One stream of tokens through a decoder; the last token's state is the vector."""

    lora: HubWeights | FolderWeights | None = Field(
        default=None, discriminator="kind", description="LoRA or DoRA adapter, merged into the weights at loading"
    )
    max_tokens: int = Field(ge=64, description="of a whole input; only text is ever cut to fit, and counted")
    default_instruction: str = Field(default="", description="where there is none, so always for candidates")


class Qwen2VLAdapter(DecoderAdapter):
    """Models on Qwen2-VL."""

    name: Literal["qwen2vl"]
    prompt: Literal["vlm2vec", "rzen"]
    max_tokens: int = Field(default=16384, ge=64)
    image_pixels: Pixels = Field(default=(3136, 1_003_520), description="least and most pixels of a picture")
    frame_pixels: Pixels = Field(default=(3136, 151_200), description="the same for a slice of a volume")
    volumes: Literal["video", "pictures"] = Field(
        default="video", description="video: slices in pairs as the network's frames; pictures: each by itself"
    )
    vision_markers: bool = Field(default=True, description="start and end token around a picture")
    positions: Literal["mrope", "plain"] = Field(
        default="mrope", description="mrope: rows and columns of a picture have positions; plain: tokens are counted"
    )
    text_beside_images: bool = Field(
        default=True, description="false: the text of an input with pictures is not shown to the model"
    )


class Qwen3VLAdapter(DecoderAdapter):
    """Qwen3-VL-Embedding and what was trained from it."""

    name: Literal["qwen3vl"]
    max_tokens: int = Field(default=8192, ge=64)
    default_instruction: str = "Represent the user's input."
    image_pixels: Pixels = Field(default=(4096, 1_843_200), description="least and most pixels of a picture")
    volume_pixels: int = Field(default=7_864_320, ge=131_072, description="most pixels of all slices together")
    frames_per_second: float = Field(default=2.0, gt=0, description="decides the time marks between slices")


class SentenceTransformersAdapter(NetworkAdapter):
    """Any model of the library sentence-transformers. The instruction is put before the text as its prompt."""

    name: Literal["sentence_transformers"]
    dtype: DataType = "float32"
    max_tokens: int | None = Field(default=None, ge=8, description="null: as the model says")
    inputs: Literal["text", "text_or_images"] = Field(
        default="text", description="text: a task with pictures is refused; text_or_images: fields are averaged"
    )
    instruction: Literal["prompt", "none"] = "prompt"
