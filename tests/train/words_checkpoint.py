"""A small Qwen3-VL whose tokenizer knows words: random weights that a few thousand text pairs can teach something."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path

import torch

sys.path.append(str(Path(__file__).parents[1] / "models"))
from tiny_checkpoints import CHAT_TEMPLATE, QWEN_SPECIALS, write_json

WIDTH, LAYERS, PIECES, SEED = 128, 2, 2000, 7


def write_tokenizer(folder: Path, texts: Iterable[str]) -> int:
    """Byte pairs learned from texts, and the control words of Qwen; returns the size of the vocabulary."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers
    from transformers import Qwen2Tokenizer

    folder.mkdir(parents=True)
    learned = Tokenizer(models.BPE())
    learned.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    learned.train_from_iterator(
        texts, trainers.BpeTrainer(vocab_size=PIECES, initial_alphabet=letters, show_progress=False)
    )
    content = json.loads(learned.to_str())["model"]
    tokenizer = Qwen2Tokenizer(
        vocab=content["vocab"],
        merges=[tuple(merge) for merge in content["merges"]],
        pad_token="<|endoftext|>",
        extra_special_tokens=list(QWEN_SPECIALS),
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    tokenizer.save_pretrained(folder)
    return len(tokenizer)


def make_words_qwen3vl(folder: Path, texts: Iterable[str]) -> Path:
    """Weights as the library draws them, from a fixed seed; nothing is trained but the tokenizer."""
    from transformers import Qwen3VLConfig, Qwen3VLModel

    size = write_tokenizer(folder, texts)
    numbers = {word: size - len(QWEN_SPECIALS) + place for place, word in enumerate(QWEN_SPECIALS)}
    config = Qwen3VLConfig(
        text_config={
            "vocab_size": size,
            "hidden_size": WIDTH,
            "intermediate_size": 2 * WIDTH,
            "num_hidden_layers": LAYERS,
            "num_attention_heads": WIDTH // 16,
            "num_key_value_heads": WIDTH // 16,
            "head_dim": 16,
            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [4, 2, 2]},
        },
        vision_config={
            "depth": 2,
            "hidden_size": 32,
            "intermediate_size": 48,
            "num_heads": 2,
            "out_hidden_size": WIDTH,
            "patch_size": 16,
            "num_position_embeddings": 64,
            "deepstack_visual_indexes": [0],
        },
        image_token_id=numbers["<|image_pad|>"],
        video_token_id=numbers["<|video_pad|>"],
        vision_start_token_id=numbers["<|vision_start|>"],
        vision_end_token_id=numbers["<|vision_end|>"],
    )
    torch.manual_seed(SEED)
    Qwen3VLModel(config).save_pretrained(folder)
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
