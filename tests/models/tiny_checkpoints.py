"""Tiny checkpoints of the five architectures, built in a moment: random weights, real classes, real file formats."""

from __future__ import annotations

import json
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from PIL import Image
from safetensors.torch import save_file

if TYPE_CHECKING:
    from transformers import Qwen3VLConfig, Qwen3VLModel

WORDS = (
    "chest x-ray with a small left pleural effusion and no pneumothorax represent the given image question what "
    "organ is shown in this slice liver kidney spleen brain tumor normal find a report that matches user input cat two"
)
QWEN_SPECIALS = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
)
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n"
    "{% for part in message.content %}"
    "{% if part.type == 'image' %}<|vision_start|><|image_pad|><|vision_end|>"
    "{% elif part.type == 'video' %}<|vision_start|><|video_pad|><|vision_end|>"
    "{% else %}{{ part.text }}{% endif %}{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def write_json(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content), encoding="utf-8")


def spread(network: torch.nn.Module, scale: float = 0.3) -> torch.nn.Module:
    """Larger random weights: with those of a fresh network all inputs look alike."""
    torch.manual_seed(7)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(
                torch.randn_like(parameter) * (scale if parameter.ndim > 1 else 0.1) + (parameter.ndim == 1)
            )
    return network


def make_siglip(folder: Path) -> Path:
    import sentencepiece
    from transformers import SiglipConfig, SiglipModel, SiglipTokenizer

    trained = BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([WORDS] * 20),
        model_writer=trained,
        vocab_size=80,
        model_type="unigram",
        pad_id=0,
        eos_id=1,
        unk_id=2,
        bos_id=-1,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "spiece.model").write_bytes(trained.getvalue())
    SiglipTokenizer.from_pretrained(folder, vocab_file=str(folder / "spiece.model")).save_pretrained(folder)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = SiglipConfig(
        text_config={**sizes, "vocab_size": 100, "max_position_embeddings": 64, "projection_size": 32},
        vision_config={**sizes, "image_size": 32, "patch_size": 8},
    )
    spread(SiglipModel(config), 0.15).save_pretrained(folder)
    write_json(
        folder / "preprocessor_config.json",
        {
            "image_processor_type": "SiglipImageProcessor",
            "size": {"height": 32, "width": 32},
            "image_mean": [0.5] * 3,
            "image_std": [0.5] * 3,
            "resample": 3,
        },
    )
    return folder


def make_blip2(folder: Path) -> Path:
    from transformers import BertTokenizer, Blip2Config, Blip2ForImageTextRetrieval

    folder.mkdir(parents=True, exist_ok=True)
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *sorted(set(WORDS.split())), *"abcdefghijklmnopqrstuvwxyz-"]
    words = list(dict.fromkeys(pieces))
    (folder / "vocab.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
    BertTokenizer(vocab={word: number for number, word in enumerate(words)}).save_pretrained(folder)
    config = Blip2Config(
        vision_config={
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "image_size": 28,
            "patch_size": 7,
        },
        qformer_config={
            "vocab_size": len(words),
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "encoder_hidden_size": 32,
            "max_position_embeddings": 128,
            "use_qformer_text_input": True,
        },
        text_config={
            "model_type": "opt",
            "hidden_size": 16,
            "num_hidden_layers": 1,
            "num_attention_heads": 1,
            "ffn_dim": 16,
        },
        num_query_tokens=4,
        image_text_hidden_size=16,
        image_token_index=None,
    )
    spread(Blip2ForImageTextRetrieval(config)).save_pretrained(folder)
    write_json(
        folder / "preprocessor_config.json",
        {
            "image_processor_type": "BlipImageProcessor",
            "size": {"height": 28, "width": 28},
            "image_mean": [0.48145466, 0.4578275, 0.40821073],
            "image_std": [0.26862954, 0.26130258, 0.27577711],
        },
    )
    return folder


def qwen_tokenizer(folder: Path) -> int:
    """A byte-level tokenizer with the control words of Qwen; returns the size of its vocabulary."""
    from tokenizers.pre_tokenizers import ByteLevel
    from transformers import Qwen2Tokenizer

    folder.mkdir(parents=True, exist_ok=True)
    vocab = {letter: number for number, letter in enumerate(sorted(ByteLevel.alphabet()))}
    tokenizer = Qwen2Tokenizer(
        vocab=vocab, merges=[], pad_token="<|endoftext|>", extra_special_tokens=list(QWEN_SPECIALS)
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    tokenizer.save_pretrained(folder)
    return len(tokenizer)


def make_qwen2vl(folder: Path) -> Path:
    from transformers import Qwen2VLConfig, Qwen2VLModel

    size = qwen_tokenizer(folder)
    numbers = {word: size - len(QWEN_SPECIALS) + place for place, word in enumerate(QWEN_SPECIALS)}
    config = Qwen2VLConfig(
        text_config={
            "vocab_size": size,
            "hidden_size": 32,
            "intermediate_size": 48,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "num_key_value_heads": 2,
            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 3, 3]},
        },
        vision_config={
            "depth": 2,
            "embed_dim": 32,
            "hidden_size": 32,
            "num_heads": 2,
            "mlp_ratio": 2,
            "patch_size": 14,
        },
        image_token_id=numbers["<|image_pad|>"],
        video_token_id=numbers["<|video_pad|>"],
        vision_start_token_id=numbers["<|vision_start|>"],
        vision_end_token_id=numbers["<|vision_end|>"],
    )
    spread(Qwen2VLModel(config)).save_pretrained(folder)
    write_json(
        folder / "preprocessor_config.json",
        {
            "image_processor_type": "Qwen2VLImageProcessor",
            "image_mean": [0.48145466, 0.4578275, 0.40821073],
            "image_std": [0.26862954, 0.26130258, 0.27577711],
            "patch_size": 14,
            "merge_size": 2,
            "temporal_patch_size": 2,
        },
    )
    return folder


def qwen3vl_config(size: int, width: int = 32, inner: int = 48) -> Qwen3VLConfig:
    """Of a small network, for a tokenizer of so many words that ends with those of Qwen."""
    from transformers import Qwen3VLConfig

    numbers = {word: size - len(QWEN_SPECIALS) + place for place, word in enumerate(QWEN_SPECIALS)}
    return Qwen3VLConfig(
        text_config={
            "vocab_size": size,
            "hidden_size": width,
            "intermediate_size": inner,
            "num_hidden_layers": 2,
            "num_attention_heads": width // 16,
            "num_key_value_heads": width // 16,
            "head_dim": 16,
            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [4, 2, 2]},
        },
        vision_config={
            "depth": 2,
            "hidden_size": 32,
            "intermediate_size": 48,
            "num_heads": 2,
            "out_hidden_size": width,
            "patch_size": 16,
            "num_position_embeddings": 64,
            "deepstack_visual_indexes": [0],
        },
        image_token_id=numbers["<|image_pad|>"],
        video_token_id=numbers["<|video_pad|>"],
        vision_start_token_id=numbers["<|vision_start|>"],
        vision_end_token_id=numbers["<|vision_end|>"],
    )


def save_qwen3vl(folder: Path, network: Qwen3VLModel) -> Path:
    """Weights, and how pictures are prepared."""
    network.save_pretrained(folder)
    write_json(
        folder / "preprocessor_config.json",
        {
            "image_processor_type": "Qwen2VLImageProcessorFast",
            "image_mean": [0.5] * 3,
            "image_std": [0.5] * 3,
            "patch_size": 16,
            "merge_size": 2,
            "temporal_patch_size": 2,
        },
    )
    return folder


def make_qwen3vl(folder: Path) -> Path:
    from transformers import Qwen3VLModel

    return save_qwen3vl(folder, spread(Qwen3VLModel(qwen3vl_config(qwen_tokenizer(folder)))))


def make_medimageinsight(folder: Path) -> Path:
    """Weights under the published names: made from the network of transformers, whose names are turned back."""
    from transformers import CLIPTokenizer, Florence2VisionConfig
    from transformers.models.florence2.modeling_florence2 import Florence2VisionBackbone

    from medheb.models.medimageinsight_text import TextTransformer

    words = folder / "language_model" / "clip_tokenizer"
    words.mkdir(parents=True)
    letters = "abcdefghijklmnopqrstuvwxyz-"
    vocab = [*letters, *(f"{letter}</w>" for letter in letters), "<|startoftext|>", "<|endoftext|>"]
    CLIPTokenizer(vocab={word: number for number, word in enumerate(vocab)}, merges=[]).save_pretrained(words)
    write_json(words / "vocab.json", {word: number for number, word in enumerate(vocab)})
    config = Florence2VisionConfig(
        embed_dim=[8, 16], depths=[1, 1], num_heads=[2, 4], num_groups=[2, 4], window_size=4,
        patch_size=[7, 3], patch_stride=[4, 2], patch_padding=[3, 1], patch_prenorm=[False, True],
    )  # fmt: skip
    vision = spread(Florence2VisionBackbone(config)).state_dict()
    tensors = {f"image_encoder.{published_name(name)}": values for name, values in vision.items()}
    tensors |= {"image_encoder.norms.weight": torch.ones(16), "image_encoder.norms.bias": torch.zeros(16)}
    text = spread(TextTransformer(len(vocab), 77, 16, 2, 2)).state_dict()
    tensors |= {f"lang_encoder.{name}": values for name, values in text.items()}
    tensors |= {"image_projection": torch.randn(16, 12), "lang_projection": torch.randn(16, 12)}
    tensors["logit_scale"] = torch.ones(())
    (folder / "vision_model").mkdir()
    save_file({name: values.contiguous() for name, values in tensors.items()}, folder / "vision_model" / "model.pt")
    return folder


def published_name(name: str) -> str:
    """A parameter of the network of transformers as the published weights call it."""
    inner = name.replace(".conv.", ".proj.") if name.startswith("convs.") else name
    tower = "window_attn" if "spatial_block" in name else "channel_attn"
    for old, new in (
        (".conv1.", ".conv1.fn.dw."),
        (".conv2.", ".conv2.fn.dw."),
        (f".{tower}.", f".{tower}.fn."),
        (".norm1.", f".{tower}.norm."),
        (".ffn.", ".ffn.fn.net."),
        (".norm2.", ".ffn.norm."),
    ):
        if old in inner:
            return inner.replace(old, new)
    return inner


def make_lora(
    network: torch.nn.Module, folder: Path, *, dora: bool = False, legacy: bool = False, rank: int = 4
) -> Path:
    """An adapter that changes the output, saved by peft; ``legacy``: under the names from before transformers 4.52."""
    from peft import LoraConfig, get_peft_model
    from safetensors.torch import load_file

    torch.manual_seed(11)
    targets = r"language_model\.layers\.\d+\.self_attn\.(q_proj|v_proj)"
    wrapped = get_peft_model(network, LoraConfig(r=rank, lora_alpha=8, target_modules=targets, use_dora=dora))
    with torch.no_grad():
        for name, parameter in wrapped.named_parameters():
            if "lora_B" in name:
                parameter.copy_(torch.randn_like(parameter))
    wrapped.save_pretrained(str(folder))
    if legacy:
        path = folder / "adapter_model.safetensors"
        renamed = {
            name.replace("language_model.layers", "model.layers"): values for name, values in load_file(path).items()
        }
        save_file(renamed, path)
        settings = json.loads((folder / "adapter_config.json").read_text())
        write_json(folder / "adapter_config.json", {**settings, "target_modules": ["q_proj", "v_proj"]})
    return folder


def picture(seed: int, size: tuple[int, int] = (40, 36)) -> Image.Image:
    """Coloured noise with a bright block whose place depends on ``seed``."""
    values = np.random.default_rng(seed).integers(0, 120, (size[1], size[0], 3))
    values[seed % 20 : seed % 20 + 12, 4:20] += 130
    return Image.fromarray(values.astype(np.uint8))


BUILDERS: dict[str, Callable[[Path], Path]] = {
    "siglip": make_siglip,
    "blip2_itc": make_blip2,
    "medimageinsight": make_medimageinsight,
    "qwen2vl": make_qwen2vl,
    "qwen3vl": make_qwen3vl,
}
