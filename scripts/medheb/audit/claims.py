"""What an inventory claims of the files of its source: as much of it as an audit compares, in little memory."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from medheb.audit.judge import Digests
from medheb.audit.tolerance import TOLERANT_PROJECTORS
from medheb.build.inventory import Header, files_of, read_header


@dataclass(frozen=True)
class Claims:
    """Header of an inventory, and digests by path from the benchmark folder.

    ``tolerant`` are the pictures for which a tolerance (L3) is declared.
    """

    header: Header
    digests: dict[str, Digests]
    tolerant: frozenset[str]


def read_claims(path: Path) -> Claims:
    """Read ``<id>.inventory.json`` and its table.

    Raises:
        MedhebError: missing, of another version, not an inventory, or header and table do not belong together.
    """
    header = read_header(path)
    digests: dict[str, Digests] = {}
    tolerant: set[str] = set()
    for file in files_of(path, header):
        name = f"{header.images}/{file.path}"
        digests[name] = Digests(file.sha256, file.content, None, file.bytes)
        if file.facts.get("projector") in TOLERANT_PROJECTORS:
            tolerant.add(name)
    return Claims(header, digests, frozenset(tolerant))
