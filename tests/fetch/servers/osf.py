"""The part of OSF's v2 API that we use, on a loopback server: folders, pages, links to another path."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from servers.plain import Loopback


def put_project(server: Loopback, node: str, files: Mapping[str, bytes], page: int = 2) -> None:
    """A project's storage; ``files`` may lie in one level of folders; ``page`` entries a page."""
    root = f"/nodes/{node}/files/osfstorage/"
    folders: dict[str, list[dict[str, Any]]] = {root: []}
    for name, content in files.items():
        folder, _, last = name.rpartition("/")
        where = f"{root}id-{folder}/" if folder else root
        if where not in folders:
            folders[where] = []
            link = {"links": {"related": {"href": server.url + where}}}
            attributes = {"kind": "folder", "name": folder, "materialized_path": f"/{folder}/", "size": None}
            folders[root].append({"type": "files", "attributes": attributes, "relationships": {"files": link}})
        code = hashlib.sha256(name.encode()).hexdigest()[:5]
        server.files[f"/download/{code}/"] = content
        hashes = {"md5": hashlib.md5(content).hexdigest(), "sha256": hashlib.sha256(content).hexdigest()}
        folders[where].append(
            {
                "type": "files",
                "attributes": {
                    "kind": "file",
                    "name": last,
                    "materialized_path": f"/{name}",
                    "size": len(content),
                    "extra": {"hashes": hashes, "downloads": 1},
                },
                "links": {"download": f"{server.url}/download/{code}/"},
            }
        )
    for path, entries in folders.items():
        for start in range(0, max(len(entries), 1), page):
            number = start // page + 1
            address = path if number == 1 else f"{path}?page={number}"
            more = f"{server.url}{path}?page={number + 1}" if start + page < len(entries) else None
            server.answers[address] = {"data": entries[start : start + page], "links": {"next": more}}
