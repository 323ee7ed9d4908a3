"""Manifests, folders and searches that all tests of hub clients share."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest

from medheb.manifest.config import Transfer
from medheb.manifest.dataset import AcceptedDigest, Dataset, Licence, Recipe, SourceFile

TRANSFER = Transfer(attempts=2)
CANARY = "canary_Zq81_token_value"


def source_file(path: str, body: bytes | None = None, accepted: bytes | None = None, md5: str | None = None) -> Any:
    alternates = (AcceptedDigest(sha256=sha256(accepted), note="erratum of the publisher"),) if accepted else ()
    return SourceFile(
        path=path,
        bytes=None if body is None else len(body),
        sha256=None if body is None else sha256(body),
        md5=md5,
        digest_source="made by the test",
        accepted=alternates,
    )


def dataset(host: Any, *files: SourceFile, show_content: bool = True) -> Dataset:
    return Dataset(
        id="sample_set",
        title="Sample",
        form="2d",
        modality=("ct",),
        access="open",
        licence=Licence(spdx="CC0-1.0", url="https://example.org"),
        redistribution=show_content,
        show_content=show_content,
        host=host,
        files=files,
        files_note="not listed",
        recipe=Recipe(name="none", version=1),
        images="Sample",
        links=("https://example.org",),
        citation="none",
    )


def sha256(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def md5(body: bytes) -> str:
    return hashlib.md5(body).hexdigest()


def tree(folder: Path) -> list[str]:
    """All files below a folder, hidden ones too: leftovers show."""
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def assert_nowhere(secret: str, folder: Path, *texts: str) -> None:
    for path in folder.rglob("*"):
        assert secret not in path.name
        if path.is_file():
            assert secret.encode() not in path.read_bytes(), path
    for text in texts:
        assert secret not in text


def clean_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home without any credentials."""
    home = tmp_path / "home"
    home.mkdir(exist_ok=True)
    monkeypatch.setenv("HOME", str(home))
    for name in list(os.environ):
        if name.startswith(("HF_", "KAGGLE", "SYNAPSE", "MODELSCOPE", "HUGGING")) or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    return home
