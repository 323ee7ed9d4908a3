"""Ask for one file's headers, where a host has no list that could be asked for."""

from __future__ import annotations

from dataclasses import dataclass

from medheb.fetch.addresses import host_name
from medheb.fetch.bodies import HEAD_BYTES, refuse_page
from medheb.fetch.credentials import Login
from medheb.fetch.expected import manifest_file
from medheb.fetch.remote import RemoteFile
from medheb.fetch.sessions import Patience, TransientError, request
from medheb.manifest.config import Transfer
from medheb.manifest.dataset import Dataset

# The manifest names the files of these; their clients list without asking. Variables hold optional tokens.
PROBED = {"https": "", "github": "GITHUB_TOKEN"}


@dataclass(frozen=True)
class Headers:
    """What a host says of a file without sending it: size in bytes, and its ETag or Last-Modified."""

    bytes: int | None
    mark: str | None


def probe(dataset: Dataset, file: RemoteFile, transfer: Transfer) -> Headers:
    """Ask for a file and stop reading after its first bytes, which must not be a web page.

    Raises:
        BlockedError: no login, wrong login, forbidden, gone, a web page instead, or the server is down.
        MedhebError: an address that is not https.
    """
    what = f"{dataset.id}: {file.path}" if dataset.show_content else f"{dataset.id}: a file"
    pinned = manifest_file(dataset, file.path)
    # A file's own address may lead anywhere; the host's token is not for it.
    variable = "" if pinned and pinned.url else PROBED[dataset.host.kind]
    login = Login((host_name(file.address),), variable)
    patience = Patience(transfer)
    while True:
        try:
            with request(file.address, what, transfer, login) as response:
                headers = response.headers
                refuse_page(what, file.path, headers.get("Content-Type", ""), response.raw.read(HEAD_BYTES))
                length = headers.get("Content-Length", "")
                plain = headers.get("Content-Encoding", "identity") == "identity"
                return Headers(
                    int(length) if plain and length.isdigit() else None,
                    headers.get("ETag") or headers.get("Last-Modified"),
                )
        except TransientError as error:
            patience.after(error)
