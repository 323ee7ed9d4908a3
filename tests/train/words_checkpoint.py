"""A small Qwen3-VL whose tokenizer knows words: random weights that a few thousand text pairs can teach something."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path

import torch

sys.path.append(str(Path(__file__).parents[1] / "models"))
from tiny_checkpoints import CHAT_TEMPLATE, QWEN_SPECIALS, qwen3vl_config, save_qwen3vl

WIDTH, PIECES, SEED = 128, 2000, 7


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
    from transformers import Qwen3VLModel

    config = qwen3vl_config(write_tokenizer(folder, texts), WIDTH, 2 * WIDTH)
    torch.manual_seed(SEED)
    return save_qwen3vl(folder, Qwen3VLModel(config))
