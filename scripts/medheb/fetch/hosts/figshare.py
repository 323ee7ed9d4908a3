"""figshare: the articles API gives name, size, md5 and link of every file.

``MEDHEB_FIGSHARE_URL`` replaces https://api.figshare.com/v2 (https, or this machine). ``FIGSHARE_TOKEN`` is only
needed for private articles.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from medheb.core.errors import BlockedError, MedhebError
from medheb.fetch.addresses import base_url, host_name, require_safe
from medheb.fetch.credentials import Login
from medheb.fetch.expected import expected_of
from medheb.fetch.http import download
from medheb.fetch.listing import wanted
from medheb.fetch.remote import RemoteFile
from medheb.fetch.sessions import get_json
from medheb.manifest.config import Transfer
from medheb.manifest.dataset import Dataset
from medheb.manifest.hosts import FigshareHost

VARIABLE, DEFAULT = "MEDHEB_FIGSHARE_URL", "https://api.figshare.com/v2"
TOKEN = "FIGSHARE_TOKEN"  # noqa: S105 - the name of a variable
PAGE_SIZE = 1000


class FigshareClient:
    """Files of one article, at one version if the manifest pins it."""

    def listing(self, dataset: Dataset, host: FigshareHost) -> list[RemoteFile]:
        """Files of the article, or those that the manifest names."""
        base, what = base_url(VARIABLE, DEFAULT), f"{dataset.id}: figshare article {host.article}"
        login = _login(base)
        try:
            entries = _entries(base, host, what, login)
            offered = [_file(entry, what) for entry in entries]
        except (KeyError, TypeError) as error:
            raise MedhebError(
                what, "figshare's answer has another form than expected", "Look at the article's page"
            ) from error
        return wanted(dataset, offered, what)

    def fetch(self, dataset: Dataset, host: FigshareHost, file: RemoteFile, target: Path, transfer: Transfer) -> None:
        """One file."""
        login = _login(base_url(VARIABLE, DEFAULT))
        what = f"{dataset.id}: {file.path}"
        download([file.address], target, expected_of(dataset, file), transfer, login=login, what=what)


def _entries(base: str, host: FigshareHost, what: str, login: Login) -> list[dict[str, Any]]:
    """All files: of a version in one answer, of the newest version page by page."""
    if host.version is not None:
        answer = get_json(f"{base}/articles/{host.article}/versions/{host.version}", what, Transfer(), login)
        return list(answer["files"])
    entries: list[dict[str, Any]] = []
    while True:
        page = len(entries) // PAGE_SIZE + 1
        address = f"{base}/articles/{host.article}/files?page={page}&page_size={PAGE_SIZE}"
        answer = get_json(address, what, Transfer(), login)
        entries += answer
        if len(answer) < PAGE_SIZE:
            return entries


def _file(entry: dict[str, Any], what: str) -> RemoteFile:
    if entry.get("is_link_only"):
        raise BlockedError(what, f"figshare only links to '{entry['name']}' elsewhere", "Use the host it links to")
    return RemoteFile(
        path=str(entry["name"]),
        address=require_safe(str(entry["download_url"]), what),
        bytes=int(entry["size"]),
        md5=entry.get("computed_md5") or entry.get("supplied_md5") or None,
    )


def _login(base: str) -> Login:
    return Login((host_name(base), "ndownloader.figshare.com"), TOKEN)


CLIENT = FigshareClient()
