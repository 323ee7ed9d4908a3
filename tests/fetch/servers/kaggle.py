"""Kaggle's RPC site as ``kagglesdk`` sees it: POST of JSON, errors with code and message, downloads by redirect."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import zipfile
from dataclasses import dataclass, field
from urllib.parse import unquote

from servers.hub_base import Reply, Request, Server, file_reply, json_reply, page_reply, redirect

SIGNATURE = "X-Goog-Signature=storesecret77"
RULES_MESSAGE = "You must accept this competition's rules before you'll be able to download files."


@dataclass
class Kaggle:
    """State of the site; tests change it between calls."""

    files: dict[str, bytes]
    version: int = 3
    slug: str = "pictures"
    competition: str = "blindness"
    logins: set[str] = field(default_factory=set)  # Authorization values that the site knows
    public: bool = True
    rules_accepted: bool = True
    packed: set[str] = field(default_factory=set)  # single files that the site serves zipped
    direct: bool = False  # no redirect
    fail: list[int] = field(default_factory=list)
    cut_once: int | None = None
    page_instead: bool = False
    wrong_md5: bool = False

    def __enter__(self) -> Kaggle:
        self.api = Server(self.answer).__enter__()
        self.store = Server(self.answer_store, name="127.0.0.1").__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.api.__exit__()
        self.store.__exit__()

    def answer(self, request: Request) -> Reply:
        assert request.method == "POST"
        if self.fail:
            return json_reply({"code": self.fail[0], "message": "trouble"}, self.fail.pop(0), **{"Retry-After": "0"})
        sent = request.headers.get("authorization", "")
        if sent and sent not in self.logins:
            return self.error(401, "Unauthenticated")
        if not sent and not self.public:
            return self.error(403, "Permission 'datasets.get' was denied")
        order = json.loads(request.body or b"{}")
        call = request.path.removeprefix("/api/v1/")
        if call.startswith("competitions."):
            return self.of_competition(call, order, bool(sent))
        if (order["ownerSlug"], order["datasetSlug"]) != ("owner", self.slug):
            return self.error(404, "Dataset not found")
        if order.get("datasetVersionNumber", self.version) > self.version:
            return self.error(404, "Version not found")
        if call == "datasets.DatasetApiService/GetDataset":
            return json_reply({"id": 1, "currentVersionNumber": self.version})
        if call == "datasets.DatasetApiService/ListDatasetFiles":
            return self.page(order, "datasetFiles")
        assert call == "datasets.DatasetApiService/DownloadDataset", call
        return self.download(order.get("fileName", ""), f"{self.slug}.zip")

    def of_competition(self, call: str, order: dict[str, str], has_login: bool) -> Reply:
        if order["competitionName"] != self.competition:
            return self.error(404, "Competition not found")
        if call == "competitions.CompetitionApiService/ListDataFiles":
            return self.page(order, "files")
        if not has_login:
            return self.error(401, "Unauthenticated")
        if not self.rules_accepted:
            return self.error(403, RULES_MESSAGE)
        return self.download(order.get("fileName", ""), f"{self.competition}.zip")

    def error(self, code: int, message: str) -> Reply:
        return json_reply({"code": code, "message": message}, code)

    def page(self, order: dict[str, str], key: str) -> Reply:
        names = sorted(self.files)
        first = int(order.get("pageToken", "0"))
        entries = [{"name": name, "totalBytes": len(self.files[name])} for name in names[first : first + 2]]
        rest = {"nextPageToken": str(first + 2)} if first + 2 < len(names) else {}
        return json_reply({key: entries, **rest})

    def download(self, name: str, bundle: str) -> Reply:
        if name and name not in self.files:
            return self.error(404, "File not found")
        if self.direct:
            return Reply(200, self.body(name or bundle), {"Content-Type": "application/octet-stream"})
        served = name + ".zip" if name in self.packed else name or bundle
        return redirect(f"{self.store.url}/{served}?{SIGNATURE}")

    def body(self, served: str) -> bytes:
        if served in self.files:
            return self.files[served]
        members = [served[:-4]] if served[:-4] in self.packed else sorted(self.files)
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w") as archive:
            for member in members:
                inside = member.split("/")[-1] if len(members) == 1 else member
                archive.writestr(zipfile.ZipInfo(inside), self.files[member])
        return stream.getvalue()

    def answer_store(self, request: Request) -> Reply:
        if self.page_instead:
            return page_reply("<html><title>Sign in</title></html>")
        body = self.body(unquote(request.path[1:]))
        digest = hashlib.md5(b"other" if self.wrong_md5 else body).digest()
        reply = file_reply(
            request,
            body,
            ETag=f'"{hashlib.sha256(body).hexdigest()}"',
            **{"x-goog-hash": f"crc32c=AAAAAA==,md5={base64.b64encode(digest).decode()}"},
        )
        if self.cut_once is not None:
            reply.cut, self.cut_once = self.cut_once, None
        return reply
