"""Small sources in their hosts' layouts, built without a run, and what is compared of them."""

from __future__ import annotations

import builtins
import errno
import io
import os
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


def deny(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Take away all rights on a folder, in the calls and not on the disk: tests may run as root, who may do all."""
    real = {name: getattr(os, name) for name in ("stat", "scandir", "listdir")}
    opened = io.open

    def refused(path: object) -> bool:
        return isinstance(path, str | os.PathLike) and folder in Path(os.fspath(path)).absolute().parents

    def error(path: object) -> PermissionError:
        return PermissionError(errno.EACCES, "Permission denied", os.fspath(path))  # type: ignore[call-overload]

    def stat(path: object, *rest: object, **named: object) -> object:
        if refused(path):
            raise error(path)
        return real["stat"](path, *rest, **named)

    def scandir(path: object = ".") -> object:
        if path == os.fspath(folder) or path == folder or refused(path):
            raise error(path)
        return real["scandir"](path)

    def listdir(path: object = ".") -> object:
        with scandir(path) as entries:  # type: ignore[attr-defined]
            return [entry.name for entry in entries]

    def locked(path: object, *rest: object, **named: object) -> object:
        if refused(path):
            raise error(path)
        return opened(path, *rest, **named)  # type: ignore[call-overload]

    for owner, name, function in (
        (os, "stat", stat),
        (os, "scandir", scandir),
        (os, "listdir", listdir),
        (io, "open", locked),
        (builtins, "open", locked),
    ):
        monkeypatch.setattr(owner, name, function)


def root(inventory: Inventory) -> str:
    """Merkle root over the contents of all files, shortened."""
    return merkle_root({file.path: file.content for file in inventory.files})[:16]


def faults(inventory: Inventory) -> list[str]:
    """What was refused, one text each."""
    return [f"{refusal.where}: {refusal.fault}. {refusal.remedy}" for refusal in inventory.refusals]
