"""Tiny checkpoints with the shapes of the real ones, made on the spot."""

from __future__ import annotations

from pathlib import Path

import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from transformers import BertConfig, BertModel, BertTokenizer, Dinov2Config, Dinov2Model

from medheb.manifest.dataset import Licence, SourceFile, Unpack
from medheb.manifest.hosts import PackageHost
from medheb.manifest.model import ImageTower, TextTower
from medheb.manifest.weights import PackagedWeights

WEIGHTS = PackagedWeights(
    host=PackageHost(kind="package", name="tiny", version="1", format="wheel"),
    file=SourceFile(path="tiny.whl", bytes=1, sha256="0" * 64, digest_source="made by the tests"),
    unpack=Unpack(include=("*",)),
    licence=Licence(spdx="Apache-2.0", url="https://example.org"),
)
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "left", "right", "kidney", "liver", "of", "the", "a", "b", "c", "d"]
# An exporter of the time wrote these names; transformers has renamed them since.
OLD_NAMES = {
    "attention.q_proj": "attention.attention.query",
    "attention.k_proj": "attention.attention.key",
    "attention.v_proj": "attention.attention.value",
    "attention.o_proj": "attention.output.dense",
}


def image_tower(architecture: str, path: str, size: int) -> ImageTower:
    return ImageTower.model_validate(
        {
            "architecture": architecture,
            "weights": WEIGHTS,
            "path": path,
            "size": size,
            "mean": (0.5, 0.5, 0.5),
            "std": (0.25, 0.25, 0.25),
        }
    )


def text_tower(path: str, max_tokens: int = 40) -> TextTower:
    return TextTower(architecture="mean_pooled_transformer", weights=WEIGHTS, path=path, max_tokens=max_tokens)


def tiny_dinov2() -> Dinov2Model:
    torch.manual_seed(0)
    config = Dinov2Config(
        hidden_size=64, num_hidden_layers=2, num_attention_heads=1, image_size=56, patch_size=14, layerscale_value=0.5
    )
    model = Dinov2Model(config)
    torch.nn.init.normal_(model.embeddings.position_embeddings)
    return model.eval()


def write_onnx_like_an_exporter(model: Dinov2Model, path: Path, leave_out: str = "") -> None:
    """Initializers and MatMul nodes named the way a torch exporter names them."""
    initializers, nodes = [], []
    for name, tensor in model.state_dict().items():
        for new, old in OLD_NAMES.items():
            name = name.replace(new, old)
        array = tensor.numpy()
        if name == "embeddings.mask_token" or (leave_out and leave_out in name):
            continue
        if name == "embeddings.position_embeddings":
            initializers += [
                numpy_helper.from_array(array[:, :1].copy(), "onnx::Concat_1"),
                numpy_helper.from_array(array[:, 1:].copy(), "onnx::Reshape_2"),
            ]
        elif name.startswith("encoder.") and name.endswith(".weight") and array.ndim == 2:
            hidden = f"onnx::MatMul_{len(initializers) + 10}"
            initializers.append(numpy_helper.from_array(array.T.copy(), hidden))
            layer = name.removesuffix(".weight").replace(".", "/").replace("layer/", "layer.")
            nodes.append(helper.make_node("MatMul", ["x", hidden], [f"y{hidden}"], name=f"/backbone/{layer}/MatMul"))
        else:
            initializers.append(numpy_helper.from_array(array, f"backbone.{name}"))
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])
    onnx.save(helper.make_model(helper.make_graph(nodes, "tiny", [value], [value], initializers)), path)


def write_tiny_bert(folder: Path) -> BertModel:
    torch.manual_seed(0)
    folder.mkdir()
    (folder / "vocab.txt").write_text("\n".join(WORDS))
    BertTokenizer(str(folder / "vocab.txt")).save_pretrained(folder)
    config = BertConfig(
        vocab_size=len(WORDS), hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32
    )
    model = BertModel(config).eval()
    model.save_pretrained(folder)
    return model
