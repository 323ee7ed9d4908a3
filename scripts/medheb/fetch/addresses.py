"""Addresses of hosts: HTTPS everywhere, plain HTTP only on this machine, overridable for tests and mirrors."""

from __future__ import annotations

import ipaddress
import os
from urllib.parse import urlsplit

from medheb.core.errors import MedhebError


def is_loopback(host: str | None) -> bool:
    """True for names and addresses of this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return False


def is_safe(url: str) -> bool:
    """True for https, and for http to this machine."""
    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and (
            parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname))
        )
    except ValueError:
        return False


def host_name(url: str) -> str:
    """Host of an address, the only part of it that may be shown: the rest may hold a login or a signature."""
    try:
        return urlsplit(url).hostname or "(no host)"
    except ValueError:
        return "(no host)"


def server_name(url: str) -> str:
    """Host and port of an address; two servers of one machine are two hosts."""
    try:
        port = urlsplit(url).port
    except ValueError:
        port = None
    return f"{host_name(url)}:{port}" if port else host_name(url)


def require_safe(url: str, what: str) -> str:
    """``url``, if it may be used.

    Raises:
        MedhebError: it is neither https nor on this machine.
    """
    if not is_safe(url):
        raise MedhebError(
            what, f"its address at {host_name(url)} is not https", "Use an address that starts with https://"
        )
    return url


def base_url(variable: str, default: str) -> str:
    """Base address of a host's API without a closing slash: ``default``, or what the environment says instead.

    Raises:
        MedhebError: the variable holds something that is neither https nor on this machine.
    """
    return require_safe(os.environ.get(variable) or default, f"environment variable {variable}").rstrip("/")
