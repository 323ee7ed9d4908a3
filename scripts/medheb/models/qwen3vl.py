"""Qwen3-VL-Embedding and MedEmb: the checkpoint's own chat template, a volume as frames with time marks.

System message: the instruction, with a full stop where it ends without punctuation. User message: volume, pictures,
text, in this order. The generation prompt is on; whether an end token follows is the tokenizer's affair, and the state
at the last position is the vector.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Any

from medheb.core.errors import MedhebError
from medheb.manifest.networks import Qwen3VLAdapter
from medheb.models.base import Rendered, SizeOf
from medheb.models.pixels import Fit, Size, frames_fit
from medheb.models.streams import END, START, VIDEO, Decoder, Look

# The authors' helper brings each frame to multiples of twice a token's side before it sizes the whole volume.
FRAME_STEP = 2
LEAST_FRAME_TOKENS, MOST_FRAME_TOKENS = 4, 16384
EMPTY = "NULL"


def ended(instruction: str) -> str:
    """The instruction with a full stop, unless it ends with any punctuation."""
    stripped = instruction.strip()
    if stripped and not unicodedata.category(stripped[-1]).startswith("P"):
        return stripped + "."
    return stripped


class Qwen3VL(Decoder):
    """How a Qwen3-VL embedding model sees an input."""

    settings: Qwen3VLAdapter
    grid_defaults: dict[str, Any] = {  # noqa: RUF012 - the class of transformers has these
        "patch_size": 16,
        "merge_size": 2,
        "temporal_patch_size": 2,
        "image_mean": (0.5, 0.5, 0.5),
        "image_std": (0.5, 0.5, 0.5),
    }

    @property
    def splits_volumes(self) -> bool:
        """Yes: time marks stand between the steps."""
        return True

    def looks(self, part: Rendered, size_of: SizeOf) -> list[Look]:
        """A volume shares ``volume_pixels``; each picture of a list has ``image_pixels`` for itself."""
        if part.modality == "volume":
            # One size for all frames: that of the first.
            return [Look(part.images, self._frame_sizes(size_of(part.images[0]), len(part.images)), video=True)]
        fit = Fit(self.grid.factor, *self.settings.image_pixels)
        return [Look((image,), (fit.size(size_of(image)),)) for image in part.images]

    def _frame_sizes(self, size: Size, count: int) -> tuple[Size, ...]:
        factor = self.grid.factor
        step = FRAME_STEP * factor
        first = Fit(step, LEAST_FRAME_TOKENS * step**2, MOST_FRAME_TOKENS * step**2).size(size)
        return (first, frames_fit(count, self.settings.volume_pixels, factor).size(first))

    def written(self, instruction: str, text: str, looks: Sequence[Look]) -> str:
        """The chat template filled in, time marks beside the steps of a volume."""
        content: list[dict[str, str]] = [{"type": "video" if look.video else "image"} for look in looks]
        if text or not looks:
            content.append({"type": "text", "text": text or EMPTY})
        messages = [
            {"role": "system", "content": [{"type": "text", "text": ended(instruction)}]},
            {"role": "user", "content": content},
        ]
        if self.tokenizer.chat_template is None:
            raise MedhebError(self.folder, "has no chat template", "Put chat_template.jinja of its authors there")
        written: str = self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        for look in (look for look in looks if look.video):
            written = written.replace(f"{START}{VIDEO}{END}", self._steps_with_times(len(look.images)), 1)
        return written

    def _steps_with_times(self, frames: int) -> str:
        """A placeholder for each step, with the mean time of its frames before it."""
        temporal = self.grid.temporal
        numbers = [*range(frames), *[frames - 1] * (-frames % temporal)]
        marks: list[str] = []
        for at in range(0, len(numbers), temporal):
            first, last = (
                number / self.settings.frames_per_second for number in (numbers[at], numbers[at + temporal - 1])
            )
            marks.append(f"<{(first + last) / 2:.1f} seconds>{START}{VIDEO}{END}")
        return "".join(marks)
