"""The halves of the demo's dual encoders, loaded from plain weight files.

Every tower pads its batches to a fixed size, and texts to fixed lengths, so that a vector does not
depend on what else was in the batch; a resumed run gives the same bits.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from math import isqrt
from pathlib import Path
from pickle import UnpicklingError  # the error that the restricted loader raises
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from medheb.core.batches import batched
from medheb.core.errors import MedhebError
from medheb.manifest.model import ImageTower, TextTower
from medheb.models.base import Vectors
from medheb.models.tower_inputs import tokenizer_of, weights_fault

HEAD_WIDTH = 64  # of every published DINOv2
TOKEN_STEP = 16  # texts are padded to the next multiple of this many tokens


class ImageEncoder(Protocol):
    """Image half: pixels to features (not normalised)."""

    def __call__(self, images: Iterable[NDArray[np.float32]]) -> Vectors:
        """float32 [3, size, size] each to float32 [n, d]."""
        ...


class TextEncoder(Protocol):
    """Text half: token ids to unit vectors."""

    def __call__(self, texts: Sequence[NDArray[np.int64]]) -> Vectors:
        """int64 [tokens] each to float32 [n, d]."""
        ...


class BatchedImageEncoder(ABC):
    """Runs a network over images in batches of one fixed size; the last batch is padded."""

    def __init__(self, network: torch.nn.Module, batch_size: int, device: str) -> None:
        self.network = network.eval().to(device)
        self.batch_size = batch_size
        self.device = device

    @abstractmethod
    def features(self, pixels: torch.Tensor) -> torch.Tensor:
        """[b, 3, size, size] to [b, d]."""

    @torch.inference_mode()
    def __call__(self, images: Iterable[NDArray[np.float32]]) -> Vectors:
        """float32 [3, size, size] each to float32 [n, d]."""
        rows: list[Vectors] = []
        for batch in batched(images, self.batch_size):
            pixels = torch.from_numpy(np.stack([*batch, *[batch[-1]] * (self.batch_size - len(batch))]))
            rows.append(self.features(pixels.to(self.device))[: len(batch)].cpu().numpy())
        return np.concatenate(rows).astype(np.float32)


class EfficientNetLite0(BatchedImageEncoder):
    """ImageNet EfficientNet-Lite0; mean over the last feature map, 1280 values."""

    def __init__(self, path: Path, batch_size: int, device: str) -> None:
        from efficientnet_lite_pytorch import EfficientNet

        network = EfficientNet.from_name("efficientnet-lite0")
        try:
            # weights_only: the file is a zip of tensors with a restricted unpickler, never code
            network.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
        except (OSError, EOFError, RuntimeError, ValueError, KeyError, UnpicklingError) as error:
            raise weights_fault(path, error) from error
        super().__init__(network, batch_size, device)

    def features(self, pixels: torch.Tensor) -> torch.Tensor:
        """[b, 3, 224, 224] to [b, 1280]."""
        maps: torch.Tensor = self.network.extract_features(pixels)  # type: ignore[operator]
        return maps.mean(dim=(2, 3))


def dinov2_state(path: Path) -> dict[str, torch.Tensor]:
    """Parameters of a transformers ``Dinov2Model`` read from an ONNX graph that holds one under ``backbone``.

    Exporters keep the names of biases and norms. Matrix weights lose theirs and hang, transposed, on
    MatMul nodes named after their layer; position embeddings are cut into class and patch part, which
    their shapes tell apart.

    Raises:
        MedhebError: not an ONNX file.
    """
    import onnx
    from google.protobuf.message import DecodeError
    from onnx import numpy_helper

    try:
        graph = onnx.load(path).graph
    except (OSError, DecodeError, ValueError) as error:
        raise weights_fault(path, error) from error
    tensors = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    state = {name.removeprefix("backbone."): tensor for name, tensor in tensors.items() if name.startswith("backbone.")}
    for node in graph.node:
        match = re.fullmatch(r"/backbone/(encoder/layer\.\d+/.+)/MatMul", node.name)
        if node.op_type == "MatMul" and match and node.input[1] in tensors:
            state[match[1].replace("/", ".") + ".weight"] = tensors[node.input[1]].T
    nameless = [tensor for name, tensor in tensors.items() if name.startswith("onnx::") and tensor.ndim == 3]
    if len(nameless) == 2:
        state["embeddings.position_embeddings"] = np.concatenate(sorted(nameless, key=lambda t: t.shape[1]), axis=1)
    width = state["embeddings.cls_token"].shape[-1] if "embeddings.cls_token" in state else 0
    state["embeddings.mask_token"] = np.zeros((1, width), dtype=np.float32)  # only used in pre-training
    return {name: torch.from_numpy(np.array(tensor)) for name, tensor in state.items()}


class DinoV2(BatchedImageEncoder):
    """DINOv2 backbone of any size; mean over patch tokens after the final norm (384 values for "small")."""

    def __init__(self, path: Path, batch_size: int, device: str) -> None:
        from transformers import Dinov2Config, Dinov2Model

        state = dinov2_state(path)
        try:
            width, _, patch, _ = state["embeddings.patch_embeddings.projection.weight"].shape
            positions = state["embeddings.position_embeddings"].shape[1] - 1
        except (KeyError, ValueError) as error:
            raise weights_fault(path, ValueError(f"holds no DINOv2 backbone, lacks {error}")) from error
        config = Dinov2Config(
            hidden_size=width,
            num_hidden_layers=len({name.split(".")[2] for name in state if name.startswith("encoder.layer.")}),
            num_attention_heads=max(1, width // HEAD_WIDTH),
            image_size=patch * isqrt(positions),
            patch_size=patch,
        )
        try:
            # from_pretrained renames the parameters of older exports; load_state_dict would not
            network, info = Dinov2Model.from_pretrained(None, config=config, state_dict=state, output_loading_info=True)
        except (RuntimeError, ValueError) as error:
            raise weights_fault(path, error) from error
        wrong = sorted(info["missing_keys"]) + sorted(info["unexpected_keys"]) + list(info["mismatched_keys"])
        if wrong:  # transformers would fill the gaps at random
            raise weights_fault(path, ValueError(f"{len(wrong)} parameters do not fit, the first is {wrong[0]}"))
        super().__init__(network, batch_size, device)

    def features(self, pixels: torch.Tensor) -> torch.Tensor:
        """[b, 3, 224, 224] to [b, 384]."""
        tokens: torch.Tensor = self.network(pixel_values=pixels).last_hidden_state
        return tokens[:, 1:].mean(dim=1)


class MeanPooledTransformer:
    """A sentence encoder: mean over tokens, L2-normalised."""

    def __init__(self, folder: Path, batch_size: int, device: str) -> None:
        from transformers import AutoModel
        from transformers.utils.logging import disable_progress_bar

        disable_progress_bar()

        self.padding = tokenizer_of(folder).pad_token_id
        try:
            self.network = (
                AutoModel.from_pretrained(folder, local_files_only=True, trust_remote_code=False, use_safetensors=True)
                .eval()
                .to(device)
            )
        except (OSError, ValueError, RuntimeError) as error:
            raise weights_fault(folder, error) from error
        self.batch_size = batch_size
        self.device = device

    @torch.inference_mode()
    def __call__(self, texts: Sequence[NDArray[np.int64]]) -> Vectors:
        """int64 [tokens] each to float32 [n, d], unit rows."""
        buckets: dict[int, list[int]] = {}
        for position, ids in enumerate(texts):
            buckets.setdefault(-(-len(ids) // TOKEN_STEP) * TOKEN_STEP, []).append(position)
        vectors: dict[int, Vectors] = {}
        for length, positions in sorted(buckets.items()):
            for batch in batched(positions, self.batch_size):
                padded = [*batch, *[batch[-1]] * (self.batch_size - len(batch))]
                padded_ids = torch.full((self.batch_size, length), self.padding, dtype=torch.long)
                mask = torch.zeros_like(padded_ids)
                for row, position in enumerate(padded):
                    count = len(texts[position])
                    padded_ids[row, :count] = torch.from_numpy(texts[position])
                    mask[row, :count] = 1
                mask = mask.to(self.device)
                hidden = self.network(input_ids=padded_ids.to(self.device), attention_mask=mask).last_hidden_state
                weight = mask[:, :, None].to(hidden.dtype)
                mean = (hidden * weight).sum(dim=1) / weight.sum(dim=1)
                unit = torch.nn.functional.normalize(mean, dim=1).cpu().numpy()
                vectors.update(zip(batch, unit[: len(batch)], strict=True))
        return np.stack([vectors[position] for position in range(len(texts))]).astype(np.float32)


def load_image_encoder(tower: ImageTower, folder: Path, batch_size: int, device: str = "cpu") -> BatchedImageEncoder:
    """The image half that ``tower`` describes, from the unpacked package in ``folder``.

    Raises:
        MedhebError: the weights are missing or do not fit.
    """
    path = _present(folder / tower.path)
    if tower.architecture == "efficientnet_lite0":
        return EfficientNetLite0(path, batch_size, device)
    return DinoV2(path, batch_size, device)


def load_text_encoder(tower: TextTower, folder: Path, batch_size: int, device: str = "cpu") -> MeanPooledTransformer:
    """The text half that ``tower`` describes, from the unpacked package in ``folder``.

    Raises:
        MedhebError: the weights are missing or do not fit.
    """
    return MeanPooledTransformer(_present(folder / tower.path), batch_size, device)


def _present(path: Path) -> Path:
    if not path.exists():
        raise MedhebError(path, "is missing", "Fetch the model again: delete its folder and run again")
    return path
