"""A small HTTP server on loopback: routes are functions, requests are recorded, files answer to ranges."""

from __future__ import annotations

import json
import re
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit


@dataclass
class Request:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes = b""

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Reply:
    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    cut: int | None = None  # bytes after which the connection is closed, whatever Content-Length said


def json_reply(content: Any, status: int = 200, **headers: str) -> Reply:
    return Reply(status, json.dumps(content).encode(), {"Content-Type": "application/json", **headers})


def page_reply(text: str, status: int = 200) -> Reply:
    return Reply(status, text.encode(), {"Content-Type": "text/html; charset=utf-8"})


def redirect(location: str, **headers: str) -> Reply:
    return Reply(302, b"", {"Location": location, **headers})


def file_reply(request: Request, body: bytes, **headers: str) -> Reply:
    """The file, or the part from ``Range: bytes=N-[M]`` on."""
    common = {"Content-Type": "application/octet-stream", "Accept-Ranges": "bytes", **headers}
    match = re.fullmatch(r"bytes=(\d+)-(\d*)", request.headers.get("range", ""))
    if not match:
        return Reply(200, body, common)
    first = int(match.group(1))
    if first >= len(body):
        return Reply(416, b"", {"Content-Range": f"bytes */{len(body)}"})
    last = min(int(match.group(2) or len(body) - 1), len(body) - 1)
    return Reply(206, body[first : last + 1], common | {"Content-Range": f"bytes {first}-{last}/{len(body)}"})


class Server:
    """Use as a context manager; ``answer`` gets each request. ``name`` is the host name in ``url``."""

    def __init__(self, answer: Callable[[Request], Reply], name: str = "localhost") -> None:
        self.requests: list[Request] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self) -> None:
                parts = urlsplit(self.path)
                query = {key: values[-1] for key, values in parse_qs(parts.query, keep_blank_values=True).items()}
                headers = {key.lower(): value for key, value in self.headers.items()}
                body = self.rfile.read(int(headers.get("content-length", 0)))
                request = Request(self.command, parts.path, query, headers, body)
                server.requests.append(request)
                reply = answer(request)
                self.send_response(reply.status)
                for key, value in ({"Content-Length": str(len(reply.body))} | reply.headers).items():
                    self.send_header(key, value)
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(reply.body if reply.cut is None else reply.body[: reply.cut])
                if reply.cut is not None:
                    self.close_connection = True

            do_GET = do_POST = do_HEAD = do_PUT = handle_any  # noqa: N815

            def log_message(self, *_: object) -> None:
                pass

        class Quiet(ThreadingHTTPServer):
            def handle_error(self, request: object, client_address: object) -> None:
                # A client that goes away in the middle is part of the tests.
                if not isinstance(sys.exc_info()[1], ConnectionError):
                    super().handle_error(request, client_address)

        self._http = Quiet(("127.0.0.1", 0), Handler)
        self.url = f"http://{name}:{self._http.server_port}"
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    def __enter__(self) -> Server:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()
