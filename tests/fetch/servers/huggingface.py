"""The Hugging Face hub as ``huggingface_hub`` sees it: repo info, tree, paths-info, resolve with a CDN behind it."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from urllib.parse import parse_qs, unquote

from servers.hub_base import Reply, Request, Server, file_reply, json_reply, redirect

COMMIT = "b" * 40
REPOSITORY = "group/set"
SIGNATURE = "Signature=cdnsecret123"


@dataclass
class Hub:
    """State of the hub; tests change it between calls."""

    files: dict[str, bytes]
    lfs: set[str] = field(default_factory=set)
    commit: str = COMMIT  # where main is now
    gated: bool = False
    token: str | None = None  # the one token that the hub knows
    accepted: bool = True
    denial: str = ""  # X-Error-Message of a 403
    disabled: bool = False
    fail: list[int] = field(default_factory=list)  # statuses of the next answers
    retry_after: str = "0"
    cut_once: int | None = None
    served: dict[str, bytes] = field(default_factory=dict)  # other bytes than the listing promises

    def __enter__(self) -> Hub:
        self.api = Server(self.answer).__enter__()
        self.cdn = Server(self.answer_cdn, name="127.0.0.1").__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.api.__exit__()
        self.cdn.__exit__()

    def answer(self, request: Request) -> Reply:
        if self.fail:
            return json_reply({"error": "trouble"}, self.fail.pop(0), **{"Retry-After": self.retry_after})
        api = re.fullmatch(
            rf"/api/(?:datasets|models)/{REPOSITORY}/(revision|tree|paths-info)/([^/]+)(?:/.*)?", unquote(request.path)
        )
        resolve = re.fullmatch(rf"(?:/datasets)?/{REPOSITORY}/resolve/([^/]+)/(.+)", unquote(request.path))
        if request.path in {f"/api/{kind}/{REPOSITORY}/auth-check" for kind in ("datasets", "models")}:
            return self.denied(request, content=True) or json_reply({})
        if not api and not resolve:
            return self.error(404 if self.authorized(request) else 401, "RepoNotFound", "Repository not found")
        if denied := self.denied(request, content=bool(resolve)):
            return denied
        revision = api.group(2) if api else resolve.group(1)
        if revision not in {"main", self.commit, COMMIT}:
            return self.error(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        if resolve:
            return self.resolve(request, resolve.group(2))
        if api.group(1) == "revision":
            return json_reply({"id": REPOSITORY, "sha": self.commit, "siblings": []})
        entries = [self.entry(path) for path in sorted(self.files)]
        if api.group(1) == "paths-info":
            asked = set(parse_qs(request.body.decode())["paths"])
            return json_reply([entry for entry in entries if entry["path"] in asked])
        page = int(request.query.get("cursor", 0))
        reply = json_reply([{"type": "directory", "oid": "0" * 40, "path": "data"}, *entries][page : page + 2])
        if page + 2 <= len(entries):
            reply.headers["Link"] = f'<{self.api.url}{request.path}?recursive=True&cursor={page + 2}>; rel="next"'
        return reply

    def denied(self, request: Request, content: bool) -> Reply | None:
        sent = request.headers.get("authorization", "")
        if sent and sent != f"Bearer {self.token}":
            return self.error(401, "", "Invalid credentials in Authorization header")
        if self.disabled:
            return self.error(403, "", "Access to this resource is disabled.")
        # The tree of a gated repository is public; its content is not.
        if self.gated and content and not (sent and self.accepted):
            return self.error(403 if sent else 401, "GatedRepo", self.denial or "Access to dataset is restricted.")
        return None

    def authorized(self, request: Request) -> bool:
        return request.headers.get("authorization") == f"Bearer {self.token}"

    def error(self, status: int, code: str, message: str) -> Reply:
        return json_reply({"error": message}, status, **{"X-Error-Code": code, "X-Error-Message": message})

    def resolve(self, request: Request, path: str) -> Reply:
        if path not in self.files:
            return self.error(404, "EntryNotFound", "Entry not found")
        body = self.files[path]
        headers = {"X-Repo-Commit": self.commit}
        if path not in self.lfs:
            return file_reply(request, self.served.get(path, body), ETag=f'"{"1" * 40}"', **headers)
        headers |= {"X-Linked-Size": str(len(body)), "X-Linked-ETag": f'"{hashlib.sha256(body).hexdigest()}"'}
        return redirect(f"{self.cdn.url}/{path}?{SIGNATURE}", **headers)

    def entry(self, path: str) -> dict[str, object]:
        body = self.files[path]
        entry: dict[str, object] = {"type": "file", "oid": "1" * 40, "size": len(body), "path": path}
        if path in self.lfs:
            entry["lfs"] = {"oid": hashlib.sha256(body).hexdigest(), "size": len(body), "pointerSize": 134}
        return entry

    def answer_cdn(self, request: Request) -> Reply:
        path = request.path[1:]
        reply = file_reply(request, self.served.get(path, self.files[path]))
        if self.cut_once is not None:
            reply.cut, self.cut_once = self.cut_once, None
        return reply
