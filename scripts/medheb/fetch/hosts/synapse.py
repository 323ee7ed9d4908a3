"""Client of Synapse, on ``synapseclient``: files and folders by their ids, md5 of the site, conditions of use.

``SYNAPSE_AUTH_TOKEN`` or ``~/.synapseConfig`` (mode 600) hold the token; the latter's ``[endpoints]`` name another
site. The library asks and lists; from the signed address of the store on, our own transfer takes over, because the
library would try a store that is down for half an hour.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import requests

from medheb.core.errors import BlockedError, MedhebError
from medheb.fetch.credentials import secret
from medheb.fetch.expected import expected_of
from medheb.fetch.hosts._hub import hush, library, place, refused, require_private, unreachable
from medheb.fetch.http import download
from medheb.fetch.listing import wanted
from medheb.fetch.remote import RemoteFile
from medheb.fetch.trouble import NETWORK
from medheb.manifest.config import Transfer
from medheb.manifest.dataset import Dataset
from medheb.manifest.hosts import SynapseHost

SERVICE = "Synapse"
SITE = "https://www.synapse.org"
TOKEN_HELP = (
    f"Make a token with the scopes view and download at {SITE}/PersonalAccessTokens: and set SYNAPSE_AUTH_TOKEN"
)
FILE_TYPE = "org.sagebionetworks.repo.model.FileEntity"
CONTAINERS = {"org.sagebionetworks.repo.model.Folder", "org.sagebionetworks.repo.model.Project"}
FOLDER_KIND = "org.sagebionetworks.repo.model.Folder"


class SynapseClient:
    """See :class:`medheb.fetch.remote.HostClient`; an address is ``<entity>:<file handle>``."""

    def listing(self, dataset: Dataset, host: SynapseHost) -> list[RemoteFile]:
        """All files of the entities, those of folders with their paths below them; md5 and size of the site."""
        syn = _site(dataset)
        offered = [file for entity in host.entities for file in _files(syn, dataset, entity, "")]
        return wanted(dataset, offered, SERVICE)

    def fetch(self, dataset: Dataset, host: SynapseHost, file: RemoteFile, target: Path, transfer: Transfer) -> None:
        """Ask for a signed address and download from it."""
        entity, _, handle = file.address.partition(":")
        syn = _site(dataset)
        order = {
            "includeFileHandles": True,
            "includePreSignedURLs": True,
            "requestedFiles": [
                {"fileHandleId": handle, "associateObjectId": entity, "associateObjectType": "FileEntity"}
            ],
        }
        answer = _told(
            dataset,
            entity,
            lambda: syn.restPOST(
                "/fileHandle/batch", json.dumps(order), endpoint=syn.fileHandleEndpoint, retryPolicy=_policy(transfer)
            ),
        )
        found = answer["requestedFiles"][0]
        failure = found.get("failureCode")
        if failure == "UNAUTHORIZED":
            raise _conditions(dataset, entity)
        if failure or "preSignedURL" not in found:
            raise refused(dataset, SERVICE, 404, _page(entity))
        what = place(dataset, file.path)
        download([found["preSignedURL"]], target, expected_of(dataset, file), transfer, what=what)


def _site(dataset: Dataset) -> Any:
    core = library("synapseclient", "synapseclient")
    data = library("synapseclient", "synapseclient.core.credentials.cred_data")
    errors = library("synapseclient", "synapseclient.core.exceptions")
    hush("synapseclient_default", "synapseclient_debug", "synapseclient", "httpx", "httpcore")
    config = Path.home() / ".synapseConfig"
    try:
        token = _token(config)
        # Nothing is cached: the library is never asked for content.
        syn = core.Synapse(configPath=str(config), skip_checks=True, silent=True, debug=False, cache_client=False)
    except ValueError:
        # The error's own text may quote a token.
        raise BlockedError(config.name, "cannot be parsed", "Correct it") from None
    if not token:
        raise BlockedError(dataset.id, f"{SERVICE} wants a login and there is none", TOKEN_HELP)
    try:
        syn.credentials = data.SynapseAuthTokenCredentials(token)
    except errors.SynapseAuthenticationError:
        raise BlockedError(dataset.id, "the token lacks the scope view", TOKEN_HELP) from None
    return syn


def _token(config: Path) -> str:
    if token := secret("SYNAPSE_AUTH_TOKEN", "www.synapse.org"):
        return token
    settings = library("synapseclient", "synapseclient.api.configuration_services")
    profile = os.environ.get("SYNAPSE_PROFILE", "default")
    token = settings.get_config_authentication(config_path=str(config), profile=profile).get("authtoken", "")
    if token:
        require_private(config)
    return str(token)


def _page(entity: str) -> str:
    return f"{SITE}/Synapse:{entity}"


def _policy(transfer: Transfer) -> dict[str, int]:
    return {"retries": transfer.attempts - 1}


def _files(syn: Any, dataset: Dataset, entity: str, folder: str) -> Iterator[RemoteFile]:
    parts = {"includeEntity": True, "includeFileHandles": True, "includeRestrictionInformation": True}
    bundle = _post(syn, dataset, entity, f"/entity/{entity}/bundle2", parts)
    if bundle.get("restrictionInformation", {}).get("hasUnmetAccessRequirement"):
        raise _conditions(dataset, entity)
    described = bundle["entity"]
    kind = described["concreteType"]
    if kind == FILE_TYPE:
        yield _remote(bundle, folder)
    elif kind in CONTAINERS:
        for child in _children(syn, dataset, entity):
            below = f"{folder}{child['name']}/" if child["type"] == FOLDER_KIND else folder
            yield from _files(syn, dataset, child["id"], below)
    else:
        raise MedhebError(dataset.id, f"{entity} is neither file nor folder at {SERVICE}", "Correct host.entities")


def _remote(bundle: dict[str, Any], folder: str) -> RemoteFile:
    entity = bundle["entity"]
    handle = entity["dataFileHandleId"]
    content: dict[str, Any] = next((found for found in bundle.get("fileHandles", ()) if found["id"] == handle), {})
    name = content.get("fileName") or entity["name"]
    return RemoteFile(
        f"{folder}{name}",
        f"{entity['id']}:{handle}",
        bytes=content.get("contentSize"),
        md5=content.get("contentMd5"),
    )


def _children(syn: Any, dataset: Dataset, entity: str) -> Iterator[dict[str, Any]]:
    order: dict[str, Any] = {"parentId": entity, "includeTypes": ["file", "folder"], "sortBy": "NAME"}
    while True:
        answer = _post(syn, dataset, entity, "/entity/children", order)
        yield from answer["page"]
        token = answer.get("nextPageToken")
        if not token:
            return
        order["nextPageToken"] = token


def _post(syn: Any, dataset: Dataset, entity: str, path: str, order: dict[str, Any]) -> Any:
    return _told(dataset, entity, lambda: syn.restPOST(path, json.dumps(order), retryPolicy=_policy(Transfer())))


def _told(dataset: Dataset, entity: str, call: Callable[[], Any]) -> Any:
    """Result of a call, the library's errors turned into one refusal each."""
    errors = library("synapseclient", "synapseclient.core.exceptions")
    try:
        answer = call()
    except errors.SynapseHTTPError as error:
        raise _refusal(dataset, entity, int(error.response.status_code)) from None
    except requests.RequestException:
        raise unreachable(dataset.id, SERVICE) from None
    if not isinstance(answer, dict):
        raise BlockedError(dataset.id, f"{SERVICE} sent an answer that is not JSON", NETWORK)
    return answer


def _refusal(dataset: Dataset, entity: str, status: int) -> BlockedError:
    if status == 401:
        return BlockedError(dataset.id, f"{SERVICE} does not know the token (401)", TOKEN_HELP)
    if status == 403:
        return _conditions(dataset, entity)
    return refused(dataset, SERVICE, status, _page(entity))


def _conditions(dataset: Dataset, entity: str) -> BlockedError:
    return BlockedError(
        dataset.id,
        f"the conditions for the use of {entity} are not met by this account",
        f"Read and accept them at {_page(entity)}; the token needs the scope download",
    )


CLIENT = SynapseClient()
