"""Portals that hand out links which expire (Stanford AIMI, Redivis): your own copy, or such a link for one run.

``MEDHEB_URL_<ID>`` holds the link (``MEDHEB_URL_CHEXPERT_PLUS`` for source ``chexpert_plus``), several in the order of
the manifest's files with blanks between. A link is as good as a login: it is read when used and never shown.
"""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import unquote, urlsplit

from medheb.core.errors import BlockedError, MedhebError
from medheb.fetch.addresses import require_safe
from medheb.fetch.expected import expected_of
from medheb.fetch.http import download
from medheb.fetch.listing import wanted
from medheb.fetch.remote import RemoteFile
from medheb.manifest.config import Transfer
from medheb.manifest.dataset import Dataset
from medheb.manifest.hosts import PortalHost

NAMES = {"stanford_aimi": "Stanford AIMI", "redivis": "Redivis"}


class PortalClient:
    """Nothing can be asked of these portals without a person."""

    def listing(self, dataset: Dataset, host: PortalHost) -> list[RemoteFile]:
        """The manifest's files, or the one that the link names if the manifest names none.

        Raises:
            BlockedError: there is no link; names the page to visit.
            MedhebError: the number of links is not the number of files.
        """
        variable = variable_of(dataset)
        links = os.environ.get(variable, "").split()
        if not links:
            raise BlockedError(
                dataset.id,
                f"{NAMES[host.name]} gives its files only to people who registered and accepted its terms",
                f"Visit {host.page}, then set local_copies.{dataset.id} to your copy, or {variable} to its link",
            )
        where = f"environment variable {variable}"
        for link in links:
            require_safe(link, where)
        paths = [file.path for file in dataset.files] or [
            unquote(urlsplit(link).path).rsplit("/", 1)[-1] for link in links
        ]
        if len(paths) != len(links):
            raise MedhebError(
                where,
                f"holds {len(links)} links, the manifest names {len(paths)} files",
                "Give one link a file, in order",
            )
        offered = [RemoteFile(path, link) for path, link in zip(paths, links, strict=True)]
        return wanted(dataset, offered, NAMES[host.name])

    def fetch(self, dataset: Dataset, host: PortalHost, file: RemoteFile, target: Path, transfer: Transfer) -> None:
        """One file through its link."""
        try:
            download([file.address], target, expected_of(dataset, file), transfer, what=f"{dataset.id}: {file.path}")
        except BlockedError as error:
            remedy = (
                f"If the link in {variable_of(dataset)} has expired, get a new one from {host.page}. {error.remedy}"
            )
            raise BlockedError(error.where, error.fault, remedy) from error


def variable_of(dataset: Dataset) -> str:
    """Environment variable that may hold the links of a source."""
    return f"MEDHEB_URL_{dataset.id.upper()}"


CLIENT = PortalClient()
