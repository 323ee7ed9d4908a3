"""OSF: the v2 API lists the project's storage folder by folder and page by page, with size, md5 and sha256.

``MEDHEB_OSF_URL`` replaces https://api.osf.io/v2 (https, or this machine). ``OSF_TOKEN`` is only needed for private
projects.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from medheb.core.errors import MedhebError
from medheb.fetch.addresses import base_url, host_name, require_safe
from medheb.fetch.credentials import Login
from medheb.fetch.expected import expected_of
from medheb.fetch.http import download
from medheb.fetch.listing import wanted
from medheb.fetch.remote import RemoteFile
from medheb.fetch.sessions import get_json
from medheb.manifest.config import Transfer
from medheb.manifest.dataset import Dataset
from medheb.manifest.hosts import OsfHost

VARIABLE, DEFAULT = "MEDHEB_OSF_URL", "https://api.osf.io/v2"
TOKEN = "OSF_TOKEN"  # noqa: S105 - the name of a variable
FILE_HOSTS = ("osf.io", "files.osf.io")
# A project of ours has tens of pages; a listing that runs in a circle has no end.
MAX_PAGES = 10_000


class OsfClient:
    """Files of a project's own storage."""

    def listing(self, dataset: Dataset, host: OsfHost) -> list[RemoteFile]:
        """All files of the project, or those that the manifest names; paths are those shown on its page."""
        base, what = base_url(VARIABLE, DEFAULT), f"{dataset.id}: OSF project {host.node}"
        waiting = [f"{base}/nodes/{host.node}/files/osfstorage/"]
        offered: list[RemoteFile] = []
        pages = 0
        try:
            while waiting:
                pages += 1
                if pages > MAX_PAGES:
                    raise MedhebError(what, f"OSF lists more than {MAX_PAGES} pages", "Name the files in the manifest")
                answer = get_json(require_safe(waiting.pop(), what), what, Transfer(), _login(base))
                if following := answer["links"].get("next"):
                    waiting.append(str(following))
                for entry in answer["data"]:
                    if entry["attributes"]["kind"] == "folder":
                        waiting.append(str(entry["relationships"]["files"]["links"]["related"]["href"]))
                    else:
                        offered.append(_file(entry, what))
        except (KeyError, TypeError) as error:
            raise MedhebError(
                what, "OSF's answer has another form than expected", "Look at the project's page"
            ) from error
        return wanted(dataset, offered, what)

    def fetch(self, dataset: Dataset, host: OsfHost, file: RemoteFile, target: Path, transfer: Transfer) -> None:
        """One file."""
        login = _login(base_url(VARIABLE, DEFAULT))
        what = f"{dataset.id}: {file.path}"
        download([file.address], target, expected_of(dataset, file), transfer, login=login, what=what)


def _file(entry: dict[str, Any], what: str) -> RemoteFile:
    attributes = entry["attributes"]
    hashes = (attributes.get("extra") or {}).get("hashes") or {}
    size = attributes.get("size")
    return RemoteFile(
        path=str(attributes["materialized_path"]).removeprefix("/"),
        address=require_safe(str(entry["links"]["download"]), what),
        bytes=None if size is None else int(size),
        sha256=hashes.get("sha256"),
        md5=hashes.get("md5"),
    )


def _login(base: str) -> Login:
    return Login((host_name(base), *FILE_HOSTS), TOKEN)


CLIENT = OsfClient()
