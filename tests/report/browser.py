"""A headless Chromium driven over its DevTools pipe: no driver program, no extra package."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
PATIENCE = 60
# The browser reads commands from descriptor 3 and answers on 4.
AS_3_AND_4 = (
    "import os, sys; r, w = (os.dup(os.dup(os.dup(int(n)))) for n in sys.argv[1:3]); "
    "os.dup2(r, 3); os.dup2(w, 4); os.execv(sys.argv[3], sys.argv[3:])"
)


def find_browser() -> str | None:
    """Path of a Chromium-like browser, ``MEDHEB_BROWSER`` first; None if there is none."""
    return next(
        (found for name in (os.environ.get("MEDHEB_BROWSER", ""), *NAMES) if (found := shutil.which(name))), None
    )


class Tab:
    """One page: evaluate in it, press keys, take pictures; what it asked for and complained of is kept."""

    def __init__(self, incoming: int, outgoing: int) -> None:
        self._in, self._out = incoming, outgoing
        self._buffer = b""
        self._number = 0
        self._session: str | None = None
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.events: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> Any:
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._number:
                assert "error" not in answer, (method, answer)
                return answer["result"]
            self._note(answer)

    def _read(self) -> Any:
        limit = time.monotonic() + PATIENCE
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._in], [], [], max(0.0, limit - time.monotonic()))
            assert ready, "the browser does not answer"
            chunk = os.read(self._in, 1 << 20)
            assert chunk, "the browser has gone"
            self._buffer += chunk
        message, self._buffer = self._buffer.split(b"\0", 1)
        return json.loads(message)

    def _note(self, event: Any) -> None:
        method, params = event.get("method", ""), event.get("params", {})
        self.events.append(method)
        if method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(params["exceptionDetails"])[:500])
        elif method == "Log.entryAdded" or (method == "Runtime.consoleAPICalled" and params["type"] == "error"):
            self.complaints.append(json.dumps(params)[:500])

    def open(self, path: Path, anchor: str = "") -> None:
        """Open a file and wait until it is there; forgets what earlier pages did."""
        # By way of an empty page: going to another place of the same file loads nothing.
        for address in ("about:blank", path.resolve().as_uri() + anchor):
            self.requests, self.complaints, self.events = [], [], []
            self.call("Page.navigate", url=address)
            while "Page.loadEventFired" not in self.events:
                self._note(self._read())

    def js(self, expression: str) -> Any:
        """Value of an expression in the page."""
        result = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, userGesture=True, awaitPromise=True
        )
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def wait_for(self, expression: str) -> None:
        """Wait until an expression is true."""
        limit = time.monotonic() + 10
        while not self.js(expression):
            assert time.monotonic() < limit, expression
            time.sleep(0.05)

    def key(self, key: str, text: str = "") -> None:
        """Press and release a key."""
        for kind in ("keyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent", type=kind, key=key, **({"text": text} if text and kind == "keyDown" else {})
            )

    def size(self, width: int, height: int, dark: bool = False) -> None:
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", features=scheme)

    def picture(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def pdf(self) -> bytes:
        return base64.b64decode(self.call("Page.printToPDF", printBackground=True)["data"])


@contextmanager
def browser(program: str, profile: Path) -> Iterator[Tab]:
    """A browser with a profile of its own, ended afterwards."""
    to_read, to_write = os.pipe()
    from_read, from_write = os.pipe()
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--no-first-run"]
    flags += ["--disable-background-networking", "--disable-dev-shm-usage", f"--user-data-dir={profile}"]
    command = [sys.executable, "-c", AS_3_AND_4, str(to_read), str(from_write), program, *flags]
    process = subprocess.Popen(
        command, pass_fds=(to_read, from_write), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    os.close(to_read)
    os.close(from_write)
    try:
        yield Tab(from_read, to_write)
    finally:
        os.close(to_write)
        os.close(from_read)
        process.terminate()
        process.wait(timeout=30)
