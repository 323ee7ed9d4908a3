"""What went wrong with a transfer, in words that name the cause and the one thing to do."""

from __future__ import annotations

import socket

import requests
import urllib3.exceptions as low

from medheb.core.errors import BlockedError, MedhebError

LATER = "Try again later (`medheb retry` forgets this result)"
OWN_COPY = "set local_copies in the configuration to your own copy"
NETWORK = "Check network and proxy (HTTPS_PROXY), then try again"
ServerTrouble = requests.RequestException | low.HTTPError


def status_trouble(what: str, host: str, code: int, variable: str, sent: bool) -> BlockedError:
    """The refusal behind an HTTP status.

    Args:
        what: the file.
        host: who answered; nothing else of the address is shown.
        code: the status.
        variable: environment variable that may hold a token for the host, empty if there is none.
        sent: a login went with the request.
    """
    source = f"the environment variable {variable}" if variable else f"your netrc entry for {host}"
    if code == 401:
        if sent:
            return BlockedError(what, f"{host} refused the login (401)", f"Renew {source}: it is wrong or has expired")
        return BlockedError(what, f"{host} wants a login (401)", f"Set {source}, or {OWN_COPY}")
    if code == 403:
        who = "with your login" if sent else "without a login"
        return BlockedError(
            what,
            f"{host} forbids the file {who} (403)",
            "Accept the source's terms on its page or ask for access there; a link that was handed out may have "
            f"expired; or {OWN_COPY}",
        )
    if code in {404, 410}:
        fact = "does not have the file (404)" if code == 404 else "has removed the file (410)"
        return BlockedError(
            what, f"{host} {fact}", f"Look on the source's page where it went, correct the manifest, or {OWN_COPY}"
        )
    if code == 429:
        return BlockedError(what, f"{host} asks to slow down (429)", f"{LATER}, or lower transfer.per_host")
    if code >= 500:
        return BlockedError(what, f"{host} is down or overloaded ({code})", LATER)
    if code == 407:
        return BlockedError(what, "the proxy wants a login (407)", "Put it into HTTPS_PROXY or ask who runs the proxy")
    return BlockedError(what, f"{host} answered with status {code}", f"{LATER}, or {OWN_COPY}")


def server_trouble(what: str, host: str, error: ServerTrouble) -> MedhebError:
    """The refusal behind an error of the network libraries. Their own texts hold addresses and are not shown."""
    causes = list(_causes(error))

    def is_any(*kinds: type[BaseException]) -> bool:
        return any(isinstance(cause, kinds) for cause in causes)

    if is_any(requests.exceptions.InvalidSchema, requests.exceptions.InvalidURL):
        return MedhebError(what, f"{host} sends to an address that is not https", "Check the address in the manifest")
    if is_any(requests.TooManyRedirects):
        return BlockedError(what, f"{host} sends from address to address without end", LATER)
    if is_any(requests.exceptions.ProxyError, low.ProxyError):
        return BlockedError(what, "the proxy cannot be used", "Check HTTPS_PROXY and NO_PROXY")
    if is_any(requests.exceptions.SSLError, low.SSLError):
        return BlockedError(
            what,
            f"{host} has no certificate that this machine trusts",
            "Check the clock of this machine; behind a company's proxy set REQUESTS_CA_BUNDLE to its certificates",
        )
    if is_any(socket.gaierror, low.NameResolutionError):
        return BlockedError(what, f"the name of {host} cannot be resolved", NETWORK)
    if is_any(low.NewConnectionError):
        return BlockedError(what, f"{host} cannot be reached", NETWORK)
    if is_any(requests.ConnectTimeout, low.ConnectTimeoutError):
        return BlockedError(what, f"{host} does not answer", NETWORK)
    if is_any(requests.Timeout, low.ReadTimeoutError, TimeoutError):
        return BlockedError(what, f"{host} stopped sending", LATER)
    if is_any(low.IncompleteRead, low.ProtocolError, requests.exceptions.ChunkedEncodingError, ConnectionResetError):
        return BlockedError(what, f"{host} cut the transfer off", LATER)
    if is_any(requests.ConnectionError, ConnectionError):
        return BlockedError(what, f"{host} cannot be reached", NETWORK)
    return BlockedError(what, f"the transfer from {host} failed ({type(error).__name__})", LATER)


def _causes(error: BaseException) -> list[BaseException]:
    """The error and everything it wraps: libraries hide causes in ``args``, ``reason``, cause and context."""
    found: list[BaseException] = []
    waiting: list[object] = [error]
    while waiting:
        item = waiting.pop()
        if isinstance(item, BaseException) and item not in found:
            found.append(item)
            waiting += [*item.args, getattr(item, "reason", None), item.__cause__, item.__context__]
    return found
