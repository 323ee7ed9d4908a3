"""Where a source's files lie: the user's own verified copy, or the folder of its download. All that ``build`` asks."""

from __future__ import annotations

from pathlib import Path

from medheb.core.errors import MedhebError
from medheb.core.layout import Layout
from medheb.manifest.base import Strict, read_json, validate
from medheb.manifest.dataset import Dataset
from medheb.manifest.load import Run

SCHEMA_VERSION = 1


class CopiedProject(Strict):
    """Where one project of a verified copy lies, and what was checked of it. It names no file."""

    root: str
    layout: str
    slug: str
    version: str
    listed: int
    checked: int
    counts: dict[str, int]
    bytes: int
    list_sha256: str | None


class LocalCopy(CopiedProject):
    """Content of ``local.json``: where ``build`` finds a verified copy. It names no file of the copy."""

    schema_version: int = SCHEMA_VERSION
    dataset: str
    full: bool
    notes: tuple[str, ...]
    also: tuple[CopiedProject, ...] = ()


def local_copy_file(layout: Layout, dataset: str) -> Path:
    """Where what is known of a source's verified copy stands."""
    return layout.source_status(dataset).with_name("local.json")


def read_local_copy(path: Path) -> LocalCopy:
    """Read a ``local.json``.

    Raises:
        MedhebError: missing, or not such a file.
    """
    return validate(LocalCopy, read_json(path, "Verify the copy again: run the workflow"), path)


def files_of(run: Run, dataset: Dataset) -> Path:
    """Folder that holds a source's files: the root of its verified copy, else where downloads are unpacked.

    Of a source that needs several projects this is the first; see :func:`also_of` for the others.

    Raises:
        MedhebError: the configuration names a copy that was not found right yet.
    """
    if dataset.id in run.config.local_copies:
        return Path(read_local_copy(local_copy_file(run.layout, dataset.id)).root)
    return run.layout.source_files(dataset.id)


def also_of(run: Run, dataset: Dataset) -> dict[str, Path]:
    """Roots of the further projects that a source needs (``also`` of its manifest), by slug, in manifest order.

    Raises:
        MedhebError: the configuration names no copy, or none that was found right yet with all of its projects.
    """
    if not dataset.also:
        return {}
    path = local_copy_file(run.layout, dataset.id)
    roots = {project.slug: Path(project.root) for project in read_local_copy(path).also}
    slugs = [host.slug for host in dataset.also]
    if list(roots) != slugs:
        raise MedhebError(path, f"is not about {', '.join(slugs)}", "Verify the copy again: run the workflow")
    return roots
