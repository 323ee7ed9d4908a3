"""The inventory: what ``build`` wrote for one source, and what is known of each file.

It lies inside the image folder, is written last, and is all that later steps read of ``build``.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from medheb.core.files import write_json
from medheb.core.status import Status
from medheb.manifest.base import RelativePath, Sha256, Strict, read_json, validate

SCHEMA_VERSION = 1
Fact = str | int | float | bool | None


class BuiltFile(Strict):
    """One file of the image folder.

    ``path`` is relative to the image folder. ``sha256`` is L1, ``content`` the L2 digest. ``facts``
    hold what index builders and readers need, for example kind, case, label, side, slice, window.
    """

    path: RelativePath
    bytes: int = Field(ge=0)
    sha256: Sha256
    content: str
    facts: dict[str, Fact] = Field(default_factory=dict)


class Inventory(Strict):
    """All files of one source, sorted by path, with the recipe that made them."""

    schema_version: int = SCHEMA_VERSION
    dataset: str
    images: RelativePath
    recipe: str
    recipe_version: int
    status: Status
    files: tuple[BuiltFile, ...] = ()
    notes: tuple[str, ...] = Field(default=(), description="what was skipped or is thin, in the report's words")

    def of_kind(self, kind: str) -> list[BuiltFile]:
        """Files whose fact ``kind`` is ``kind``, in path order."""
        return [file for file in self.files if file.facts.get("kind") == kind]


def write_inventory(path: Path, inventory: Inventory) -> None:
    """Write an inventory atomically."""
    write_json(path, inventory.model_dump())


def read_inventory(path: Path) -> Inventory:
    """Read an inventory.

    Raises:
        MedhebError: missing, or not an inventory.
    """
    return validate(
        Inventory, read_json(path, f"Run `medheb rebuild {path.name.split('.')[0]}`, then the workflow"), path
    )
