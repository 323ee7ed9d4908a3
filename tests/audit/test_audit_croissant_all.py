"""Croissant of every real source that may be passed on, from its manifest and made-up files; the validator agrees."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from audit_bench import Bench
from test_audit_exports import validators

from medheb.audit.export_croissant import export_croissant
from medheb.audit.origin import UNKNOWN
from medheb.audit.schema import FileDigests, SourceRecord, exact_root, record_path, source_roots, sums_path
from medheb.core.digests import sha256_bytes, sha256sums
from medheb.core.errors import MedhebError
from medheb.core.files import write_json, write_text
from medheb.manifest.dataset import Dataset
from medheb.manifest.load import load_datasets

__all__ = ["validators"]
MANIFESTS = Path(__file__).resolve().parents[2] / "manifests"
FILES = ("slices/case 1/000.png", "b.jpeg", "questions/test.jsonl", "selection/test.txt", "labels.csv", "größe.npy")
VALIDATE = """
import sys, mlcroissant
for path in sys.argv[1:]:
    report = mlcroissant.Dataset(path).metadata.issues.report()
    print(path, report) if report else None
"""


def sources() -> dict[str, Dataset]:
    """All sources of both sets of manifests."""
    return load_datasets(MANIFESTS / "datasets") | load_datasets(MANIFESTS / "demo" / "datasets")


def recorded_as_built(bench: Bench, dataset: Dataset) -> None:
    """Write what recording leaves of a source, for files that do not exist."""
    paths = [f"{dataset.images}/{name}" for name in FILES]
    files = {
        path: FileDigests(bytes=1, L1=sha256_bytes(path.encode()), L2=f"bytes1:{sha256_bytes(path.encode())}")
        for path in paths
    }
    archives = {file.path: file.sha256 or UNKNOWN for file in dataset.files}
    record = SourceRecord(
        dataset=dataset.id, state="built", withheld=False, recipe=dataset.recipe.name, file_count=len(files),
        recipe_version=dataset.recipe.version, archive_count=len(archives), roots=source_roots(archives, files),
        exact=exact_root(files), archives=archives, files=files,
    )  # fmt: skip
    path = record_path(bench.layout, dataset.id)
    path.parent.mkdir(parents=True)
    write_json(path, record.model_dump(exclude_none=True))
    write_text(sums_path(bench.layout, dataset.id), sha256sums({path: file.L1 for path, file in files.items()}))
    bench.run.datasets[dataset.id] = dataset


@pytest.fixture
def exported(whole: Bench, tmp_path: Path) -> dict[str, Path]:
    """Descriptions of all that may be passed on, by source."""
    paths: dict[str, Path] = {}
    for name, dataset in sources().items():
        recorded_as_built(whole, dataset)
        if dataset.redistribution and dataset.show_content:
            paths[name] = export_croissant(whole.run, name, tmp_path / "croissant")
        else:
            with pytest.raises(MedhebError, match=rf"source '{name}': may not be passed on under its terms"):
                export_croissant(whole.run, name, tmp_path / "croissant")
    return paths


def test_every_source_that_may_be_passed_on_says_licence_terms_and_digests(exported: dict[str, Path]) -> None:
    known = sources()
    assert exported.keys() == {name for name, one in known.items() if one.redistribution and one.show_content}
    assert len(exported) >= 30
    for name, path in exported.items():
        content: dict[str, Any] = json.loads(path.read_bytes())
        assert content["license"] == f"https://spdx.org/licenses/{known[name].licence.spdx}"
        assert content["usageInfo"].startswith("https://")
        objects = [one for one in content["distribution"] if one["@type"] == "cr:FileObject"]
        pinned = {file.path: file.sha256 for file in known[name].files if file.sha256}
        assert {one["name"]: one["sha256"] for one in objects} == pinned | {"SHA256SUMS": objects[0]["sha256"]}


def test_the_validator_accepts_every_one(exported: dict[str, Path], validators: str) -> None:
    offline = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")
    command = [validators, "-c", VALIDATE, *map(str, exported.values())]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **offline})
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr[-3000:]
