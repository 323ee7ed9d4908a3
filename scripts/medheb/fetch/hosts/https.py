"""Plain HTTPS: the manifest names every file, and its address where the host's rule does not give it.

``MEDHEB_HTTPS_URL`` replaces scheme and host of every base (tests, an institute's mirror); https, or this machine.
"""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote, urljoin, urlsplit

from medheb.fetch.addresses import base_url
from medheb.fetch.expected import expected_of
from medheb.fetch.http import download
from medheb.fetch.listing import named
from medheb.fetch.remote import RemoteFile
from medheb.manifest.config import Transfer
from medheb.manifest.dataset import Dataset
from medheb.manifest.hosts import HttpsHost

VARIABLE = "MEDHEB_HTTPS_URL"


class HttpsClient:
    """Files of one base address. A login comes from netrc only."""

    def listing(self, dataset: Dataset, host: HttpsHost) -> list[RemoteFile]:
        """The manifest's files; nothing is asked over the network."""
        base = host.base
        if os.environ.get(VARIABLE):
            base = base_url(VARIABLE, "") + urlsplit(base).path
        addresses = {file.path: urljoin(base, quote(file.path)) for file in dataset.files}
        return named(dataset, addresses, urlsplit(host.base).hostname or host.base)

    def fetch(self, dataset: Dataset, host: HttpsHost, file: RemoteFile, target: Path, transfer: Transfer) -> None:
        """One file."""
        download([file.address], target, expected_of(dataset, file), transfer, what=f"{dataset.id}: {file.path}")


CLIENT = HttpsClient()
