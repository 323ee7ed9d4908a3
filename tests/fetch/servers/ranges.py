"""A loopback server of one file that speaks byte ranges, well or badly."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MISBEHAVIOURS = frozenset(
    {
        "ignores ranges",  # 200 with the whole file
        "web page",  # 200 with a page of HTML
        "wrong start",  # Content-Range of other bytes than asked
        "wrong end",
        "no total",  # Content-Range: bytes 0-0/*
        "no content range",
        "other bytes",  # correct headers, other content
        "new etag",  # another ETag from the third answer on
        "new size",
        "no version",  # neither ETag nor Last-Modified
        "weak etag",  # the ETag is weak, Last-Modified stands
        "new date",  # weak ETag and another Last-Modified from the third answer on
        "cut",  # half of the body, every time
        "cut twice",  # the same, but only for the second and third answer
        "too long",  # more bytes than asked, without Content-Length
        "announces more",
        "stalls",  # headers, then nothing
        "drips",  # one byte after the other
        "gzip",
        "busy twice",  # 503 with Retry-After: 0, twice
        "busy",
        "busy for a day",
        "refuses",
        "gone",
        "no such range",
        "redirects",  # once, to the same file with a signature
    }
)
ETAG, DATE = '"v1"', "Mon, 01 Jan 2024 00:00:00 GMT"


class RangeServer(ThreadingHTTPServer):
    """Serves ``content`` at ``url``; ``asked`` holds the ranges of all answers, ``sent`` the body bytes."""

    daemon_threads = True

    def __init__(self, content: bytes, misbehaviour: str | None) -> None:
        assert misbehaviour is None or misbehaviour in MISBEHAVIOURS
        super().__init__(("127.0.0.1", 0), _Handler)
        self.content = content
        self.misbehaviour = misbehaviour
        self.asked: list[str | None] = []
        self.authorizations: list[str | None] = []
        self.sent = 0
        self.stop = threading.Event()

    def handle_error(self, *_: object) -> None:
        """A client that hangs up is no fault of the server."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/files/archive?signature=s3cret"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: RangeServer

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        server, bad = self.server, self.server.misbehaviour
        if bad == "redirects" and "moved" not in self.path:
            return self._answer(302, {"Location": f"{self.path}&moved=1"}, b"")
        server.asked.append(self.headers.get("Range"))
        server.authorizations.append(self.headers.get("Authorization"))
        turn = len(server.asked)
        status = {"refuses": 403, "gone": 410, "no such range": 416, "busy": 503, "busy for a day": 429}.get(bad or "")
        if bad == "busy twice" and turn in {2, 3}:
            status = 503
        if status:
            wait = {"busy for a day": {"Retry-After": "86400"}, "busy twice": {"Retry-After": "0"}}
            return self._answer(status, wait.get(bad or "", {}), b"no")
        if bad == "web page":
            return self._answer(200, {"Content-Type": "text/html; charset=utf-8"}, b"<html>Quota exceeded</html>")
        if bad == "ignores ranges":
            return self._answer(200, {"ETag": ETAG}, server.content)
        return self._partial(turn, bad)

    def _partial(self, turn: int, bad: str | None) -> None:
        found = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        assert found, "the client asks for one plain range"
        content, (start, end) = self.server.content, (int(number) for number in found.groups())
        body, size = content[start : end + 1], len(content)
        end = start + len(body) - 1
        if bad == "wrong start":
            start, end = start + 1, end + 1
        if bad == "wrong end":
            end += 1
        if bad == "other bytes":
            body = bytes(byte ^ 0x55 for byte in body)
        if bad == "new size" and turn > 2:
            size += 1
        total = "*" if bad == "no total" else str(size)
        headers = {"Content-Range": f"bytes {start}-{end}/{total}", "ETag": ETAG, "Last-Modified": DATE}
        if bad == "no content range":
            del headers["Content-Range"]
        if bad == "no version":
            del headers["ETag"], headers["Last-Modified"]
        if bad in {"weak etag", "new date"}:
            headers["ETag"] = f'W/"{turn}"'
        if bad == "new etag" and turn > 2:
            headers["ETag"] = '"v2"'
        if bad == "new date" and turn > 2:
            headers["Last-Modified"] = DATE.replace("2024", "2025")
        if bad == "gzip":
            headers["Content-Encoding"] = "gzip"
        self._answer(206, headers, body, cut=bad == "cut" or (bad == "cut twice" and turn in {2, 3}))

    def _answer(self, status: int, headers: dict[str, str], body: bytes, cut: bool = False) -> None:
        bad = self.server.misbehaviour
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        if bad == "too long":
            body += b"more"
            self.send_header("Connection", "close")
        else:
            self.send_header("Content-Length", str(len(body) + (5 if bad == "announces more" else 0)))
        self.end_headers()
        if bad == "stalls":
            self.server.stop.wait(30)
            body = b""
        if cut:
            body = body[: len(body) // 2]
        try:
            for piece in (bytes([byte]) for byte in body) if bad == "drips" else (body,):
                self.wfile.write(piece)
                self.server.sent += len(piece)
                if bad == "drips":
                    time.sleep(0.02)
        except OSError:  # the client has gone, as it should
            self.close_connection = True
        if cut or bad in {"ignores ranges", "too long", "announces more", "stalls"}:
            self.close_connection = True


@contextmanager
def range_server(content: bytes, misbehaviour: str | None = None) -> Iterator[RangeServer]:
    """A running server; stopped at the end of the block."""
    server = RangeServer(content, misbehaviour)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield server
    finally:
        server.stop.set()
        server.shutdown()
        server.server_close()
        thread.join()
