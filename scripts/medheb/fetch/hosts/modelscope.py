"""Client of ModelScope, on ``modelscope-hub``, the site's own light client (the package ``modelscope`` is 70 MB).

``MODELSCOPE_ENDPOINT`` names another site, ``MODELSCOPE_API_TOKEN`` the token. The login that the library itself
stores is never read, as it is a pickle.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import requests

from medheb.core.errors import BlockedError, MedhebError
from medheb.fetch.credentials import secret
from medheb.fetch.hosts._hub import hush, library, refresh, refused, settle, unreachable, work_folder
from medheb.fetch.limits import slot
from medheb.fetch.listing import wanted
from medheb.fetch.remote import RemoteFile
from medheb.manifest.config import Transfer
from medheb.manifest.dataset import Dataset
from medheb.manifest.hosts import ModelScopeHost

SERVICE = "ModelScope"
SITE = "https://www.modelscope.cn"
BRANCH = "master"
DAY_S = 24 * 3600
# Read by the library when it is first imported or used; what the user sets counts.
SETTINGS = {
    # It would ask the metadata service of one cloud where this machine stands.
    "MODELSCOPE_DOWNLOAD_INTRA_CLOUD": "false",
    "MODELSCOPE_DOWNLOAD_FILE_LOCK": "false",
    # One hour for a file is too short for large ones; stalled lines are noticed otherwise.
    "MODELSCOPE_DOWNLOAD_TOTAL_TIMEOUT": str(DAY_S),
}


class ModelScopeClient:
    """See :class:`medheb.fetch.remote.HostClient`; an address is ``<revision>:<path in the repository>``."""

    def listing(self, dataset: Dataset, host: ModelScopeHost) -> list[RemoteFile]:
        """Files of the revision (branch ``master`` if none is pinned) that match ``include``."""
        revision = host.revision or BRANCH
        with TemporaryDirectory() as folder, _told(dataset, host):
            entries = _api(Path(folder)).list_repo_files(host.repository, "dataset", revision=revision)
        files = [
            RemoteFile(entry.path, f"{revision}:{entry.path}", entry.size or None, entry.sha256 or None)
            for entry in entries
            if not entry.is_dir and any(fnmatchcase(entry.path, pattern) for pattern in host.include)
        ]
        return wanted(dataset, files, SERVICE)

    def fetch(self, dataset: Dataset, host: ModelScopeHost, file: RemoteFile, target: Path, transfer: Transfer) -> None:
        """Download one file; the library retries and resumes by itself."""
        revision, _, path = file.address.partition(":")
        with slot(SERVICE, transfer.per_host), work_folder(target) as work:
            with _told(dataset, host):
                came = _api(work).download_file(
                    host.repository,
                    "dataset",
                    path,
                    revision=revision,
                    cache_dir=work / "cache",
                    local_dir=work / "files",
                    file_size=file.bytes,
                )
            settle(dataset, file, Path(came), target)


def _api(folder: Path) -> Any:
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    hub = library("modelscope-hub", "modelscope_hub")
    config = library("modelscope-hub", "modelscope_hub.config")
    hush("modelscope_hub")
    return hub.HubApi(
        config.HubConfig(
            endpoint=os.environ.get("MODELSCOPE_ENDPOINT") or SITE,
            token=_token(),
            cache_dir=folder / "cache",
            config_dir=folder / "config",
        )
    )


def _token() -> str:
    return secret("MODELSCOPE_API_TOKEN", "www.modelscope.cn") or ""


def _page(host: ModelScopeHost) -> str:
    return f"{SITE}/datasets/{host.repository}"


@contextmanager
def _told(dataset: Dataset, host: ModelScopeHost) -> Iterator[None]:
    """Turn the library's errors into one refusal each; their own texts hold addresses."""
    errors = library("modelscope-hub", "modelscope_hub.errors")
    try:
        yield
    except (errors.NetworkError, requests.RequestException):
        raise unreachable(dataset.id, SERVICE) from None
    except errors.FileIntegrityError:
        raise MedhebError(
            dataset.id, f"{SERVICE} sends another file than it lists", refresh(dataset, "See what changed")
        ) from None
    except errors.APIError as error:
        raise _refusal(dataset, host, errors, error) from None
    except errors.HubError:
        raise BlockedError(dataset.id, f"the transfer from {SERVICE} failed", "Try again later") from None


def _refusal(dataset: Dataset, host: ModelScopeHost, errors: Any, error: Any) -> BlockedError:
    page = _page(host)
    refuses = isinstance(error, errors.AuthenticationError | errors.PermissionDeniedError)
    if refuses and not _token():
        return BlockedError(
            dataset.id,
            f"{SERVICE} wants a login and there is none",
            f"Make a token at {SITE}/my/myaccesstoken and set MODELSCOPE_API_TOKEN; terms, if any, are at {page}",
        )
    if isinstance(error, errors.AuthenticationError):
        return BlockedError(
            dataset.id, f"{SERVICE} does not know the token", f"Make a new one at {SITE}/my/myaccesstoken"
        )
    if refuses:
        return BlockedError(dataset.id, f"{SERVICE} forbids it to this account", f"Ask for access at {page}")
    return refused(dataset, SERVICE, int(error.status_code or 0), page)


CLIENT = ModelScopeClient()
