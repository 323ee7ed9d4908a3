"""Runs of one source, and what a fetch leaves of them."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from medheb.core.layout import Layout
from medheb.core.status import OK
from medheb.fetch.source import fetch_source
from medheb.manifest.config import Config, Transfer
from medheb.manifest.dataset import Dataset, Licence, Recipe, SourceFile
from medheb.manifest.hosts import Host
from medheb.manifest.load import Run
from medheb.manifest.protocol import Protocol


def pinned(path: str, content: bytes, **changes: Any) -> SourceFile:
    fields: dict[str, Any] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    return SourceFile(path=path, digest_source="the test", **(fields | changes))


def loose(path: str, **changes: Any) -> SourceFile:
    return SourceFile(path=path, digest_source="nobody has seen it", **({"bytes": None, "sha256": None} | changes))


def a_run(layout: Layout, host: Host, *files: SourceFile, config: Config | None = None, **changes: Any) -> Run:
    fields: dict[str, Any] = {
        "id": "sample",
        "title": "A sample",
        "form": "2d",
        "modality": ("text",),
        "access": "open",
        "licence": Licence(spdx=None, url="https://example.org"),
        "redistribution": True,
        "show_content": True,
        "host": host,
        "files": files,
        "files_note": "the host lists them",
        "recipe": Recipe(name="sample", version=1),
        "images": "2D_Images/sample",
        "links": ("https://example.org",),
        "citation": "The tests",
    }
    dataset = Dataset(**(fields | changes))
    return Run(
        config=config or Config(accept="open", transfer=Transfer(attempts=2)),
        layout=layout,
        datasets={"sample": dataset},
        tasks={},
        models={},
        protocol=Protocol.model_construct(),
    )


def content(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def delivered(run: Run) -> dict[str, bytes]:
    assert fetch_source(run, "sample") == OK
    return content(run.layout.source_files("sample"))
