"""MedImageInsight without its own code: the picture's tower is the DaViT that transformers has inside Florence-2.

Weights come as one file, a safetensors file by content whatever its name says, with a tokenizer folder
somewhere beside it. Layer sizes are read from the tensors. The loaded network is in
medimageinsight_network.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from medheb.core.errors import MedhebError
from medheb.manifest.networks import MedImageInsightAdapter
from medheb.models.fields import Towers
from medheb.models.hub_weights import require_head

WEIGHT_NAMES = ("*.safetensors", "*.pt")


def weights_file(folder: Path) -> Path:
    """The one weights file of a folder.

    Raises:
        MedhebError: none, several, or one that is a pickle by content.
    """
    found = sorted(path for pattern in WEIGHT_NAMES for path in folder.rglob(pattern) if path.is_file())
    if len(found) != 1:
        raise MedhebError(
            folder,
            f"holds {len(found)} weights files ({', '.join(WEIGHT_NAMES)}), MedImageInsight has one",
            "Put the model's own folder there; see docs/models.md",
        )
    require_head(found[0])
    return found[0]


def tokenizer_folder(folder: Path) -> Path:
    """The folder with ``vocab.json``.

    Raises:
        MedhebError: there is none.
    """
    found = sorted(folder.rglob("vocab.json"))
    if not found:
        raise MedhebError(
            folder, "holds no tokenizer (vocab.json)", "Put the model's own folder there; see docs/models.md"
        )
    return found[0].parent


class MedImageInsight(Towers):
    """How MedImageInsight sees pictures and texts."""

    settings: MedImageInsightAdapter

    def image_tokens(self) -> int:
        """Patches of 16 pixels: about what a picture costs, beside a vision transformer."""
        return max(1, self.settings.size // 16) ** 2

    def text_folder(self) -> Path:
        """The tokenizer's folder."""
        return tokenizer_folder(self.folder)

    def text_tokens(self, text: str) -> int:
        """Word pieces of a text, within the limit."""
        return max(1, min(self.settings.max_tokens, len(self.tokenizer(text, verbose=False)["input_ids"])))

    def pixels(self, image: Image.Image) -> NDArray[np.uint8]:
        """uint8 [3, size, size], bicubic, aspect not kept."""
        rgb = image.convert("RGB")
        if self.settings.percentiles:
            rgb = stretched(rgb, self.settings.percentiles)
        resized = rgb.resize((self.settings.size,) * 2, Image.Resampling.BICUBIC)
        return np.ascontiguousarray(np.asarray(resized, dtype=np.uint8).transpose(2, 0, 1))

    def text(self, text: str) -> Mapping[str, NDArray[Any]]:
        """Token ids [n]; the last is the end of text, whose state is the text's vector."""
        return self.cut(text)


def stretched(image: Image.Image, percentiles: tuple[float, float]) -> Image.Image:
    """RGB whose values between two percentiles fill 0 to 255; a flat picture stays as it is."""
    values = np.asarray(image, dtype=np.float32)
    low, high = np.percentile(values, percentiles)
    if high <= low:
        return image
    return Image.fromarray(np.rint(np.clip((values - low) / (high - low), 0, 1) * 255).astype(np.uint8))
