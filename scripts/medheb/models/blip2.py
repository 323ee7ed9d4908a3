"""BLIP-2 with its contrastive heads (LAVIS calls it ITC). The matching head needs a pair and gives no vector.

The class matters: ``AutoModel`` gives another network for this checkpoint, leaves tensors out and fills others at
random. A picture has 32 query tokens; their unit vectors are averaged, or the first is taken. Texts are called
directly, since the checkpoint's processor fails on them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from medheb.manifest.networks import Blip2Adapter
from medheb.models.fields import Towers
from medheb.models.hub_weights import load_image_processor, read_settings
from medheb.models.processors import processed_pixels


class Blip2(Towers):
    """How BLIP-2 sees pictures and texts."""

    settings: Blip2Adapter

    def image_tokens(self) -> int:
        """Patches of the square input and the class token."""
        vision = self.kept("config", lambda: read_settings(self.folder / "config.json"))["vision_config"]
        return int(vision.get("image_size", 224) // vision.get("patch_size", 14)) ** 2 + 1

    def text_tokens(self, text: str) -> int:
        """Word pieces of a text, within the limit."""
        return max(1, min(self.settings.max_tokens, len(self.tokenizer(text, verbose=False)["input_ids"])))

    def pixels(self, image: Image.Image) -> NDArray[np.uint8]:
        """uint8 [3, side, side]."""
        return processed_pixels(self.kept("processor", lambda: load_image_processor(self.folder)), image)

    def text(self, text: str) -> Mapping[str, NDArray[Any]]:
        """Token ids [n], first the class token whose state is the text's vector."""
        return self.cut(text)
