"""Synapse's REST API as ``synapseclient`` sees it: bundles, children page by page, signed addresses of a store."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

from servers.hub_base import Reply, Request, Server, file_reply, json_reply

SIGNATURE = "X-Amz-Signature=storesecret55"
MODEL = "org.sagebionetworks.repo.model."


@dataclass
class Synapse:
    """``files``: entity id -> (parent id, name, content); ``folders``: id -> (parent id, name)."""

    files: dict[str, tuple[str, str, bytes]]
    folders: dict[str, tuple[str, str]]
    token: str = ""
    unmet: set[str] = field(default_factory=set)
    unauthorized: bool = False  # at the moment of download
    fail: list[int] = field(default_factory=list)
    cut_once: int | None = None
    served: dict[str, bytes] = field(default_factory=dict)

    def __enter__(self) -> Synapse:
        self.api = Server(self.answer).__enter__()
        self.store = Server(self.answer_store, name="127.0.0.1").__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.api.__exit__()
        self.store.__exit__()

    def config(self) -> str:
        parts = {"repoEndpoint": "repo", "authEndpoint": "auth", "fileHandleEndpoint": "file"}
        return "[endpoints]\n" + "".join(f"{key}={self.api.url}/{part}/v1\n" for key, part in parts.items())

    def answer(self, request: Request) -> Reply:
        if self.fail:
            return json_reply({"reason": "trouble"}, self.fail.pop(0))
        if request.headers.get("authorization") != f"Bearer {self.token}":
            return json_reply({"reason": "Invalid access token"}, 401)
        order = request.json()
        if request.path == "/file/v1/fileHandle/batch":
            return json_reply({"requestedFiles": [self.handle(asked) for asked in order["requestedFiles"]]})
        if request.path == "/repo/v1/entity/children":
            return self.children(order)
        entity = request.path.split("/")[4]
        assert request.path == f"/repo/v1/entity/{entity}/bundle2"
        if entity not in self.files and entity not in self.folders:
            return json_reply({"reason": f"Entity {entity} is in trash can."}, 404)
        return json_reply(self.bundle(entity))

    def bundle(self, entity: str) -> dict[str, Any]:
        restriction = {"hasUnmetAccessRequirement": entity in self.unmet}
        if entity in self.folders:
            described = {"id": entity, "name": self.folders[entity][1], "concreteType": MODEL + "Folder"}
            return {"entity": described, "restrictionInformation": restriction}
        _, name, body = self.files[entity]
        handle = "9" + entity[3:]
        described = {"id": entity, "name": name, "concreteType": MODEL + "FileEntity", "dataFileHandleId": handle}
        content = {
            "id": handle,
            "fileName": name,
            "contentSize": len(body),
            "contentMd5": hashlib.md5(body).hexdigest(),
            "concreteType": MODEL + "file.S3FileHandle",
        }
        return {"entity": described, "fileHandles": [content], "restrictionInformation": restriction}

    def children(self, order: dict[str, Any]) -> Reply:
        found = [
            {"id": key, "name": name, "type": MODEL + kind}
            for kind, entries in (("FileEntity", self.files), ("Folder", self.folders))
            for key, (parent, name, *_) in entries.items()
            if parent == order["parentId"]
        ]
        first = int(order.get("nextPageToken", 0))
        rest = {"nextPageToken": str(first + 1)} if first + 1 < len(found) else {}
        return json_reply({"page": found[first : first + 1], **rest})

    def handle(self, asked: dict[str, str]) -> dict[str, Any]:
        entity = asked["associateObjectId"]
        if self.unauthorized:
            return {"fileHandleId": asked["fileHandleId"], "failureCode": "UNAUTHORIZED"}
        if entity not in self.files:
            return {"fileHandleId": asked["fileHandleId"], "failureCode": "NOT_FOUND"}
        return {"fileHandleId": asked["fileHandleId"], "preSignedURL": f"{self.store.url}/{entity}?{SIGNATURE}"}

    def answer_store(self, request: Request) -> Reply:
        entity = request.path[1:]
        body = self.served.get(entity, self.files[entity][2])
        reply = file_reply(request, body, ETag=f'"{hashlib.md5(body).hexdigest()}"')
        if self.cut_once is not None:
            reply.cut, self.cut_once = self.cut_once, None
        return reply
