"""What the towers of a dual encoder read: pixels and token ids. Free of weights, for worker processes."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from medheb.core.errors import MedhebError
from medheb.manifest.model import ImageTower

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

PATCH = 14  # pixels; the yardstick by which images of any tower are counted


def weights_fault(path: Path, error: Exception) -> MedhebError:
    """The refusal of weights, or of what belongs to them."""
    reason = (str(error).splitlines() or [type(error).__name__])[0][:200]
    return MedhebError(path, f"cannot be loaded as weights ({reason})", "Delete the model's folder and run again")


def image_tokens(tower: ImageTower) -> int:
    """Length of an image for the budget of a batch: patches of :data:`PATCH` pixels."""
    return max(1, (tower.size // PATCH) ** 2)


def network_input(image: Image.Image, tower: ImageTower) -> NDArray[np.float32]:
    """float32 [3, size, size]: RGB, resized without keeping the aspect (bicubic), scaled to 0..1, normalised."""
    resized = image.convert("RGB").resize((tower.size, tower.size), Image.Resampling.BICUBIC)
    pixels = np.asarray(resized, dtype=np.float32) / 255.0
    mean, std = np.array(tower.mean, dtype=np.float32), np.array(tower.std, dtype=np.float32)
    normalised = (pixels - mean) / std
    return np.ascontiguousarray(normalised.transpose(2, 0, 1), dtype=np.float32)


def text_ids(folder: Path, text: str, max_tokens: int) -> NDArray[np.int64]:
    """Token ids of a text, int64 [at most max_tokens]; cut at its end.

    Raises:
        MedhebError: the folder holds no tokenizer.
    """
    ids = tokenizer_of(folder)(text, truncation=True, max_length=max_tokens)["input_ids"]
    return np.asarray(ids, dtype=np.int64)


def tokens_cut(folder: Path, text: str, max_tokens: int) -> int:
    """Tokens at the end of a text that the tower does not read."""
    return max(0, len(tokenizer_of(folder)(text, truncation=False, verbose=False)["input_ids"]) - max_tokens)


@cache
def tokenizer_of(folder: Path) -> PreTrainedTokenizerBase:
    """The tokenizer of a transformers folder, loaded once in a process.

    Raises:
        MedhebError: missing or damaged.
    """
    from transformers import AutoTokenizer

    if not folder.exists():
        raise MedhebError(folder, "is missing", "Fetch the model again: delete its folder and run again")
    try:
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )
    except (OSError, ValueError, RuntimeError) as error:
        raise weights_fault(folder, error) from error
    return tokenizer
