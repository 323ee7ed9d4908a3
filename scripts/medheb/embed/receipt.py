"""The receipt of an embedding job: which store serves a group of tasks, and what it cost."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from medheb.core.errors import MedhebError
from medheb.core.files import write_json
from medheb.core.status import Status
from medheb.manifest.base import Strict, read_json, validate

SCHEMA_VERSION = 2


class Receipt(Strict):
    """What one job of ``embed_inputs`` leaves behind."""

    schema_version: int = SCHEMA_VERSION
    model: str
    group: str
    status: Status
    fingerprint: str = ""
    inputs: int = Field(default=0, description="distinct inputs of the tasks, as the model sees them")
    parts: int = Field(default=0, description="distinct parts of these; each is stored once")
    vectors: str = Field(default="", description="digest over the keys and vectors of all parts")
    computed: int = Field(default=0, description="parts that this job embedded; the others were stored before")
    tokens: int = Field(default=0, description="length of what this job embedded")
    padded_tokens: int = Field(default=0, description="the same with padding, as the network saw it")
    batches: int = 0
    device: str = ""
    dtype: str = ""
    batch_tokens: int = Field(default=0, description="most tokens of a batch")
    ranks: int = 1
    notes: tuple[str, ...] = Field(
        default=(), description="what did not go as planned when the vectors were made; every score repeats it"
    )
    seconds: float = 0.0


def write_receipt(path: Path, receipt: Receipt) -> None:
    """Write a receipt atomically."""
    write_json(path, receipt.model_dump())


def read_receipt(path: Path) -> Receipt:
    """Read a receipt.

    Raises:
        MedhebError: missing, damaged, or of another version.
    """
    content = read_json(path, "Run the embedding step again")
    if isinstance(content, dict) and content.get("schema_version") != SCHEMA_VERSION:
        raise MedhebError(
            path, f"has schema version {content.get('schema_version')}", f"Allowed: {SCHEMA_VERSION}; embed again"
        )
    return validate(Receipt, content, path)
