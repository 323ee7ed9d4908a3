"""The published record format of a task JSON, typed (spec: reference task JSON, dataset card).

A task JSON is a list of records. Each holds one query and its candidates, positive first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import model_validator

from medheb.core.errors import MedhebError
from medheb.manifest.base import RelativePath, Strict, read_json, validate

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

    @property
    def query(self) -> Item:
        """The query."""
        return _item(self.qry_text, self.qry_img_path, self.qry_modality)

    @property
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


def read_records(path: Path) -> list[Record]:
    """Read a task JSON.

    Raises:
        MedhebError: missing, not JSON, or a record with a fault (named with row and field).
    """
    rows = read_json(path, "Build the index again: snakemake index")
    if not isinstance(rows, list):
        raise MedhebError(path, "is not a list of records", "Delete it and build the index again")
    return [validate(Record, row, f"{path} row {number}") for number, row in enumerate(rows)]


def as_json(records: Sequence[Record]) -> list[dict[str, Any]]:
    """Records as the published files hold them: absent fields are left out."""
    return [record.model_dump(exclude_none=True, mode="json") for record in records]


def image_paths(records: Sequence[Record]) -> Iterator[tuple[int, str]]:
    """Every image that the records name, with its row."""
    for row, record in enumerate(records):
        for item in [record.query, *record.candidates]:
            for path in item.images:
                yield row, path
