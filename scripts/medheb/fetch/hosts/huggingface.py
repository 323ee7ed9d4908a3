"""Client of the Hugging Face hub, on ``huggingface_hub``: one commit, only the wanted files, gated or not.

``HF_ENDPOINT`` names another hub; the token is ``HF_TOKEN``, or that of `hf auth login`, or in the keyring. The
library's cache lies beside the target and is removed. Files come over plain HTTPS: the Xet protocol keeps a second
cache in the home folder; who wants it sets ``HF_HUB_DISABLE_XET=0`` (files above 50 GB need it).
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from json import JSONDecodeError
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from medheb.core.errors import BlockedError, MedhebError
from medheb.fetch.credentials import secret
from medheb.fetch.hosts._hub import (
    PassingError,
    hush,
    library,
    refresh,
    refused,
    settle,
    unreachable,
    work_folder,
)
from medheb.fetch.hosts._names import build_names
from medheb.fetch.limits import slot
from medheb.fetch.listing import wanted
from medheb.fetch.remote import RemoteFile
from medheb.fetch.sessions import Patience, TransientError
from medheb.manifest.config import Transfer
from medheb.manifest.dataset import Dataset
from medheb.manifest.hosts import HuggingFaceHost

LOG = logging.getLogger("medheb.fetch")
SERVICE = "the Hugging Face hub"
SITE = "https://huggingface.co"
TOKEN_PAGE = f"{SITE}/settings/tokens"
PATHS_AT_ONCE = 500


class HuggingFaceClient:
    """See :class:`medheb.fetch.remote.HostClient`; an address is ``<commit>:<path in the repository>``."""

    def listing(self, dataset: Dataset, host: HuggingFaceHost) -> list[RemoteFile]:
        """Files of one commit that match ``include``, with sizes and (LFS) sha256 of the hub's API."""
        hub = _library()
        patience = Patience(Transfer())
        while True:
            try:
                with _told(hub, dataset, host):
                    files = _listed(hub, dataset, host)
                return wanted(dataset, [file for file in files if _included(host, file.path)], SERVICE)
            except PassingError as error:
                # The library itself asks again for content only.
                patience.after(TransientError(error))

    def fetch(
        self, dataset: Dataset, host: HuggingFaceHost, file: RemoteFile, target: Path, transfer: Transfer
    ) -> None:
        """Download one file; the library retries and resumes by itself, five times each."""
        hub = _library()
        commit, _, path = file.address.partition(":")
        with slot(_endpoint(), transfer.per_host), work_folder(target) as work, _told(hub, dataset, host):
            came = hub.hf_hub_download(
                host.repository,
                path,
                repo_type=host.repository_type,
                revision=commit,
                local_dir=work / "files",
                cache_dir=work / "cache",
                endpoint=_endpoint(),
                token=_token(hub) or False,
            )
            settle(dataset, file, Path(came), target)


def _library() -> Any:
    hub = library("huggingface_hub", "huggingface_hub")
    for part in ("constants", "errors", "hf_api", "utils"):
        library("huggingface_hub", f"huggingface_hub.{part}")
    # The library reads the environment only when it is first imported, and something else may have done that.
    hub.constants.HF_HUB_DISABLE_TELEMETRY = True
    if "HF_HUB_DISABLE_XET" not in os.environ:
        hub.constants.HF_HUB_DISABLE_XET = True
    hush("huggingface_hub", "httpx2", "httpcore2")
    if not sys.stderr.isatty():
        hub.utils.disable_progress_bars()
    return hub


def _token(hub: Any) -> str | None:
    token: str | None = hub.get_token() or secret("HF_TOKEN", "huggingface.co")
    return token


def _endpoint() -> str:
    return os.environ.get("HF_ENDPOINT", "").rstrip("/") or SITE


def _page(host: HuggingFaceHost) -> str:
    kind = "datasets/" if host.repository_type == "dataset" else ""
    return f"{SITE}/{kind}{host.repository}"


def _main(api: Any, dataset: Dataset, host: HuggingFaceHost) -> str:
    commit = str(api.repo_info(host.repository, repo_type=host.repository_type, revision="main").sha)
    LOG.warning("%s: no revision is pinned; main is now commit %s. %s", dataset.id, commit, refresh(dataset, "Pin it"))
    return commit


def _listed(hub: Any, dataset: Dataset, host: HuggingFaceHost) -> list[RemoteFile]:
    api = hub.HfApi(endpoint=_endpoint(), token=_token(hub) or False)
    # Anybody may list a gated repository; whether its content will come is better known before.
    api.auth_check(host.repository, repo_type=host.repository_type)
    commit = host.revision or _main(api, dataset, host)
    where = {"repo_id": host.repository, "repo_type": host.repository_type, "revision": commit}
    entries = _built(hub, api, dataset, host, where) if host.names else api.list_repo_tree(recursive=True, **where)
    return [_remote(commit, entry) for entry in entries if isinstance(entry, hub.hf_api.RepoFile)]


def _remote(commit: str, entry: Any) -> RemoteFile:
    sha256 = entry.lfs.sha256 if entry.lfs else None
    return RemoteFile(entry.path, f"{commit}:{entry.path}", entry.size, sha256)


def _included(host: HuggingFaceHost, path: str) -> bool:
    return any(fnmatchcase(path, pattern) for pattern in host.include)


def _built(hub: Any, api: Any, dataset: Dataset, host: HuggingFaceHost, where: dict[str, Any]) -> Iterable[Any]:
    """Entries of the built names; asking for names is quick where listing the repository is not."""
    with TemporaryDirectory() as folder:

        def table(path: str) -> Path:
            return Path(
                hub.hf_hub_download(
                    filename=path,
                    local_dir=Path(folder) / "files",
                    cache_dir=Path(folder) / "cache",
                    endpoint=_endpoint(),
                    token=_token(hub) or False,
                    **where,
                )
            )

        names = [name for name in build_names(dataset.id, host.names, table) if _included(host, name)]
    entries = [
        entry
        for start in range(0, len(names), PATHS_AT_ONCE)
        for entry in api.get_paths_info(paths=names[start : start + PATHS_AT_ONCE], **where)
    ]
    if len(entries) < len(names):
        lost = len(names) - len(entries)
        LOG.warning("%s: %d of %d built names are not in the repository", dataset.id, lost, len(names))
    return entries


@contextmanager
def _told(hub: Any, dataset: Dataset, host: HuggingFaceHost) -> Iterator[None]:
    """Turn the library's errors into one refusal each; their own texts hold addresses."""
    try:
        yield
    except MedhebError:
        raise
    except Exception as error:
        refusal = _refusal(hub, dataset, host, error)
        if refusal is None:
            raise
        raise refusal from None


def _refusal(hub: Any, dataset: Dataset, host: HuggingFaceHost, error: BaseException) -> MedhebError | None:
    chain = [error]
    while chain[-1].__cause__ is not None:
        chain.append(chain[-1].__cause__)
    for cause in chain:
        response = getattr(cause, "response", None)
        if response is not None:
            message = str(response.headers.get("X-Error-Message", ""))
            return _refusal_of_status(hub, dataset, host, cause, int(response.status_code), message)
    where = dataset.id
    # Error classes of the HTTP library below are not part of the hub library's interface; their names are stable.
    kinds = {kind.__name__ for cause in chain for kind in type(cause).__mro__}
    if kinds & {"TransportError", "ConnectionError", "TimeoutError"}:
        return unreachable(where, SERVICE)
    if "FileMetadataError" in kinds:
        return BlockedError(where, f"the answer does not come from {SERVICE}", "Check HF_ENDPOINT, proxy and network")
    if isinstance(error, ValueError) and "too large" in str(error):
        return BlockedError(where, "a file is above 50 GB", "Set HF_HUB_DISABLE_XET=0 and try again")
    if isinstance(error, JSONDecodeError):
        return BlockedError(where, f"{SERVICE} sent an answer that is not JSON", "Check HF_ENDPOINT, proxy and network")
    if isinstance(error, OSError) and error.errno is None:
        return BlockedError(where, f"the transfer from {SERVICE} was cut", "Try again")
    return None


def _refusal_of_status(
    hub: Any, dataset: Dataset, host: HuggingFaceHost, error: BaseException, status: int, message: str
) -> MedhebError:
    where, page, errors = dataset.id, _page(host), hub.errors
    has_token = bool(_token(hub))
    if status == 401 and has_token:
        return BlockedError(where, f"{SERVICE} does not know the token", f"Make a new one at {TOKEN_PAGE}")
    if isinstance(error, errors.GatedRepoError):
        if not has_token:
            return BlockedError(
                where,
                "its repository is gated and there is no token",
                f"Accept the terms at {page}, make a token at {TOKEN_PAGE} and set HF_TOKEN",
            )
        if "fine-grained" in message:
            return BlockedError(
                where, "the token may not read gated repositories", f"Allow it for the token at {TOKEN_PAGE}"
            )
        if "awaiting" in message:
            return BlockedError(where, "the request for access is not answered yet", f"See {page}")
        return BlockedError(where, "its terms are not accepted with this account", f"Accept them at {page}")
    if isinstance(error, errors.DisabledRepoError):
        return BlockedError(where, f"{SERVICE} has disabled its repository", f"Look at {page}")
    if isinstance(error, errors.RevisionNotFoundError):
        return BlockedError(
            where,
            f"revision {host.revision or 'main'} is no longer in its repository",
            refresh(dataset, "See what changed"),
        )
    if isinstance(error, errors.EntryNotFoundError):
        return BlockedError(where, "a file is no longer in its repository", refresh(dataset, "See what changed"))
    if status == 401:
        return BlockedError(
            where, "its repository is private or gone, and there is no token", f"Look at {page}; set HF_TOKEN if needed"
        )
    return refused(dataset, SERVICE, status, page)


CLIENT = HuggingFaceClient()
