"""What the two Kaggle clients share, on ``kagglesdk``.

That is the part of Kaggle's own ``kagglehub`` and ``kaggle`` that speaks to the site, without their caches,
notebooks and data frames; it hands out the stream itself, so that digests are checked on the way.
The site answers a download with a signed address of its store; from there our own transfer takes over.
``KAGGLE_API_ENVIRONMENT`` is the library's setting for another site.
"""

from __future__ import annotations

import os
import zipfile
from base64 import b64decode
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import IO, Any, cast
from urllib.parse import unquote, urlsplit

import requests
from requests.adapters import HTTPAdapter

from medheb.core.digests import CHUNK_BYTES
from medheb.core.errors import BlockedError, MedhebError
from medheb.core.files import atomic_open
from medheb.core.json_text import parse_json
from medheb.fetch.bodies import refuse_page
from medheb.fetch.credentials import secret
from medheb.fetch.expected import Check, Expected, expected_of
from medheb.fetch.hosts._hub import PassingError, library, place, refused, require_private, work_folder
from medheb.fetch.http import download
from medheb.fetch.remote import RemoteFile
from medheb.fetch.sessions import CONNECT_TIMEOUT_S, READ_TIMEOUT_S, Patience, TransientError, asked_wait
from medheb.fetch.trouble import server_trouble
from medheb.manifest.config import Transfer
from medheb.manifest.dataset import Dataset

SERVICE = "Kaggle"
SITE = "https://www.kaggle.com"
TOKEN_HELP = f"Make a token at {SITE}/settings and set KAGGLE_API_TOKEN (or save kaggle.json with mode 600)"
RULES = "rules"
PAGE_SIZE = 200


@dataclass(frozen=True)
class Place:
    """What is asked for: manifest, its page on the site, and whether it is a competition (whose rules bind)."""

    dataset: Dataset
    page: str
    competition: bool


class _Timeouts(HTTPAdapter):
    """The library sets no time limit; a stalled server would hold a run for ever."""

    def send(self, request: requests.PreparedRequest, *args: Any, **options: Any) -> requests.Response:
        """Send with time limits."""
        options["timeout"] = (CONNECT_TIMEOUT_S, READ_TIMEOUT_S)
        return super().send(request, *args, **options)


def open_client() -> tuple[Any, bool]:
    """The site's client, and whether it has a login.

    Raises:
        BlockedError: library missing, or a credentials file that others may read.
    """
    sdk = library("kagglesdk", "kagglesdk.kaggle_client")
    environment = library("kagglesdk", "kagglesdk.kaggle_env")
    user, key = _user_and_key()
    token, _ = environment.get_access_token_from_env()
    token = token or secret("KAGGLE_API_TOKEN", "www.kaggle.com")
    client = sdk.KaggleClient(username=user, password=key, api_token=token, user_agent="medheb")
    http = client.http_client()
    http._init_session()
    http._session.mount("https://", _Timeouts())
    http._session.mount("http://", _Timeouts())
    return client, bool(token or key)


def _user_and_key() -> tuple[str | None, str | None]:
    home = Path(os.environ.get("KAGGLE_CONFIG_DIR") or Path.home() / ".kaggle")
    for name in ("access_token", "access_token.txt"):
        require_private(Path.home() / ".kaggle" / name)
    if (user := os.environ.get("KAGGLE_USERNAME")) and (key := os.environ.get("KAGGLE_KEY")):
        return user, key
    path = home / "kaggle.json"
    if not require_private(path):
        return None, None
    try:
        content = parse_json(path.read_text(encoding="utf-8"))
        return str(content["username"]), str(content["key"])
    except (ValueError, KeyError, TypeError):
        raise BlockedError("kaggle.json", "does not hold 'username' and 'key'", TOKEN_HELP) from None


def ask(at: Place, call: Callable[[Any], Any], transfer: Transfer) -> Any:
    """Result of one call of the site's API; trouble that may pass is tried again.

    Raises:
        BlockedError: no login, wrong token, rules not accepted, gone, limited, down.
    """
    patience = Patience(transfer)
    while True:
        client, has_login = open_client()
        try:
            with client:
                return call(client)
        except requests.HTTPError as error:
            response = cast("requests.Response", error.response)
            status, message = _status(response)
            trouble = _refusal(at, has_login, status, message)
            if not isinstance(trouble, PassingError):
                raise trouble from None
            transient = TransientError(trouble, asked_wait(response))
        except requests.RequestException as error:
            transient = TransientError(server_trouble(at.dataset.id, SERVICE, error))
        patience.after(transient)


def pages(at: Place, call: Callable[[Any, str], Any]) -> list[Any]:
    """All answers of a call that gives them page by page."""
    found: list[Any] = []
    token = ""
    while True:
        found.append(ask(at, lambda client, token=token: call(client, token), Transfer()))  # type: ignore[misc]
        token = found[-1].next_page_token
        if not token:
            return found


def deliver(at: Place, call: Callable[[Any], Any], file: RemoteFile, target: Path, transfer: Transfer) -> None:
    """Write ``target`` from what ``call`` hands out: a redirect to the store, or the file itself.

    Raises:
        BlockedError, MedhebError: as :func:`medheb.fetch.http.download`.
    """
    response = ask(at, call, transfer)
    what = place(at.dataset, file.path)
    expected = expected_of(at.dataset, file)
    with response:
        hashed = _store_md5(response)
        if not response.history:
            refuse_page(what, target.name, response.headers.get("Content-Type", ""), b"")
            with atomic_open(target) as stream:
                _copy(what, response.iter_content(CHUNK_BYTES), stream, expected)
            return
        address = str(response.url)
    served = PurePosixPath(unquote(urlsplit(address).path)).name
    if served == f"{PurePosixPath(file.path).name}.zip":
        # The site packs some single files; what was asked for is the only member.
        with work_folder(target) as work:
            packed = work / "packed.zip"
            download([address], packed, Expected(md5=hashed), transfer, what=what)
            _take_out(what, packed, PurePosixPath(file.path).name, target, expected)
        return
    if not expected.pinned:
        expected = replace(expected, md5=hashed)
    download([address], target, expected, transfer, what=what)


def _status(response: requests.Response) -> tuple[int, str]:
    try:
        content = response.json()
        code, message = int(content.get("code", response.status_code)), str(content.get("message", ""))
    except (ValueError, AttributeError, TypeError):
        return response.status_code, ""
    return (response.status_code if response.status_code >= 400 else code), message


def _refusal(at: Place, has_login: bool, status: int, message: str) -> BlockedError:
    where, page = at.dataset.id, at.page
    rules = f"{page}/rules" if at.competition else page
    if status in {401, 403} and not has_login:
        also = f"; accept the rules at {rules}" if at.competition else ""
        return BlockedError(where, f"{SERVICE} wants a login and there is none ({status})", TOKEN_HELP + also)
    if status == 401:
        return BlockedError(where, f"{SERVICE} does not know the token (401)", TOKEN_HELP)
    if status == 403 and RULES in message.lower():
        return BlockedError(where, f"the {RULES} are not accepted with this account (403)", f"Accept them at {rules}")
    if status == 403:
        return BlockedError(where, f"{SERVICE} forbids it to this account (403)", f"See what it asks for at {rules}")
    return refused(at.dataset, SERVICE, status, page)


def _store_md5(response: requests.Response) -> str | None:
    for part in response.headers.get("x-goog-hash", "").split(","):
        name, _, value = part.strip().partition("=")
        if name == "md5":
            return b64decode(value).hex()
    return None


def _copy(what: str, chunks: Any, stream: IO[bytes], expected: Expected) -> None:
    check = Check(expected)
    try:
        for chunk in chunks:
            check.update(chunk)
            stream.write(chunk)
    except requests.RequestException as error:
        raise server_trouble(what, SERVICE, error) from None
    check.finish(what)


def _take_out(what: str, packed: Path, member: str, target: Path, expected: Expected) -> None:
    try:
        with zipfile.ZipFile(packed) as archive, archive.open(member) as inside, atomic_open(target) as stream:
            _copy(what, iter(lambda: inside.read(CHUNK_BYTES), b""), stream, expected)
    except (zipfile.BadZipFile, KeyError):
        raise MedhebError(
            what, f"{SERVICE} packed it into an archive that does not hold it", "Get the whole set by hand"
        ) from None
