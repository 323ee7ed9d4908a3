"""The receipt of an embedding job: which store serves a group of tasks, and how much was computed."""

from __future__ import annotations

from pathlib import Path

from medheb.core.files import write_json
from medheb.core.status import Status
from medheb.manifest.base import Strict, read_json, validate

SCHEMA_VERSION = 1


class Receipt(Strict):
    """What one job of ``embed_inputs`` leaves behind."""

    schema_version: int = SCHEMA_VERSION
    model: str
    group: str
    status: Status
    fingerprint: str = ""
    inputs: int = 0
    computed: int = 0
    seconds: float = 0.0


def write_receipt(path: Path, receipt: Receipt) -> None:
    """Write a receipt atomically."""
    write_json(path, receipt.model_dump())


def read_receipt(path: Path) -> Receipt:
    """Read a receipt.

    Raises:
        MedhebError: missing or damaged.
    """
    return validate(Receipt, read_json(path, "Run the embedding step again"), path)
