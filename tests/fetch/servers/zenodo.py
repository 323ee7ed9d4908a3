"""The part of Zenodo's records API that we use, on a loopback server."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from urllib.parse import quote

from servers.plain import Loopback


def put_record(server: Loopback, record: str, files: Mapping[str, bytes]) -> None:
    """A published record: ``/api/records/<id>`` and its files."""
    entries = []
    for name, content in files.items():
        path = f"/api/records/{record}/files/{quote(name)}/content"
        server.files[path] = content
        entries.append(
            {
                "id": f"id-of-{name}",
                "key": name,
                "size": len(content),
                "checksum": f"md5:{hashlib.md5(content).hexdigest()}",
                "links": {"self": server.url + path},
            }
        )
    server.answers[f"/api/records/{record}"] = {
        "id": int(record),
        "conceptrecid": "1",
        "metadata": {"title": "A record", "access_right": "open", "license": {"id": "cc-by-4.0"}},
        "files": entries,
    }
