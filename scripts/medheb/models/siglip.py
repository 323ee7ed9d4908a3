"""SigLIP and MedSigLIP: one space for pictures and texts, sigmoid-trained.

A text is padded to the full length and read without an attention mask, as the model was trained: with a mask, or
padded to the batch, its vector is another one. Features are not normalised by the model.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from medheb.manifest.networks import SiglipAdapter
from medheb.models.fields import Towers
from medheb.models.hub_weights import load_image_processor, read_settings
from medheb.models.processors import processed_pixels


class Siglip(Towers):
    """How SigLIP sees pictures and texts."""

    settings: SiglipAdapter

    def image_tokens(self) -> int:
        """Patches of the square input."""
        vision = self.kept("config", lambda: read_settings(self.folder / "config.json"))["vision_config"]
        return int(vision.get("image_size", 224) // vision.get("patch_size", 16)) ** 2

    def text_tokens(self, text: str) -> int:
        """Always the full length: texts are padded to it."""
        return self.settings.max_tokens

    def pixels(self, image: Image.Image) -> NDArray[np.uint8]:
        """uint8 [3, side, side], aspect not kept."""
        processor = self.kept("processor", lambda: load_image_processor(self.folder))
        if self.settings.resize == "bilinear":
            size = (int(processor.size["width"]), int(processor.size["height"]))
            # reducing_gap and antialiasing off: each value from its four neighbours only, as tf.image.resize does
            return _bilinear(np.asarray(image.convert("RGB"), dtype=np.float32), size)
        return processed_pixels(processor, image)

    def text(self, text: str) -> Mapping[str, NDArray[Any]]:
        """Token ids [max_tokens]."""
        return self.cut(text, padding="max_length")


def _bilinear(pixels: NDArray[np.float32], size: tuple[int, int]) -> NDArray[np.uint8]:
    import torch

    values = torch.from_numpy(pixels).permute(2, 0, 1)[None]
    resized = torch.nn.functional.interpolate(values, (size[1], size[0]), mode="bilinear", align_corners=False)
    rounded: NDArray[np.uint8] = resized[0].round().clamp(0, 255).to(torch.uint8).numpy()
    return rounded
