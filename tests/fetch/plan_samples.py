"""Small runs for the tests of terms, plan, doctor and refresh: manifests in memory, folders below a test's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from medheb.core.layout import Layout
from medheb.core.status import OK, write_status
from medheb.manifest.config import Config
from medheb.manifest.dataset import Dataset
from medheb.manifest.load import Run
from medheb.manifest.protocol import Protocol

HOSTS: dict[str, dict[str, Any]] = {
    "https": {"kind": "https", "base": "https://example.org/"},
    "zenodo": {"kind": "zenodo", "record": "1"},
    "huggingface": {"kind": "huggingface", "repository": "some/set"},
    "kaggle_dataset": {"kind": "kaggle_dataset", "name": "some/set"},
    "synapse": {"kind": "synapse", "entities": ["syn1"]},
    "physionet": {"kind": "physionet", "slug": "some-set", "versions": ["1.0.0"]},
    "portal": {"kind": "portal", "name": "redivis", "page": "https://example.org/portal"},
    "academic_torrents": {"kind": "academic_torrents", "info_hash": "0" * 40},
    "google_drive": {"kind": "google_drive", "file_id": "abcdefghij1"},
    "package": {"kind": "package", "name": "p", "version": "1.0", "format": "wheel"},
}


def file(path: str = "a.zip", size: int | None = 1000, sha256: str | None = None) -> dict[str, Any]:
    """One file of a manifest."""
    return {"path": path, "bytes": size, "sha256": sha256, "digest_source": "made up by a test"}


def dataset(key: str, kind: str = "https", **changes: Any) -> Dataset:
    """A manifest."""
    fields: dict[str, Any] = {
        "id": key,
        "title": f"Source {key}",
        "form": "2d",
        "modality": ["CT"],
        "access": "open",
        "licence": {"spdx": "CC-BY-4.0", "url": f"https://example.org/{key}/terms", "note": "cite it"},
        "redistribution": True,
        "show_content": True,
        "host": HOSTS[kind],
        "files": [file()],
        "disk_bytes": 3000,
        "inodes": 10,
        "recipe": {"name": "pictures", "version": 1},
        "images": f"2D_Images/{key}",
        "links": [f"https://example.org/{key}"],
        "citation": "Nobody, nowhere.",
    }
    return Dataset.model_validate(fields | changes)


def closed(key: str, kind: str = "physionet", **changes: Any) -> Dataset:
    """A credentialed manifest."""
    rules = {"access": "credentialed", "redistribution": False, "show_content": False}
    return dataset(key, kind, **(rules | {"files": [], "files_note": "listed by the host only"} | changes))


def make_run(folder: Path, *datasets: Dataset, **settings: Any) -> Run:
    """A run of these sources."""
    return Run(
        config=Config.model_validate({"manifests": "set", **settings}),
        layout=Layout(folder / "sources", folder / "MedHEB", folder / "results"),
        datasets={entry.id: entry for entry in datasets},
        tasks={},
        models={},
        protocol=Protocol(
            name="corrected", title="made up", ties="expected", candidate_identity="content", text_cleaning=False,
            tie_tolerance=1e-6,
        ),
    )  # fmt: skip


def mark_fetched(run: Run, key: str) -> None:
    """As a finished fetch leaves it."""
    run.layout.source_files(key).mkdir(parents=True)
    write_status(run.layout.source_status(key), OK)
