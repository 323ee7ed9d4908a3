"""Google Drive as ``gdown`` sees it: small files at once, large ones behind a confirmation page, quota pages."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from requests.adapters import HTTPAdapter
from servers.hub_base import Reply, Request, Server, file_reply, page_reply

FILE_ID = "1AbC-dEf_GhIjKlMnOp"
# As the real ones, each page's body is one line: the library reads line by line.
CONFIRM = (
    "<html><head><title>Google Drive - Virus scan warning</title></head>\n<body>"
    '<p class="uc-warning-caption">Google Drive can\'t scan this file for viruses.</p>'
    '<form id="download-form" action="https://drive.usercontent.google.com/download" method="get">'
    '<input type="submit" id="uc-download-link" value="Download anyway"/><input type="hidden" name="id" value="{id}">'
    '<input type="hidden" name="export" value="download"><input type="hidden" name="confirm" value="t">'
    '<input type="hidden" name="uuid" value="5ec7e7"></form></body></html>'
)
QUOTA = (
    "<html><head><title>Google Drive - Quota exceeded</title></head>\n<body>"
    '<p class="uc-error-caption">Sorry, you can\'t view or download this file at this time.</p>'
    '<p class="uc-error-subcaption">Too many users have viewed or downloaded this file recently.</p></body></html>'
)
LOGIN = "<html><head><title>Google Drive: Sign-in</title></head><body>Sign in to continue</body></html>"


@dataclass
class Drive:
    """State of Drive; tests change it between calls."""

    body: bytes
    name: str = "data.zip"
    large: bool = False
    quota: bool = False
    private: bool = False
    fail: list[int] = field(default_factory=list)
    cut_once: int | None = None
    down: bool = False

    def __enter__(self) -> Drive:
        self.site = Server(self.answer).__enter__()
        self.store = Server(self.answer_store, name="127.0.0.1").__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.site.__exit__()
        self.store.__exit__()

    def adapters(self) -> dict[str, Any]:
        """What leads a session's requests for Google's names to these servers."""
        return {
            "https://drive.google.com/": Rewrite(self, "site"),
            "https://drive.usercontent.google.com/": Rewrite(self, "store"),
        }

    def answer(self, request: Request) -> Reply:
        if self.fail:
            return page_reply("<html>trouble</html>", self.fail.pop(0))
        if request.query.get("id") != FILE_ID:
            return page_reply("<html><title>Error 404 (Not Found)</title></html>", 404)
        if self.private:
            return page_reply(LOGIN)
        if self.quota:
            return page_reply(QUOTA)
        return page_reply(CONFIRM.format(id=FILE_ID)) if self.large else self.content(request)

    def answer_store(self, request: Request) -> Reply:
        assert request.query["confirm"] == "t"
        assert request.query["uuid"] == "5ec7e7"
        return page_reply(QUOTA) if self.quota else self.content(request)

    def content(self, request: Request) -> Reply:
        disposition = {"Content-Disposition": f'attachment; filename="{self.name}"', "ETag": '"one"'}
        reply = file_reply(request, self.body, **disposition)
        if self.cut_once is not None:
            reply.cut, self.cut_once = self.cut_once, None
        return reply


class Rewrite(HTTPAdapter):
    """``gdown`` has no setting for another host; this sends what is meant for Google to loopback instead."""

    def __init__(self, drive: Drive, part: str) -> None:
        super().__init__()
        self.drive, self.part = drive, part

    def send(self, request: Any, **options: Any) -> Any:
        base = "http://localhost:9" if self.drive.down else getattr(self.drive, self.part).url
        parts = urlsplit(request.url)
        request.url = urlunsplit(urlsplit(base)[:2] + parts[2:])
        return super().send(request, **options)
