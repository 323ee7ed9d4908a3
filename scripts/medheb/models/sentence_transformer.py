"""Any model of the library sentence-transformers: texts, and pictures where the model has both.

Texts and pictures are fields of their own, as for dual towers; the instruction is put before the text as its prompt.
For the benchmark's own ten models use their adapters: through the library some lose their head, template or adapter.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from medheb.core.errors import MedhebError
from medheb.core.json_text import parse_json
from medheb.index.records import Item
from medheb.manifest.networks import SentenceTransformersAdapter
from medheb.models.base import ImageRef, Prepared, ReadImage, Rendered, Side, SizeOf, Vectors
from medheb.models.bridge import unit_rows
from medheb.models.fields import Checkpoint, sampled
from medheb.models.hub_weights import FIT, load_fault, load_reports, require_safetensors

CHARACTERS_A_TOKEN = 4  # for planning only
IMAGE_TOKENS = 256  # likewise


class SentenceTransformerInputs(Checkpoint):
    """How a model of the library sees an input."""

    settings: SentenceTransformersAdapter

    def render(self, item: Item, instruction: str, side: Side, images: Sequence[ImageRef]) -> Rendered:
        """Instruction, text and at most ``frames`` pictures.

        Raises:
            MedhebError: a picture for a model of texts.
        """
        if images and self.settings.inputs == "text":
            raise MedhebError(
                "a model of sentence-transformers",
                "reads texts only, and this task has pictures",
                "Leave the task out, or set 'inputs: text_or_images' if the model has both",
            )
        text = item.text if item.text.strip() else ""
        shown = instruction.strip() if self.settings.instruction == "prompt" else ""
        return Rendered(item.modality, text, shown, images=sampled(images, self.settings.frames))

    def parts(self, rendered: Rendered) -> tuple[Rendered, ...]:
        """Each picture, then the text with its instruction before it."""
        text = " ".join(piece for piece in (rendered.instruction, rendered.text) if piece)
        pictures = tuple(Rendered("image", images=(image,)) for image in rendered.images)
        return (*pictures, Rendered("text", text=text)) if text else pictures

    def combine(self, rendered: Rendered, vectors: Vectors) -> Vectors:
        """Mean over pictures, then of pictures and text; scaled to length one."""
        fields = unit_rows(vectors)
        count = len(rendered.images)
        if count:
            fields = np.concatenate([unit_rows(fields[:count].mean(axis=0, keepdims=True)), fields[count:]])
        vector: Vectors = unit_rows(fields.mean(axis=0, keepdims=True))[0]
        return vector

    def tokens(self, part: Rendered, size_of: SizeOf) -> int:
        """A guess: the library keeps the tokenizer to itself."""
        return IMAGE_TOKENS if part.images else max(1, len(part.text) // CHARACTERS_A_TOKEN)

    def prepare(self, part: Rendered, read_image: ReadImage) -> Prepared:
        """uint8 [height, width, 3] of a picture, or a text as its UTF-8 bytes."""
        if part.images:
            image = np.asarray(read_image(part.images[0]).convert("RGB"), dtype=np.uint8)
            return Prepared({"image": image}, IMAGE_TOKENS)
        text = np.frombuffer(part.text.encode("utf-8"), dtype=np.uint8)
        return Prepared({"text": text}, max(1, len(part.text) // CHARACTERS_A_TOKEN))


def _require_own_modules(folder: Path) -> None:
    """Refuse a model that names classes of other packages: the library would import whatever stands there.

    Raises:
        MedhebError: such a class, or no list of modules.
    """
    path = folder / "modules.json"
    try:
        modules = parse_json(path.read_text(encoding="utf-8"))
        types = [str(module["type"]) for module in modules]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise MedhebError(
            path, "is no list of modules of sentence-transformers", "Save the model with the library"
        ) from error
    for name in types:
        if not name.startswith("sentence_transformers."):
            raise MedhebError(
                path, f"names {name}, a class of another package", "Only the library's own modules are loaded"
            )


def _require_all_there(folder: Path, reports: Sequence[str]) -> None:
    """Refuse weights that leave gaps: the library fills them at random and only logs a table of them.

    The pooler of a text tower may be missing: vectors come from the states before it.

    Raises:
        MedhebError: parameters without a tensor of their shape.
    """
    rows = [line.split("|") for report in reports for line in report.splitlines() if line.count("|") >= 2]
    bare = [name.strip() for name, status, *_ in rows if status.strip() in {"MISSING", "MISMATCH"}]
    bare = [name for name in bare if "pooler." not in name]
    if bare:
        raise MedhebError(folder, f"does not fit its model: no weights for {bare[0]} and {len(bare) - 1} more", FIT)


class SentenceTransformerEncoder:
    """A model of the library with its weights."""

    def __init__(self, settings: SentenceTransformersAdapter, folder: Path, device: str) -> None:
        import torch
        from sentence_transformers import SentenceTransformer

        from medheb.models.devices import place

        placement = place(settings.dtype, settings.attention, device)
        _require_own_modules(folder)
        for path in sorted(folder.rglob("*.bin")):
            if not (path.parent / "model.safetensors").exists():
                require_safetensors(path.parent)
        try:
            with load_reports() as reports:
                self.model: Any = SentenceTransformer(
                    str(folder),
                    device=str(placement.device),
                    trust_remote_code=False,
                    local_files_only=True,
                    model_kwargs={"use_safetensors": True, "dtype": placement.dtype},
                )
        except (OSError, ValueError, RuntimeError, KeyError, ImportError) as error:
            raise load_fault(folder, error) from error
        _require_all_there(folder, reports)
        if settings.max_tokens is not None:
            self.model.max_seq_length = settings.max_tokens
        with torch.inference_mode():
            self.dimension = int(self.model.encode(["a"], convert_to_numpy=True).shape[1])

    def cut(self, prepared: Sequence[Prepared]) -> list[bool]:
        """Which texts have more tokens than the library's limit for this model; none where it states no limit."""
        limit, tokenizer = getattr(self.model, "max_seq_length", None), getattr(self.model, "tokenizer", None)
        tokenizer = getattr(tokenizer, "tokenizer", tokenizer)  # of a processor for texts and pictures
        if limit is None or tokenizer is None:
            return [False] * len(prepared)
        texts = [bytes(part.arrays["text"]).decode("utf-8") if "text" in part.arrays else "" for part in prepared]
        lengths = [len(tokenizer(text, truncation=False, verbose=False)["input_ids"]) if text else 0 for text in texts]
        return [length > limit for length in lengths]

    def encode(self, prepared: Sequence[Prepared]) -> Vectors:
        """Vectors of the library, float32 [n, dimension]."""
        inputs: list[Any] = []
        for part in prepared:
            image = part.arrays.get("image")
            inputs.append(bytes(part.arrays["text"]).decode("utf-8") if image is None else Image.fromarray(image))
        found = self.model.encode(inputs, batch_size=len(inputs), convert_to_numpy=True, show_progress_bar=False)
        vectors: Vectors = np.asarray(found, dtype=np.float32)
        return vectors
