"""Further text sources for the tiny benchmark, each with one task, from hosts that need something of the user."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import yaml
from tiny_benchmark import code_list, manifest

CODES_FILE = "codes.xml"
HUB = {"kind": "huggingface", "repository": "group/set", "revision": "b" * 40, "include": [CODES_FILE]}
SITE = {"kind": "https", "base": "https://data.example.org/"}
PHYSIONET = {"kind": "physionet", "slug": "made-up", "versions": ["1.0"]}


def content_of(identifier: str) -> bytes:
    """The code list as one source holds it; no two hold the same file, so that none is served by another's download."""
    return code_list() + f"<!-- {identifier} -->".encode()


def add_source(folder: Path, identifier: str, host: dict[str, Any], **changes: Any) -> None:
    """Add a source that holds the code list as a plain file, and the task ``<identifier>_t2t``."""
    content = content_of(identifier)
    entry = manifest(identifier, "text", "*", f"Text_Data/{identifier}", {"name": "icd10cm", "version": 1}, content)
    file = {"path": CODES_FILE, "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    entry |= {"host": host, "files": [{**file, "digest_source": "made by the tests"}], "unpack": None, **changes}
    sets = folder / "manifests" / "tiny"
    (sets / "datasets" / f"{identifier}.yaml").write_text(yaml.safe_dump(entry))
    tasks = (sets / "tasks.tsv").read_text()
    codes = next(line for line in tasks.splitlines() if line.startswith("Codes_t2t\t"))
    path = f"Text_Task/{identifier}/{identifier}_test.json"
    row = codes.replace("Codes_t2t", f"{identifier}_t2t").replace("\tcodes\t", f"\t{identifier}\t")
    (sets / "tasks.tsv").write_text(tasks + row.replace("Text_Task/Codes/Codes_test.json", path) + "\n")


def select(folder: Path, *identifiers: str) -> None:
    """Limit the run to some sources."""
    config = folder / "config" / "config.yaml"
    config.write_text(yaml.safe_dump(yaml.safe_load(config.read_text()) | {"datasets": list(identifiers)}))
