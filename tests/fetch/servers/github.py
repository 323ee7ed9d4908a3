"""Raw files of a repository at one commit, on a loopback server."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote

from servers.plain import Loopback


def put_commit(server: Loopback, repository: str, commit: str, files: Mapping[str, bytes]) -> None:
    """The files below ``/<owner>/<name>/<commit>/``; every other path is 404, as there."""
    for name, content in files.items():
        server.files[f"/{repository}/{commit}/{quote(name)}"] = content
