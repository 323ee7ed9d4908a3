"""Models on Qwen2-VL: VLM2Vec-V2.0 (an adapter on the 2B instruct model) and RzenEmbed, each with its own prompt.

Prompts as their authors' code writes them. ``vlm2vec``: vision tokens, instruction and text, joined by blanks; no
chat template. ``rzen``: a fixed system message, then vision tokens, instruction and text without anything between.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from medheb.manifest.networks import Qwen2VLAdapter
from medheb.models.base import Rendered, SizeOf
from medheb.models.pixels import Fit
from medheb.models.streams import END, IMAGE, START, VIDEO, Decoder, Look

FACTOR = 28
# RzenEmbed's script first brings each picture to multiples of 28 within wide limits, then within its own.
WIDE = Fit(FACTOR, 4 * FACTOR**2, 16384 * FACTOR**2)
RZEN = (
    "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n"
    "<|im_start|>user\n{content}<|im_end|>\n<|im_start|>assistant\n<|endoftext|>"
)


class Qwen2VL(Decoder):
    """How a Qwen2-VL model sees an input."""

    settings: Qwen2VLAdapter
    grid_defaults: dict[str, Any] = {  # noqa: RUF012 - the class of transformers has these
        "patch_size": 14,
        "merge_size": 2,
        "temporal_patch_size": 2,
        "image_mean": (0.48145466, 0.4578275, 0.40821073),
        "image_std": (0.26862954, 0.26130258, 0.27577711),
    }

    @property
    def splits_volumes(self) -> bool:
        """No: one placeholder for a whole volume."""
        return False

    def looks(self, part: Rendered, size_of: SizeOf) -> list[Look]:
        """Pictures within ``image_pixels``, slices of a volume within ``frame_pixels``."""
        volume = part.modality == "volume"
        fit = Fit(self.grid.factor, *(self.settings.frame_pixels if volume else self.settings.image_pixels))
        if volume and self.settings.volumes == "video":
            # One size for all frames: that of the first.
            return [Look(part.images, (fit.size(size_of(part.images[0])),), video=True)]
        looks: list[Look] = []
        for image in part.images:
            sizes = [size_of(image)]
            if self.settings.prompt == "rzen":
                sizes.append(WIDE.size(sizes[-1]))
            sizes.append(fit.size(sizes[-1]))
            looks.append(Look((image,), tuple(sizes[1:])))
        return looks

    def written(self, instruction: str, text: str, looks: Sequence[Look]) -> str:
        """The prompt of the profile."""
        if looks and not self.settings.text_beside_images:
            text = ""
        words = [VIDEO if look.video else IMAGE for look in looks]
        # Without markers something must part two pictures, or their tokens would count as one.
        marked, bare = "".join(f"{START}{word}{END}" for word in words), "\n".join(words)
        vision = marked if self.settings.vision_markers else bare
        if self.settings.prompt == "rzen":
            return RZEN.format(content=vision + instruction + text)
        return " ".join(piece for piece in (vision, instruction, text) if piece)
