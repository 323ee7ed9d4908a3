"""Small sources in their hosts' layouts, built without a run, and what is compared of them."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from medheb.build.inventory import Inventory
from medheb.build.run import build_from
from medheb.build.source import ProtocolName
from medheb.core.digests import merkle_root
from medheb.manifest.load import load_dataset

MANIFESTS = Path(__file__).resolve().parents[2] / "manifests" / "datasets"


def built(
    dataset_id: str,
    files: Path,
    out: Path,
    protocol: ProtocolName = "corrected",
    workers: int = 1,
    options: dict[str, Any] | None = None,
) -> Inventory:
    """Build a source with its real manifest; ``options`` change single settings of it."""
    dataset = load_dataset(MANIFESTS / f"{dataset_id}.yaml")
    recipe = dataset.recipe.model_copy(update={"options": dataset.recipe.options | (options or {})})
    return build_from(dataset.model_copy(update={"recipe": recipe}), files, out, protocol, "cone", workers)


def lock(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Make every folder of this name refuse to be listed, as for a user without rights (tests may run as root)."""
    listed = Path.iterdir

    def iterdir(self: Path) -> Iterator[Path]:
        if self.name == name:
            raise PermissionError(errno.EACCES, "Permission denied", str(self))
        return listed(self)

    monkeypatch.setattr(Path, "iterdir", iterdir)


def root(inventory: Inventory) -> str:
    """Merkle root over the contents of all files, shortened."""
    return merkle_root({file.path: file.content for file in inventory.files})[:16]


def faults(inventory: Inventory) -> list[str]:
    """What was refused, one text each."""
    return [f"{refusal.where}: {refusal.fault}. {refusal.remedy}" for refusal in inventory.refusals]
