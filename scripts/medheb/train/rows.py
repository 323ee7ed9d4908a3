"""Training rows as pairs: one line of a ``Train_Data`` file becomes a query and its target.

Format: the chat style of the benchmark's training files (spec: reference task JSON, section 4). ``messages`` hold the
instruction (system) and the query (user), ``positive_messages`` a list of targets, ``images`` and ``positive_images``
the paths from the benchmark's folder.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from medheb.core.errors import MedhebError
from medheb.core.json_text import parse_json
from medheb.index.records import Item
from medheb.manifest.base import RelativePath
from medheb.models.base import Adapter, ImageRef, Rendered

MARK = "<image>"
AGAIN = "Make the training rows again: `snakemake train_data`"


class Message(BaseModel):
    """What one side says."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    role: Literal["system", "user", "assistant"]
    content: str


class Row(BaseModel):
    """One line. Several positives are allowed by the format; the first is used."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    messages: tuple[Message, ...]
    positive_messages: tuple[tuple[Message, ...], ...]
    images: tuple[RelativePath, ...] = ()
    positive_images: tuple[tuple[RelativePath, ...], ...] = ()


@dataclass(frozen=True)
class Pair:
    """A query and its target."""

    instruction: str
    query: Item
    target: Item

    def rendered(self, adapter: Adapter) -> tuple[Rendered, Rendered]:
        """Both sides as the model sees them; images are named by their path alone."""
        query = adapter.render(self.query, self.instruction, "query", _refs(self.query))
        return query, adapter.render(self.target, "", "candidate", _refs(self.target))

    @property
    def target_key(self) -> int:
        """Number of the target's content, 63 bits: equal targets of a batch are no negatives of each other."""
        text = "\0".join([self.target.modality, self.target.text, *self.target.images])
        return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


def _refs(item: Item) -> tuple[ImageRef, ...]:
    return tuple(ImageRef(path, "") for path in item.images)


class BadRowError(ValueError):
    """A row that cannot be trained on; the text says why in words that fit a count."""


def parse(line: bytes, volumes: bool) -> tuple[Pair, int]:
    """The pair of a line, and how many positives it has.

    Args:
        line: of a training file.
        volumes: several pictures of one side are the slices of a volume, not a list of pictures.

    Raises:
        BadRowError: no JSON, a wrong field, no target, or other pictures than the text has places for.
    """
    try:
        row = Row.model_validate(_without_dots(parse_json(line)))
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in fault["loc"] if not isinstance(part, int))
        raise BadRowError(f"field {place or 'of the row'} is wrong") from None
    except (ValueError, TypeError):
        raise BadRowError("is not JSON") from None
    system = [message.content for message in row.messages if message.role == "system"]
    asked = [message.content for message in row.messages if message.role == "user"]
    if len(asked) != 1 or len(system) > 1:
        raise BadRowError("has not one query and at most one instruction")
    answers = [message.content for message in row.positive_messages[0]] if row.positive_messages else []
    if len(answers) != 1:
        raise BadRowError("has no target of one message")
    target_images = row.positive_images[0] if row.positive_images else ()
    query = _item(asked[0], row.images, volumes)
    target = _item(answers[0], target_images, volumes)
    return Pair(system[0] if system else "", query, target), len(row.positive_messages)


def _without_dots(content: object) -> object:
    """The published paths begin with ``./``."""
    if isinstance(content, dict):
        return {name: _without_dots(value) if "images" in name else value for name, value in content.items()}
    if isinstance(content, list):
        return [_without_dots(value) for value in content]
    return content.removeprefix("./") if isinstance(content, str) else content


def _item(text: str, images: tuple[str, ...], volumes: bool) -> Item:
    if text.count(MARK) != len(images):
        raise BadRowError("has other images than its text has places for")
    text = text.replace(MARK, "")
    if not images:
        if not text.strip():
            raise BadRowError("has an empty side")
        return Item("text", text, ())
    return Item("volume" if volumes and len(images) > 1 else "image", text, images)


def lines_of(path: Path) -> Iterator[tuple[int, bytes]]:
    """Lines of a training file, each with the byte at which it begins.

    Raises:
        MedhebError: the file is missing or cannot be read.
    """
    offset = 0
    try:
        with path.open("rb") as stream:
            for line in stream:
                if line.strip():
                    yield offset, line
                offset += len(line)
    except OSError as error:
        raise MedhebError(path, f"cannot be read ({error.strerror})", AGAIN) from error


def line_at(path: Path, offset: int) -> bytes:
    """The line that begins at a byte."""
    try:
        with path.open("rb") as stream:
            stream.seek(offset)
            return stream.readline()
    except OSError as error:
        raise MedhebError(path, f"cannot be read ({error.strerror})", AGAIN) from error
