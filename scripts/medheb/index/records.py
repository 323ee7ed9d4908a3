"""The published record format of a task JSON, typed (spec: reference task JSON, dataset card).

A task JSON is a list of records. Each holds one query and its candidates, positive first.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any, Literal

from pydantic import model_validator

from medheb.core.files import atomic_open
from medheb.index.json_rows import stream_rows
from medheb.manifest.base import RelativePath, Strict, validate

Modality = Literal["text", "image", "volume"]
WrittenModality = Literal["text", "image", "video"]


@dataclass(frozen=True)
class Item:
    """One thing to embed: a query or a candidate.

    ``images`` are paths below the task's image root: one for an image, the slices in order for a volume.
    """

    modality: Modality
    text: str
    images: tuple[str, ...]


class Record(Strict):
    """One query with its candidates; candidate 0 is the positive."""

    qry_inst: str
    qry_text: str = ""
    qry_img_path: RelativePath | tuple[RelativePath, ...] | None = None
    qry_modality: WrittenModality | None = None
    tgt_text: tuple[str, ...]
    tgt_img_path: tuple[RelativePath | tuple[RelativePath, ...], ...] | None = None
    tgt_modality: WrittenModality | None = None

    @model_validator(mode="after")
    def _candidates_fit(self) -> Record:
        if not self.tgt_text:
            raise ValueError("at least one candidate")
        if self.tgt_img_path is not None and len(self.tgt_img_path) != len(self.tgt_text):
            raise ValueError("tgt_text and tgt_img_path of one length")
        if not self.qry_text.strip() and not self.qry_img_path:
            raise ValueError("a query with text or an image")
        for position, text in enumerate(self.tgt_text):
            if not text.strip() and not (self.tgt_img_path and self.tgt_img_path[position]):
                raise ValueError(f"candidates with text or an image (candidate {position} has neither)")
        return self

    @cached_property
    def query(self) -> Item:
        """The query."""
        return _item(self.qry_text, self.qry_img_path, self.qry_modality)

    @cached_property
    def candidates(self) -> list[Item]:
        """The candidates, positive first."""
        paths: Sequence[str | tuple[str, ...] | None] = self.tgt_img_path or [None] * len(self.tgt_text)
        return [_item(text, path, self.tgt_modality) for text, path in zip(self.tgt_text, paths, strict=True)]


def _item(text: str, paths: str | tuple[str, ...] | None, written: WrittenModality | None) -> Item:
    if not paths:
        return Item("text", text, ())
    if isinstance(paths, str):
        return Item("image", text, (paths,))
    return Item("image" if written == "image" else "volume", text, paths)


def stream_records(path: Path) -> Iterator[Record]:
    """Records of a task JSON one by one.

    Raises:
        MedhebError: missing, not UTF-8, cut off, not JSON, or a record with a fault (named with row and field).
    """
    for number, row in stream_rows(path, "Delete it and build the index again: snakemake index"):
        yield validate(Record, row, f"{path} row {number}")


def read_records(path: Path) -> list[Record]:
    """All records of a task JSON; see :func:`stream_records`."""
    return list(stream_records(path))


class RecordWriter:
    """Writes a task JSON record by record: a list with one record a line."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream, self.rows = stream, 0

    def add(self, record: Record) -> None:
        """Append a record."""
        row = record.model_dump(exclude_none=True, mode="json")
        text = json.dumps(row, sort_keys=True, ensure_ascii=False, allow_nan=False)
        self._stream.write((",\n" if self.rows else "[\n").encode() + text.encode("utf-8"))
        self.rows += 1

    def close(self) -> None:
        """End the list."""
        self._stream.write(b"\n]\n" if self.rows else b"[]\n")


@contextmanager
def record_writer(path: Path) -> Iterator[RecordWriter]:
    """A writer whose file becomes ``path`` only if the block ends without an error."""
    with atomic_open(path) as stream:
        writer = RecordWriter(stream)
        yield writer
        writer.close()


def as_json(records: Sequence[Record]) -> list[dict[str, Any]]:
    """Records as the published files hold them: absent fields are left out."""
    return [record.model_dump(exclude_none=True, mode="json") for record in records]


def image_paths(records: Sequence[Record]) -> Iterator[tuple[int, str]]:
    """Every image that the records name, with its row."""
    for row, record in enumerate(records):
        for item in [record.query, *record.candidates]:
            for path in item.images:
                yield row, path
