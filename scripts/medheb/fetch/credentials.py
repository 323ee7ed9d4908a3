"""Logins for hosts, looked up at the moment of use: environment, then netrc (mode 0600), then keyring.

Nothing here is ever stored, logged or put into an error text.
"""

from __future__ import annotations

import netrc
import os
from base64 import b64encode
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from medheb.core.errors import BlockedError
from medheb.fetch.addresses import host_name

KEYRING_SERVICE = "medheb"
OTHERS = 0o077


@dataclass(frozen=True, repr=False)
class Login:
    """Header value for some hosts, and what to tell a user whom they refuse.

    ``variable`` is the environment variable that may hold the token, empty if there is none.
    """

    hosts: tuple[str, ...] = ()
    variable: str = ""

    def header(self, url: str) -> str | None:
        """Value of ``Authorization`` for ``url``; None if there is no login, or the address is not its host's."""
        host = host_name(url)
        if self.variable and host in self.hosts and (token := secret(self.variable, host)):
            return f"Bearer {token}"
        return netrc_login(host)


def secret(variable: str, host: str) -> str | None:
    """Token of a host: environment ``variable``, else the keyring's entry (service ``medheb``, user: the host)."""
    if token := os.environ.get(variable, "").strip():
        return token
    if find_spec("keyring") is None:
        return None
    keyring = import_module("keyring")
    try:
        found = keyring.get_password(KEYRING_SERVICE, host)
    except keyring.errors.KeyringError:
        return None
    return str(found) if found else None


def netrc_login(host: str) -> str | None:
    """Basic login of ``host`` from the user's netrc (``NETRC`` names another file), None if it has none.

    Raises:
        BlockedError: the file has one, but others can read it, or it cannot be parsed.
    """
    try:
        path = Path(os.environ.get("NETRC") or Path.home() / ".netrc")
    except RuntimeError:  # no home folder, as in some containers
        return None
    try:
        mode = path.stat().st_mode
        entry = netrc.netrc(str(path)).authenticators(host)
    except OSError:
        return None
    except netrc.NetrcParseError as error:
        # The error's own text may quote a token.
        raise BlockedError(path, f"cannot be parsed at line {error.lineno}", "Correct the line") from None
    if not entry or not entry[2]:
        return None
    if mode & OTHERS:
        raise BlockedError(path, f"holds a login for {host} and others can read it", f"Run: chmod 600 {path}")
    return "Basic " + b64encode(f"{entry[0]}:{entry[2]}".encode()).decode()
