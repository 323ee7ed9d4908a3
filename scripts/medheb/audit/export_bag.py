"""BagIt 1.0 bag (RFC 8493) of a built source that may be passed on. Files are held against the record on their way."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from medheb.audit.export_croissant import shareable
from medheb.audit.measure import Problem, read_checked
from medheb.audit.tree import on_disk
from medheb.core.digests import sha256_bytes
from medheb.core.errors import MedhebError
from medheb.core.files import atomic_folder, write_bytes
from medheb.manifest.load import Run


def export_bag(run: Run, dataset: str, out: Path) -> int:
    """Write the bag into the folder ``out``, which it replaces; return the number of payload files.

    The payload is the source's files by their path from the benchmark folder; nothing that the record does not list.

    Raises:
        MedhebError: the source may not be passed on or is not built; a file is not as recorded.
    """
    manifest, record = shareable(run, dataset)
    size = 0
    with atomic_folder(out) as staging:
        for path, digests in record.files.items():
            content = read_checked(on_disk(run.layout.benchmark, path))
            problem = content.reason if isinstance(content, Problem) else ""
            if isinstance(content, bytes) and sha256_bytes(content) != digests.L1:
                problem = "is not as recorded"
            if problem or isinstance(content, Problem):
                raise MedhebError(run.layout.benchmark / path, problem, f"See `medheb audit verify --source {dataset}`")
            target = staging / "data" / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
            size += len(content)
        info = {
            "Bag-Software-Agent": "medheb audit export bagit",
            "External-Description": f"{manifest.title}, rebuilt for the benchmark MedHEB",
            "External-Identifier": f"{dataset} recipe {record.recipe} {record.recipe_version} L2 {record.roots['L2']}",
            "Rights": f"{manifest.licence.spdx or 'see'} {manifest.licence.url}",
            "Payload-Oxum": f"{size}.{len(record.files)}",
        }
        tags = {
            "bagit.txt": "BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\n",
            "bag-info.txt": "".join(f"{name}: {' '.join(text.split())}\n" for name, text in sorted(info.items())),
            "manifest-sha256.txt": _manifest({f"data/{path}": file.L1 for path, file in record.files.items()}),
        }
        for name, text in tags.items():
            write_bytes(staging / name, text.encode())
        listed = _manifest({name: sha256_bytes(text.encode()) for name, text in tags.items()})
        write_bytes(staging / "tagmanifest-sha256.txt", listed.encode())
    return len(record.files)


def _manifest(digests: Mapping[str, str]) -> str:
    """Lines of a BagIt manifest; per cent signs and line ends in names are encoded as the standard wants."""
    lines = []
    for path, digest in sorted(digests.items(), key=lambda item: item[0].encode()):
        name = path.replace("%", "%25").replace("\n", "%0A").replace("\r", "%0D")
        lines.append(f"{digest}  {name}\n")
    return "".join(lines)
