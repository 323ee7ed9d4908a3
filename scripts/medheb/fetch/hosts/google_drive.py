"""Client of Google Drive, on ``gdown``: one public file by its id, its confirmation page passed, quota pages told.

Drive shows neither size nor digest before the download, and no login helps, so none is sent and no cookies are kept.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any

import requests

from medheb.core.errors import BlockedError, MedhebError
from medheb.fetch.hosts._hub import library, settle, unreachable, work_folder
from medheb.fetch.limits import slot
from medheb.fetch.listing import wanted
from medheb.fetch.remote import RemoteFile
from medheb.fetch.sessions import CONNECT_TIMEOUT_S, READ_TIMEOUT_S, TransientError, request
from medheb.fetch.trouble import LATER
from medheb.manifest.config import Transfer
from medheb.manifest.dataset import Dataset
from medheb.manifest.hosts import GoogleDriveHost

SERVICE = "Google Drive"
OWN_COPY = "or download it there in a browser and name the folder under local_copies in the configuration"


class GoogleDriveClient:
    """See :class:`medheb.fetch.remote.HostClient`; an address is the file's id."""

    def listing(self, dataset: Dataset, host: GoogleDriveHost) -> list[RemoteFile]:
        """The one file, under the manifest's name; Drive is asked for the name only if the manifest has none."""
        if len(dataset.files) > 1:
            raise MedhebError(
                dataset.id, f"names {len(dataset.files)} files, but a {SERVICE} id is one file", "Name one file"
            )
        name = dataset.files[0].path if dataset.files else _name(dataset, host)
        return wanted(dataset, [RemoteFile(name, host.file_id)], SERVICE)

    def fetch(
        self, dataset: Dataset, host: GoogleDriveHost, file: RemoteFile, target: Path, transfer: Transfer
    ) -> None:
        """Download the file; a cut transfer is resumed by the library."""
        with slot(SERVICE, transfer.per_host), work_folder(target) as work:
            came = work / f"came{PurePosixPath(file.path).suffix}"
            _told(dataset, host, transfer, lambda gdown: gdown.download(output=str(came), **_options(host, transfer)))
            settle(dataset, file, came, target)


def _options(host: GoogleDriveHost, transfer: Transfer) -> dict[str, Any]:
    return {
        "id": host.file_id,
        "quiet": True,
        "use_cookies": False,
        "timeout": (CONNECT_TIMEOUT_S, READ_TIMEOUT_S),
        "retries": transfer.attempts - 1,
    }


def _name(dataset: Dataset, host: GoogleDriveHost) -> str:
    transfer = Transfer()
    found = _told(dataset, host, transfer, lambda gdown: gdown.download(skip_download=True, **_options(host, transfer)))
    return str(found.path)


def _page(host: GoogleDriveHost) -> str:
    return f"https://drive.google.com/file/d/{host.file_id}/view"


def _told(dataset: Dataset, host: GoogleDriveHost, transfer: Transfer, call: Callable[[Any], Any]) -> Any:
    """Result of a call, the library's errors turned into one refusal each; their own texts hold addresses."""
    gdown = library("gdown", "gdown")
    try:
        return call(gdown)
    except gdown.exceptions.FileURLRetrievalError as error:
        raise _no_file(dataset, host, transfer, str(error)) from None
    except (gdown.exceptions.DownloadError, requests.RequestException) as error:
        cause = error.__cause__ or error
        cut = isinstance(cause, requests.exceptions.ChunkedEncodingError)
        if isinstance(cause, requests.ConnectionError | requests.Timeout) and not cut:
            raise unreachable(dataset.id, SERVICE) from None
        raise BlockedError(dataset.id, f"the transfer from {SERVICE} was cut again and again", LATER) from None


def _no_file(dataset: Dataset, host: GoogleDriveHost, transfer: Transfer, message: str) -> MedhebError:
    text = " ".join(message.lower().split())
    if "too many users" in text or "quota" in text:
        return BlockedError(
            dataset.id,
            f"{SERVICE} has handed it out too often and makes a pause",
            f"Try again after 24 hours (`medheb retry` forgets this result); see {_page(host)}, {OWN_COPY}",
        )
    # The library does not look at the status of such an answer, and it is what tells gone from overloaded.
    try:
        with request(f"https://drive.google.com/uc?id={host.file_id}", dataset.id, transfer):
            pass
    except TransientError as error:
        return error.trouble
    except MedhebError as error:
        return error
    return BlockedError(
        dataset.id,
        f"{SERVICE} sent a web page without a link to the file: it is not public any more, or was asked for too often",
        f"Look at {_page(host)}, {OWN_COPY}",
    )


CLIENT = GoogleDriveClient()
