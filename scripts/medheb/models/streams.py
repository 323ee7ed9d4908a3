"""Models that read everything as one stream of tokens: text with placeholders, each widened to its picture's tokens.

Sizes of pictures decide the stream, so its length is known before anything is decoded. Too long a stream loses text
from its end, counted; it never loses pictures.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medheb.core.errors import MedhebError
from medheb.index.records import Item
from medheb.manifest.networks import DecoderAdapter
from medheb.models.base import ImageRef, Prepared, ReadImage, Rendered, Side, SizeOf, Vectors
from medheb.models.bridge import unit_rows
from medheb.models.fields import Checkpoint, sampled
from medheb.models.hub_weights import load_tokenizer, read_settings
from medheb.models.pixels import Grid, Size, resized

IMAGE, VIDEO = "<|image_pad|>", "<|video_pad|>"
START, END = "<|vision_start|>", "<|vision_end|>"
CONTROL = (IMAGE, VIDEO, START, END, "<|im_start|>", "<|im_end|>", "<|endoftext|>")
TEXT_TYPE, IMAGE_TYPE, VIDEO_TYPE = 0, 1, 2  # mm_token_type_ids of transformers


@dataclass(frozen=True)
class Look:
    """One picture, or the frames of one volume, on its way into the stream.

    Args:
        images: the picture, or the frames.
        sizes: to which each is resized, one after the other.
        video: frames of a volume in steps of time.
    """

    images: tuple[ImageRef, ...]
    sizes: tuple[Size, ...]
    video: bool = False


@dataclass(frozen=True)
class Stream:
    """A planned input.

    Args:
        ids: token ids [n], placeholders widened.
        types: 0 text, 1 picture, 2 volume, for each token [n].
        cut: text tokens that did not fit.
    """

    ids: NDArray[np.int64]
    types: NDArray[np.int8]
    cut: int


class Decoder(Checkpoint, ABC):
    """How a decoder sees an input. Subclasses say how it is written and how pictures are sized."""

    settings: DecoderAdapter
    grid_defaults: dict[str, Any]

    def render(self, item: Item, instruction: str, side: Side, images: Sequence[ImageRef]) -> Rendered:
        """Instruction (a default where there is none), text, and at most ``frames`` pictures."""
        text = item.text if item.text.strip() else ""
        shown = instruction.strip() or self.settings.default_instruction
        return Rendered(item.modality, text, shown, images=sampled(images, self.settings.frames))

    def parts(self, rendered: Rendered) -> tuple[Rendered, ...]:
        """The input itself: one stream."""
        return (rendered,)

    def combine(self, rendered: Rendered, vectors: Vectors) -> Vectors:
        """The stream's vector, scaled to length one."""
        vector: Vectors = unit_rows(vectors[:1])[0]
        return vector

    def tokens(self, part: Rendered, size_of: SizeOf) -> int:
        """Length of the stream."""
        return len(self.stream(part, self.looks(part, size_of)).ids)

    def prepare(self, part: Rendered, read_image: ReadImage) -> Prepared:
        """Token ids, their types, and the pictures as patches of 8 bits."""
        opened = {image: read_image(image) for image in dict.fromkeys(part.images)}
        looks = self.looks(part, lambda image: opened[image].size)
        stream = self.stream(part, looks)
        arrays: dict[str, NDArray[Any]] = {
            "input_ids": stream.ids,
            "types": stream.types,
            "cut": np.asarray(stream.cut),
        }
        for video, name in ((False, "image"), (True, "video")):
            patches, grids = [], []
            for look in (look for look in looks if look.video == video):
                frames = np.stack([resized(opened[image], look.sizes) for image in look.images])
                patches.append(self.grid.patches(frames))
                grids.append(self.grid.thw(look.sizes[-1], self._steps(look)))
            if patches:
                arrays[f"{name}_patches"] = np.concatenate(patches)
                arrays[f"{name}_grids"] = np.asarray(grids, dtype=np.int64)
        return Prepared(arrays, len(stream.ids))

    def stream(self, part: Rendered, looks: Sequence[Look]) -> Stream:
        """Token ids of an input; its text is cut where the whole would be too long.

        Raises:
            MedhebError: the pictures alone are too long, or the text holds a control word of the model.
        """
        for word in CONTROL:
            if word in part.text or word in part.instruction:
                raise MedhebError(
                    f"{part.modality} input {part.key[:12]}",
                    f"holds the model's control word {word}",
                    "Correct its text",
                )
        text, cut = part.text, 0
        while True:
            ids, types = self._widened(self.written(part.instruction, text, looks), looks)
            over = len(ids) - self.settings.max_tokens
            if over <= 0:
                return Stream(ids, types, cut)
            whole = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
            places = whole["offset_mapping"]
            if not places:
                raise MedhebError(
                    f"{part.modality} input {part.key[:12]}",
                    f"needs {len(ids)} tokens, the model reads {self.settings.max_tokens}, and pictures are never cut",
                    "Raise max_tokens of the model, or lower frames",
                )
            left = max(0, len(places) - over)
            cut += len(places) - left
            text = text[: places[left - 1][1]] if left else ""

    def _widened(self, written: str, looks: Sequence[Look]) -> tuple[NDArray[np.int64], NDArray[np.int8]]:
        ids = self.tokenizer(written, verbose=False)["input_ids"]
        counts = {False: iter(self._counts(looks, False)), True: iter(self._counts(looks, True))}
        kinds = {self.token_id(IMAGE): False, self.token_id(VIDEO): True}
        widened: list[int] = []
        types: list[int] = []
        for token in ids:
            video = kinds.get(token)
            count = 1 if video is None else next(counts[video])
            widened += [token] * count
            types += [TEXT_TYPE if video is None else VIDEO_TYPE if video else IMAGE_TYPE] * count
        if any(next(left, None) is not None for left in counts.values()):
            raise MedhebError(self.folder, "has a template that leaves pictures out", "Use the template of its authors")
        return np.asarray(widened, dtype=np.int64), np.asarray(types, dtype=np.int8)

    def _counts(self, looks: Sequence[Look], video: bool) -> list[int]:
        """Tokens behind each placeholder of one kind."""
        counts: list[int] = []
        for look in (look for look in looks if look.video == video):
            steps = self._steps(look)
            if video and self.splits_volumes:
                counts += [self.grid.tokens(look.sizes[-1])] * steps
            else:
                counts.append(self.grid.tokens(look.sizes[-1], steps))
        return counts

    def _steps(self, look: Look) -> int:
        return self.grid.steps(len(look.images)) if look.video else 1

    @property
    def grid(self) -> Grid:
        """How the checkpoint cuts pictures."""
        made: Grid = self.kept("grid", lambda: read_grid(self.folder, self.grid_defaults))
        return made

    @property
    def tokenizer(self) -> Any:
        """The checkpoint's tokenizer."""
        return self.kept("tokenizer", lambda: load_tokenizer(self.folder))

    def token_id(self, word: str) -> int:
        """Number of a control word."""
        return int(self.tokenizer.convert_tokens_to_ids(word))

    @property
    @abstractmethod
    def splits_volumes(self) -> bool:
        """Each step in time of a volume has a placeholder of its own."""

    @abstractmethod
    def looks(self, part: Rendered, size_of: SizeOf) -> list[Look]:
        """Pictures and volumes of an input with the sizes that they get."""

    @abstractmethod
    def written(self, instruction: str, text: str, looks: Sequence[Look]) -> str:
        """The input as text with placeholders."""


def read_grid(folder: Path, defaults: dict[str, Any]) -> Grid:
    """How a checkpoint cuts pictures, from its image processor's settings."""
    found = {**defaults, **read_settings(folder / "preprocessor_config.json")}
    return Grid(
        patch=int(found["patch_size"]),
        merge=int(found["merge_size"]),
        temporal=int(found["temporal_patch_size"]),
        mean=tuple(found["image_mean"]),
        std=tuple(found["image_std"]),
    )
