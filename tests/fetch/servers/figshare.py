"""The part of figshare's v2 API that we use, on a loopback server; downloads go through a redirect, as there."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from servers.plain import Loopback


def put_article(server: Loopback, article: int, version: int | None, files: Mapping[str, bytes], page: int) -> None:
    """An article: the files of one version in one answer, those of the newest page by page (``page`` a page)."""
    entries: list[dict[str, Any]] = []
    for number, (name, content) in enumerate(files.items(), start=53187695):
        server.moved[f"/ndownloader/files/{number}"] = f"{server.url}/storage/{number}?X-Amz-Signature=s3cr3t"
        server.files[f"/storage/{number}"] = content
        digest = hashlib.md5(content).hexdigest()
        entries.append(
            {
                "id": number,
                "name": name,
                "size": len(content),
                "is_link_only": False,
                "download_url": f"{server.url}/ndownloader/files/{number}",
                "supplied_md5": digest,
                "computed_md5": digest,
            }
        )
    if version is not None:
        server.answers[f"/articles/{article}/versions/{version}"] = {
            "id": article,
            "version": version,
            "files": entries,
        }
        return
    for number in range(len(entries) // page + 1):
        query = f"page={number + 1}&page_size={page}"
        server.answers[f"/articles/{article}/files?{query}"] = entries[number * page : (number + 1) * page]
