"""What a client of one kind of host offers. One module a kind in ``fetch/hosts``, found by its name."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, cast

from medheb.manifest.config import Transfer
from medheb.manifest.dataset import Dataset


@dataclass(frozen=True)
class RemoteFile:
    """A file as its host lists it.

    ``path`` is where it goes below the source's ``files`` folder. ``address`` is a URL or the host's own id; it
    may hold a signature, so it is never logged. Digests and size are None where the host gives none.
    """

    path: str
    address: str
    bytes: int | None = None
    sha256: str | None = None
    md5: str | None = None


class HostClient(Protocol):
    """Client of one kind of host. ``host`` is the manifest's model of that kind (primary host or a mirror).

    Trouble outside our reach (network, quota, token, terms, missing optional package) is a
    ``BlockedError`` whose remedy names the one thing to do; wrong content is a ``MedhebError``.
    """

    def listing(self, dataset: Dataset, host: Any) -> list[RemoteFile]:
        """Files that the manifest wants, with what manifest and host know of them; sorted by path."""
        ...

    def fetch(self, dataset: Dataset, host: Any, file: RemoteFile, target: Path, transfer: Transfer) -> None:
        """Write ``target`` whole or not at all, its size and digests verified on the stream."""
        ...


def client_for(kind: str) -> HostClient:
    """The client of a kind of host: ``CLIENT`` of ``medheb.fetch.hosts.<kind>``.

    Optional libraries are imported by the client when it first talks to its host, not here.
    """
    return cast("HostClient", import_module(f"medheb.fetch.hosts.{kind}").CLIENT)
