"""The lock of a source: what was really seen at its host. Written by ``medheb refresh``, read by the workflow.

A lock is committed beside the manifests. For a source whose paths must not be shown it holds counts, bytes and one
digest of the list, never a path.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pydantic import Field

from medheb.core.digests import json_digest
from medheb.core.errors import MedhebError
from medheb.manifest.base import Identifier, Md5, RelativePath, Sha256, Strict, read_json, validate
from medheb.manifest.dataset import Dataset
from medheb.manifest.hosts import Host
from medheb.manifest.load import Run


class LockedFile(Strict):
    """One file as its host lists it; null where the host says nothing."""

    path: RelativePath
    bytes: int | None = Field(ge=0)
    sha256: Sha256 | None
    md5: Md5 | None
    mark: str | None = Field(default=None, description="the host's ETag or Last-Modified, where that is all it says")


class Lock(Strict):
    """Content of ``locks/<id>.json``."""

    schema_version: int = 1
    dataset: Identifier
    host: Host = Field(description="the manifest's host when it was asked")
    revision: str | None = Field(description="what the host called its newest state, where the manifest pins none")
    seen: str = Field(pattern=r"^\d{4}-\d\d-\d\d$", description="UTC date on which this was first seen")
    count: int = Field(ge=0, description="files")
    bytes: int | None = Field(ge=0, description="all files together, null if the host does not tell all sizes")
    list_digest: Sha256 = Field(description="sha256 of the canonical JSON of the list of files")
    files: tuple[LockedFile, ...] = Field(description="empty where paths must not be shown")


def lock_file(run: Run, dataset: str) -> Path:
    """Where a source's lock lies: ``locks`` of the manifest set."""
    return Path(run.config.manifests) / "locks" / f"{dataset}.json"


def read_lock(path: Path) -> Lock | None:
    """Read a lock; None if there is none.

    Raises:
        MedhebError: it is damaged.
    """
    if not path.exists():
        return None
    return validate(Lock, read_json(path, "Make a new one with `medheb refresh`"), path)


def make_lock(dataset: Dataset, files: Iterable[LockedFile], seen: str, revision: str | None = None) -> Lock:
    """The lock of what a host listed.

    Args:
        dataset: the source.
        files: what its host lists, in any order.
        seen: date, YYYY-MM-DD.
        revision: the host's name of what it listed, where the manifest pins none.

    Raises:
        MedhebError: a path occurs twice.
    """
    by_path: dict[str, LockedFile] = {}
    for file in files:
        if file.path in by_path:
            raise MedhebError(
                f"the host's list of {dataset.id}", "holds a path twice", "Report it to the host; nothing was written"
            )
        by_path[file.path] = file
    ordered = tuple(by_path[path] for path in sorted(by_path))
    known = [file.bytes for file in ordered if file.bytes is not None]
    return Lock(
        dataset=dataset.id,
        host=dataset.host,
        revision=revision,
        seen=seen,
        count=len(ordered),
        bytes=sum(known) if len(known) == len(ordered) else None,
        list_digest=json_digest([file.model_dump() for file in ordered]),
        files=ordered if dataset.show_content else (),
    )
