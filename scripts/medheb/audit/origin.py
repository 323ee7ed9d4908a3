"""L0: which upstream archives a source was built from."""

from __future__ import annotations

from medheb.audit.tree import something_at
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
    marker = run.layout.source_files(dataset).with_name("COMPLETE.json")
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
