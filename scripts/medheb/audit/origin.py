"""L0: which upstream archives a source was built from."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from medheb.audit.tree import something_at
from medheb.core.digests import merkle_root
from medheb.core.errors import MedhebError
from medheb.fetch.complete import read_complete
from medheb.fetch.listing import open_ended
from medheb.manifest.load import Run

UNKNOWN = "unknown"  # nobody has published or seen a digest; said openly, so that the root says it too


def archive_digests(run: Run, dataset: str) -> dict[str, str]:
    """sha256 of each archive as the manifest pins it, held against what fetch says it unpacked.

    The marker of fetch may be gone (unpacked sources are often deleted to save space); then the manifest
    speaks alone.

    Raises:
        MedhebError: the marker is damaged, or names another archive than the manifest.
    """
    pinned = {file.path: file.sha256 or UNKNOWN for file in run.datasets[dataset].files}
    marker = _marker(run, dataset)
    if not something_at(marker):
        return pinned
    manifest = run.datasets[dataset]
    accepted = {(file.path, other.sha256) for file in manifest.files for other in file.accepted}
    found = dict(pinned)
    for archive in read_complete(marker).archives:
        seen = archive.sha256 or UNKNOWN
        # A manifest that names no files of its host leaves it to the host which there are.
        wanted = pinned.get(archive.path, UNKNOWN if open_ended(manifest) else None)
        if wanted not in {UNKNOWN, seen} and (archive.path, seen) not in accepted:
            raise MedhebError(
                marker,
                "names an archive, or a digest of it, that the manifest does not pin",
                f"Fetch and build the source again: snakemake dataset_{dataset}",
            )
        found[archive.path] = seen
    return found


def archives_agree(run: Run, dataset: str, recorded: Mapping[str, str], root: str | None) -> bool:
    """True unless the manifest, or what fetch left behind, speaks against the recorded archives.

    Without the marker of fetch a digest that the manifest does not pin cannot be held against anything: a copy of a
    benchmark is audited where nothing was ever fetched.

    Args:
        run: the manifests.
        dataset: a source that was built.
        recorded: its recorded archives; empty where they are withheld.
        root: its recorded L0 root.

    Raises:
        MedhebError: the marker is damaged, or names another archive than the manifest.
        OSError: the marker cannot be read.
    """
    found = archive_digests(run, dataset)
    if merkle_root(found) == root:
        return True
    manifest = run.datasets[dataset]
    if something_at(_marker(run, dataset)):
        return False
    if not recorded:
        # By the root alone: it says something only if the manifest pins each digest, and no other would do.
        certain = all(file.sha256 and not file.accepted for file in manifest.files)
        return not certain or open_ended(manifest)
    allowed = {file.path: {file.sha256, *(other.sha256 for other in file.accepted)} for file in manifest.files}
    if allowed.keys() - recorded.keys() or (recorded.keys() - allowed.keys() and not open_ended(manifest)):
        return False
    return all(None in allowed[path] or recorded[path] in allowed[path] for path in allowed)


def _marker(run: Run, dataset: str) -> Path:
    return run.layout.source_files(dataset).with_name("COMPLETE.json")
