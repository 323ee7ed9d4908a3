"""ModelScope's API as ``modelscope-hub`` sees it: the tree page by page, files by redirect to a store."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from servers.hub_base import Reply, Request, Server, file_reply, json_reply, redirect

REPOSITORY = "Group/Set"
REVISION = "v1.0"
SIGNATURE = "Signature=osssecret99"


@dataclass
class Scope:
    """State of the site; tests change it between calls."""

    files: dict[str, bytes]
    token: str = ""
    closed: bool = False  # only with the token
    forbidden: bool = False
    fail: list[int] = field(default_factory=list)
    cut_once: int | None = None
    served: dict[str, bytes] = field(default_factory=dict)

    def __enter__(self) -> Scope:
        self.api = Server(self.answer).__enter__()
        self.store = Server(self.answer_store, name="127.0.0.1").__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.api.__exit__()
        self.store.__exit__()

    def answer(self, request: Request) -> Reply:
        if self.fail:
            return self.error(self.fail.pop(0), "trouble")
        sent = request.headers.get("authorization", "")
        if sent and sent != f"Bearer {self.token}":
            return self.error(401, "invalid token")
        if self.forbidden or (self.closed and not sent):
            return self.error(403, "access denied")
        base = f"/api/v1/datasets/{REPOSITORY}/repo"
        if request.path not in {base, base + "/tree"} or request.query["Revision"] not in {"master", REVISION}:
            return self.error(404, "not found")
        if request.path == base:
            path = request.query["FilePath"]
            if path not in self.files:
                return self.error(404, "file not found")
            return redirect(f"{self.store.url}/{path}?{SIGNATURE}")
        size, page = int(request.query["PageSize"]), int(request.query["PageNumber"])
        entries = [{"Path": "data", "Name": "data", "Type": "tree", "Size": 0}]
        entries += [
            {
                "Path": path,
                "Name": path.split("/")[-1],
                "Type": "blob",
                "Size": len(body),
                "Sha256": hashlib.sha256(body).hexdigest(),
            }
            for path, body in sorted(self.files.items())
        ]
        found = entries[(page - 1) * size : page * size]
        return json_reply({"Code": 200, "Success": True, "Data": {"Files": found, "TotalCount": len(entries)}})

    def error(self, status: int, message: str) -> Reply:
        return json_reply({"Code": status, "Success": False, "Message": message}, status, **{"Retry-After": "0"})

    def answer_store(self, request: Request) -> Reply:
        path = request.path[1:]
        reply = file_reply(request, self.served.get(path, self.files[path]))
        if self.cut_once is not None:
            reply.cut, self.cut_once = self.cut_once, None
        return reply
