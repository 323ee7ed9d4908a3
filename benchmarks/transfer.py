"""Download of one large file with its digest, against ``curl`` from the same loopback server in the same run.

Prints ``bench download ratio=... peak_mb=...``. ``ratio`` is our speed over curl's, which neither takes a digest nor
flushes to the disk; ``ratio_verified`` is over curl followed by ``sha256sum``. Both take turns for several rounds;
ratios are medians of the rounds, ``best_ratio`` compares the fastest round of each. The digest needs a processor of its
own, so ``ratio`` drops where other programs leave less than two free.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

SIZE_BYTES = 1_000_000_000
BLOCK_BYTES = 1 << 20
ROUNDS = 7
HERE = Path(__file__).resolve().parent
OURS = """
import sys, time
from pathlib import Path
from peak import peak_mb
from medheb.fetch.expected import Expected
from medheb.fetch.http import download
from medheb.manifest.config import Transfer
url, target, size, sha256 = sys.argv[1:]
started = time.monotonic()
download([url], Path(target), Expected(int(size), sha256), Transfer())
print(time.monotonic() - started, peak_mb())
"""


class _Quiet(SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def copyfile(self, source: object, outputfile: object) -> None:
        """Let the kernel send the file, so that the server takes little of the processor."""
        outputfile.flush()  # type: ignore[attr-defined]
        size = os.fstat(source.fileno()).st_size  # type: ignore[attr-defined]
        sent = 0
        while sent < size:
            sent += os.sendfile(self.connection.fileno(), source.fileno(), sent, size - sent)  # type: ignore[attr-defined]


@contextmanager
def _serving(folder: Path) -> Iterator[str]:
    server = ThreadingHTTPServer(
        ("127.0.0.1", 0),
        lambda *arguments: _Quiet(*arguments, directory=str(folder)),
    )
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _make(path: Path) -> str:
    """A file of bytes that do not repeat within a block; returns its sha256."""
    digest, left = hashlib.sha256(), SIZE_BYTES
    block = bytearray(os.urandom(BLOCK_BYTES))
    with path.open("wb") as stream:
        while left:
            block[:8] = left.to_bytes(8, "little")
            part = bytes(block[: min(left, BLOCK_BYTES)])
            stream.write(part)
            digest.update(part)
            left -= len(part)
        stream.flush()
        os.fsync(stream.fileno())
    return digest.hexdigest()


def _median_ratio(theirs: list[float], ours: list[float]) -> float:
    return statistics.median(other / own for other, own in zip(theirs, ours, strict=True))


def bench_download() -> None:
    """Measure and print; the work folder is temporary."""
    curl = shutil.which("curl")
    if curl is None:
        sys.exit("bench download needs curl; install it")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        served = folder / "served"
        served.mkdir()
        sha256 = _make(served / "a.bin")
        ours, theirs, verified, peaks = [], [], [], []
        with _serving(served) as url:
            address, target = f"{url}/a.bin", folder / "came.bin"
            for _ in range(ROUNDS):
                started = time.monotonic()
                subprocess.run([curl, "-sS", "--noproxy", "*", "-o", str(target), address], check=True)
                theirs.append(time.monotonic() - started)
                subprocess.run(["sha256sum", str(target)], check=True, stdout=subprocess.DEVNULL)
                verified.append(time.monotonic() - started)
                target.unlink()
                os.sync()
                command = [sys.executable, "-c", OURS, address, str(target), str(SIZE_BYTES), sha256]
                environment = {**os.environ, "no_proxy": "127.0.0.1", "PYTHONPATH": str(HERE)}
                answer = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
                seconds, peak = map(float, answer.stdout.split())
                ours.append(seconds)
                peaks.append(peak)
                target.unlink()
                os.sync()
    megabytes = SIZE_BYTES / 1e6
    print(
        f"bench download ratio={_median_ratio(theirs, ours):.3g} peak_mb={max(peaks):.3g} "
        f"best_ratio={min(theirs) / min(ours):.3g} ratio_verified={_median_ratio(verified, ours):.3g} "
        f"mb_s={megabytes / statistics.median(ours):.4g} curl_mb_s={megabytes / statistics.median(theirs):.4g}",
        flush=True,
    )


if __name__ == "__main__":
    bench_download()
