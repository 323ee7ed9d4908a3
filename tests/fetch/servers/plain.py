"""A loopback web server for files and JSON that can misbehave in all the ways that real ones do."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

QUOTA_PAGE = b"<!DOCTYPE html><html><head><title>Quota exceeded &amp; more</title></head><body>Sorry</body></html>"
LFS_POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"
DATE = "Wed, 01 Jan 2020 00:00:00 GMT"
STALL_SECONDS = 20


class Loopback(ThreadingHTTPServer):
    """What it serves, how it misbehaves, and what it was asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files: dict[str, bytes] = {}
        self.answers: dict[str, Any] = {}  # path with query -> content of a JSON answer
        self.moved: dict[str, str] = {}  # path -> address it redirects to
        self.tokens: dict[str, str] = {}  # path -> value of Authorization that it needs
        # path -> faults of the next answers, one each; a fault that starts with "always " stays.
        self.faults: dict[str, list[str]] = defaultdict(list)
        self.retry_after = "0"
        self.requests: list[tuple[str, Message]] = []
        self.busy = self.most_busy = 0
        self.gate: threading.Barrier | None = None
        self.guard = threading.Lock()
        self.stopping = threading.Event()

    @property
    def url(self) -> str:
        """Base address without a closing slash."""
        return f"http://127.0.0.1:{self.server_port}"

    def paths(self) -> list[str]:
        """Paths asked for, in order."""
        return [path for path, _ in self.requests]

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes away is part of the tests."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Loopback

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        server = self.server
        with server.guard:
            server.requests.append((self.path, self.headers))
            server.busy += 1
            server.most_busy = max(server.most_busy, server.busy)
            waiting = server.faults[self.path]
            fault = "" if not waiting else waiting[0] if waiting[0].startswith("always ") else waiting.pop(0)
        try:
            if server.gate:
                server.gate.wait(5)
            self._answer(fault.removeprefix("always "))
        finally:
            with server.guard:
                server.busy -= 1

    def _answer(self, fault: str) -> None:
        server = self.server
        if self.path in server.moved:
            self._send(302, b"", {"Location": server.moved[self.path]})
        elif fault.isdigit():
            self._send(int(fault), b"no", {"Retry-After": server.retry_after} if fault in {"429", "503"} else {})
        elif fault == "rate limit":
            self._send(403, b"no", {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "0"})
        elif fault == "drop":
            self.close_connection = True
        elif fault == "quota page":
            self._send(200, QUOTA_PAGE, {"Content-Type": "text/html; charset=utf-8"})
        elif self.path in server.tokens and "Authorization" not in self.headers:
            self._send(401, b"no", {})
        elif self.path in server.tokens and self.headers["Authorization"] != server.tokens[self.path]:
            self._send(403, b"no", {})
        elif self.path in server.answers:
            body = json.dumps(server.answers[self.path]).encode()
            self._send(200, body, {"Content-Type": "application/json"})
        elif self.path.partition("?")[0] in server.files:
            self._file(server.files[self.path.partition("?")[0]], fault)
        else:
            self._send(404, b"<html><title>404</title></html>", {"Content-Type": "text/html"})

    def _file(self, content: bytes, fault: str) -> None:
        bodies = {"page as file": QUOTA_PAGE, "pointer": LFS_POINTER, "longer": content + b"x" * 2_000_000}
        content = bodies.get(fault, content)
        headers = {"Content-Type": "application/octet-stream", "Accept-Ranges": "bytes", "Last-Modified": DATE}
        headers["ETag"] = f'"{hashlib.sha256(content).hexdigest()[:16]}"'
        if fault == "typed as page":
            headers["Content-Type"] = "text/html"
        if fault == "other version":
            headers |= {"ETag": '"other"', "Last-Modified": "Thu, 02 Jan 2020 00:00:00 GMT"}
        if "weak" in fault:
            headers["ETag"] = "W/" + headers["ETag"]
        if "undated" in fault:
            del headers["Last-Modified"]
        if fault == "packed":
            self._send(200, gzip.compress(content), headers | {"Content-Encoding": "gzip"})
            return
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        if not asked or fault == "ranges ignored":
            self._send(200, content, headers, fault)
            return
        start, total = int(asked.group(1)), len(content)
        claimed = start - 1 if fault == "wrong range" else start
        part = f"bytes {claimed}-{total - 1}/{total + (fault == 'wrong total')}"
        body = bytes(total - start) if fault == "other bytes" else content[start:]
        self._send(206, body, headers | {"Content-Range": part}, fault)

    def _send(self, status: int, body: bytes, headers: dict[str, str], fault: str = "") -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        length = len(body) // 2 if fault == "short length" else len(body)
        if fault == "longer":
            self.close_connection = True
        else:
            self.send_header("Content-Length", str(length))
        self.end_headers()
        if fault.startswith(("cut", "stall")):
            self.wfile.write(body[: len(body) // 2])
            self.wfile.flush()
            self.close_connection = True
            if fault.startswith("stall"):
                self.server.stopping.wait(STALL_SECONDS)
            return
        if fault == "short length":
            self.close_connection = True
        self.wfile.write(body)


@contextmanager
def loopback() -> Iterator[Loopback]:
    """A running server; it and its waiting answers end with the block."""
    server = Loopback()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server
    finally:
        server.stopping.set()
        server.shutdown()
        thread.join()
        server.server_close()
