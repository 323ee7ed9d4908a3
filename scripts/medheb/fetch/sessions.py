"""Requests to hosts: retries that keep to what the server asks for, logins that never leave their host."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import requests
import urllib3.exceptions as low
from requests.adapters import HTTPAdapter
from urllib3.response import BaseHTTPResponse
from urllib3.util import Retry

from medheb.core.errors import BlockedError, MedhebError
from medheb.core.json_text import parse_json
from medheb.fetch.addresses import host_name, is_safe, require_safe, server_name
from medheb.fetch.bodies import page_title
from medheb.fetch.credentials import Login
from medheb.fetch.limits import pause, slot
from medheb.fetch.trouble import server_trouble, status_trouble
from medheb.manifest.config import Transfer

LOG = logging.getLogger("medheb.fetch")
CONNECT_TIMEOUT_S = 30.0
READ_TIMEOUT_S = 60.0
BACKOFF_S = 1.0
MAX_BACKOFF_S = 60.0
# Who asks for more than this gets asked again in the next run.
MAX_WAIT_S = 900.0
MAX_JSON_BYTES = 64 << 20
TRANSIENT = {408, 425, 429, 500, 502, 503, 504}
RATE_LIMIT = re.compile(r"(?:^|[;,\s])t=(\d+)")
EPOCH_FLOOR = 1_000_000_000
ANONYMOUS = Login()


class TransientError(Exception):
    """A request failed in a way that may pass. ``wait`` is what the server asks for, in seconds."""

    def __init__(self, trouble: MedhebError, wait: float | None = None) -> None:
        self.trouble, self.wait = trouble, wait
        super().__init__(str(trouble))


class _Session(requests.Session):
    """Sends our login only; drops it, and refuses plain HTTP, when a redirect leads to another place."""

    def __init__(self) -> None:
        super().__init__()
        self.mount("https://", HTTPAdapter(max_retries=0))
        self.mount("http://", HTTPAdapter(max_retries=0))
        # The library would read netrc by itself, also one that others can read.
        self.auth = _as_it_is

    def rebuild_auth(self, prepared_request: requests.PreparedRequest, response: requests.Response) -> None:
        """Called by the library for each redirect."""
        url, before = str(prepared_request.url), str(response.request.url)
        if not is_safe(url):
            raise requests.exceptions.InvalidSchema("redirected to an address that is not https")
        if "Authorization" in prepared_request.headers and self.should_strip_auth(before, url):
            del prepared_request.headers["Authorization"]


def _as_it_is(request: requests.PreparedRequest) -> requests.PreparedRequest:
    return request


_LOCAL = threading.local()


def _session() -> requests.Session:
    # One a thread: connections are used again, and nothing is shared.
    if not hasattr(_LOCAL, "session"):
        _LOCAL.session = _Session()
    session: requests.Session = _LOCAL.session
    return session


class _Headers(Retry):
    """Reads all spellings of "come back in n seconds"; dates are understood by the library."""

    def get_retry_after(self, response: BaseHTTPResponse) -> float | None:
        """Seconds to wait, None if the server does not say."""
        headers = response.headers
        if found := headers.get("Retry-After"):
            return self.parse_retry_after(found)
        if (limit := headers.get("RateLimit")) and (seconds := RATE_LIMIT.search(limit)):
            return float(seconds.group(1))
        if headers.get("X-RateLimit-Remaining") == "0" and (reset := headers.get("X-RateLimit-Reset", "")).isdigit():
            # Seconds since 1970 at most hosts, seconds from now at some.
            return max(0.0, float(reset) - time.time()) if int(reset) > EPOCH_FLOOR else float(reset)
        return None


def asked_wait(response: requests.Response) -> float | None:
    """Seconds that a response asks to wait, None if it does not say (or not in a readable way)."""
    try:
        return _Headers(retry_after_max=10**9).get_retry_after(response.raw)
    except low.InvalidHeader:
        return None


@contextmanager
def request(
    url: str, what: str, transfer: Transfer, login: Login = ANONYMOUS, headers: dict[str, str] | None = None
) -> Iterator[requests.Response]:
    """One GET, its body not yet read; holds one of the host's places until the block ends.

    Args:
        url: https, or http on this machine.
        what: named in errors.
        transfer: limit per host.
        login: for the hosts it names.
        headers: further ones.

    Raises:
        TransientError: trouble that may pass, inside the block as well.
        BlockedError: trouble that will not.
        MedhebError: an address that is not https.
    """
    host = host_name(require_safe(url, what))
    authorization = login.header(url)
    sent = {"Accept-Encoding": "identity", **(headers or {})}
    if authorization:
        sent["Authorization"] = authorization
    with slot(server_name(url), transfer.per_host):
        try:
            timeout = (CONNECT_TIMEOUT_S, READ_TIMEOUT_S)
            with _session().get(url, headers=sent, stream=True, timeout=timeout) as response:
                _refuse(response, what, login, authorization is not None)
                yield response
        except (requests.RequestException, low.HTTPError) as error:
            trouble = server_trouble(what, host, error)
            if isinstance(trouble, BlockedError):
                raise TransientError(trouble) from error
            raise trouble from error


def _refuse(response: requests.Response, what: str, login: Login, sent: bool) -> None:
    code = response.status_code
    if code in {200, 206, 416}:
        return
    host = host_name(str(response.url))
    trouble = status_trouble(what, host, code, login.variable if host in login.hosts else "", sent)
    wait = asked_wait(response)
    used_up = code == 403 and (wait is not None or response.headers.get("X-RateLimit-Remaining") == "0")
    if used_up:
        trouble = status_trouble(what, host, 429, "", sent)
    if code in TRANSIENT or used_up:
        raise TransientError(trouble, wait)
    raise trouble


class Patience:
    """Counts the tries of one address and waits between them.

    Args:
        transfer: how many tries there are.
    """

    def __init__(self, transfer: Transfer) -> None:
        self._left = transfer.attempts
        self._backoff = BACKOFF_S

    def after(self, error: TransientError) -> None:
        """Wait for the next try, as long as the server asks, else a little longer each time.

        Raises:
            MedhebError: the trouble itself, when no try is left or the server asks for too long a wait.
        """
        self._left -= 1
        wait = self._backoff if error.wait is None else error.wait
        self._backoff = min(2 * self._backoff, MAX_BACKOFF_S)
        if self._left <= 0:
            raise error.trouble
        if wait > MAX_WAIT_S:
            LOG.warning("%s; it asks to wait %.0f s", error.trouble.fault, wait)
            raise error.trouble
        LOG.info("%s: %s; again in %.0f s", error.trouble.where, error.trouble.fault, wait)
        pause(wait)


def get_json(url: str, what: str, transfer: Transfer, login: Login = ANONYMOUS) -> Any:
    """Content of a JSON answer of an API.

    Raises:
        BlockedError: the host cannot be reached, refuses, or sends a page instead.
        MedhebError: the answer is not JSON, or too large for one.
    """
    patience = Patience(transfer)
    while True:
        try:
            with request(url, what, transfer, login, {"Accept": "application/json"}) as response:
                body = bytearray()
                for chunk in response.iter_content(1 << 16):
                    body += chunk
                    if len(body) > MAX_JSON_BYTES:
                        raise MedhebError(
                            what, f"{host_name(url)} sent an endless answer", "Tell us which source it was"
                        )
                if response.headers.get("Content-Type", "").startswith("text/html"):
                    title = page_title(bytes(body))
                    raise BlockedError(
                        what, f"{host_name(url)} sent a web page ('{title}') instead of an answer", "Try again later"
                    )
                return parse_json(body)
        except TransientError as error:
            patience.after(error)
        except ValueError as error:
            raise MedhebError(what, f"{host_name(url)} sent an answer that is not JSON", "Try again later") from error
