"""Zenodo: one request to the records API gives name, size, md5 and link of every file.

``MEDHEB_ZENODO_URL`` replaces https://zenodo.org (https, or this machine). ``ZENODO_TOKEN`` is only needed for
records with restricted files.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

from medheb.core.errors import MedhebError
from medheb.fetch.addresses import base_url, host_name
from medheb.fetch.credentials import Login
from medheb.fetch.expected import expected_of
from medheb.fetch.http import download
from medheb.fetch.listing import wanted
from medheb.fetch.remote import RemoteFile
from medheb.fetch.sessions import get_json
from medheb.manifest.config import Transfer
from medheb.manifest.dataset import Dataset
from medheb.manifest.hosts import ZenodoHost

VARIABLE, DEFAULT = "MEDHEB_ZENODO_URL", "https://zenodo.org"
TOKEN = "ZENODO_TOKEN"  # noqa: S105 - the name of a variable


class ZenodoClient:
    """Files of one record version."""

    def listing(self, dataset: Dataset, host: ZenodoHost) -> list[RemoteFile]:
        """Files of the record, or those that the manifest names (one record holds 165 of MedMNIST's)."""
        base, what = base_url(VARIABLE, DEFAULT), f"{dataset.id}: Zenodo record {host.record}"
        answer = get_json(f"{base}/api/records/{host.record}", what, Transfer(), _login(base))
        try:
            offered = [_file(entry, base, host.record) for entry in answer["files"]]
        except (KeyError, TypeError) as error:
            raise MedhebError(
                what, "Zenodo's answer has another form than expected", "The record may be closed: look at its page"
            ) from error
        return wanted(dataset, offered, what)

    def fetch(self, dataset: Dataset, host: ZenodoHost, file: RemoteFile, target: Path, transfer: Transfer) -> None:
        """One file."""
        login = _login(base_url(VARIABLE, DEFAULT))
        what = f"{dataset.id}: {file.path}"
        download([file.address], target, expected_of(dataset, file), transfer, login=login, what=what)


def _file(entry: dict[str, Any], base: str, record: str) -> RemoteFile:
    kind, _, digest = str(entry.get("checksum", "")).partition(":")
    name = str(entry["key"])
    # The API's own link is the same address; built here, it cannot lead elsewhere.
    address = f"{base}/api/records/{record}/files/{quote(name, safe='')}/content"
    return RemoteFile(
        path=name,
        address=address,
        bytes=int(entry["size"]),
        md5=digest if kind == "md5" else None,
        sha256=digest if kind == "sha256" else None,
    )


def _login(base: str) -> Login:
    return Login((host_name(base),), TOKEN)


CLIENT = ZenodoClient()
