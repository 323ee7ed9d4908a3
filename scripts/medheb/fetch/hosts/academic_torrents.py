"""Torrents that are known to hold the same files: information for users, never fetched by us."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

from medheb.core.errors import BlockedError
from medheb.fetch.listing import named
from medheb.fetch.remote import RemoteFile
from medheb.manifest.config import Transfer
from medheb.manifest.dataset import Dataset
from medheb.manifest.hosts import TorrentHost


class TorrentClient:
    """Tells where the torrent is."""

    def listing(self, dataset: Dataset, host: TorrentHost) -> list[RemoteFile]:
        """The manifest's files; their address is the torrent's magnet link."""
        return named(dataset, {file.path: magnet(host) for file in dataset.files}, "a torrent")

    def fetch(
        self, dataset: Dataset, host: TorrentHost, file: RemoteFile, target: Path, transfer: Transfer
    ) -> NoReturn:
        """Always refuses.

        Raises:
            BlockedError: names the torrent and the configuration key for what came of it.
        """
        raise BlockedError(
            f"{dataset.id}: {file.path}",
            "is offered as a torrent, and torrents are not fetched",
            f"Get {magnet(host)} with a torrent client and set local_copies.{dataset.id} to its folder",
        )


def magnet(host: TorrentHost) -> str:
    """The magnet link of a torrent."""
    return f"magnet:?xt=urn:btih:{host.info_hash}"


CLIENT = TorrentClient()
