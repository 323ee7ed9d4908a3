"""A remote file as a seekable stream: pieces over HTTP ranges, each proved to belong to one and the same file."""

from __future__ import annotations

import io
import logging
import re
import time
from collections import OrderedDict
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

import requests
import urllib3

from medheb.core.errors import BlockedError, MedhebError

LOG = logging.getLogger("medheb.fetch")
BLOCK_BYTES = 4 << 20
CACHED_BLOCKS = 4
# The directory of an archive is read in one piece; a larger one is no honest directory.
MAX_READ_BYTES = 64 << 20
PIECE_BYTES = 64 << 10
SLOWEST_BYTES_PER_S = 10_000
LONGEST_WAIT_S = 300.0
CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)")
RUN_AGAIN = "Run again; nothing half-read was kept"


@dataclass(frozen=True)
class RangeOptions:
    """How one remote file is read.

    Args:
        name: what errors call the file; its address may hold a signature and is never shown.
        bytes: the size that the manifest pins, if it does.
        attempts: tries of one piece.
        connect_s: seconds to wait for a connection.
        stall_s: seconds without a byte after which a transfer counts as stalled.
        pause_s: seconds before the second try, doubled for each further one.
        block_bytes: size of one piece.
    """

    name: str
    bytes: int | None = None
    attempts: int = 5
    connect_s: float = 20.0
    stall_s: float = 60.0
    pause_s: float = 1.0
    block_bytes: int = BLOCK_BYTES


class _Trouble(Exception):  # noqa: N818 - never leaves this module
    """A failure that another try may cure."""

    def __init__(self, reason: str, wait_s: float = 0.0) -> None:
        self.reason = reason
        self.wait_s = wait_s
        super().__init__(reason)


class RangeFile(io.RawIOBase):
    """Read-only stream over a remote file.

    Every answer must be a 206 for exactly the bytes that were asked for, of one total size and one strong
    ETag (or Last-Modified, where there is no strong one). A few blocks are kept in memory.

    Args:
        url: address.
        options: how to read.
        session: carries credentials, if any; a fresh one by default.

    Raises:
        BlockedError: network, server or access trouble, no ranges, or the file changed meanwhile.
        MedhebError: the size is not the pinned one.
    """

    def __init__(self, url: str, options: RangeOptions, session: requests.Session | None = None) -> None:
        super().__init__()
        self._url = url
        self._options = options
        self._owns_session = session is None
        self._session = requests.Session() if session is None else session
        self._version: str | None = None
        self._size = 0
        self._position = 0
        self._blocks: OrderedDict[int, bytes] = OrderedDict()
        self._fetch(0, 1)
        if options.bytes is not None and options.bytes != self._size:
            raise MedhebError(
                options.name,
                f"has {self._size} bytes at its host, the manifest expects {options.bytes}",
                "Its publisher replaced it; look at the official page, then correct the manifest",
            )

    @property
    def size(self) -> int:
        """Bytes of the whole file, as its server says."""
        return self._size

    def readable(self) -> bool:
        """True."""
        return True

    def seekable(self) -> bool:
        """True."""
        return True

    def tell(self) -> int:
        """Position in bytes."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move; the new position."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        if base + offset < 0:
            raise ValueError(f"a position of {base + offset}")
        self._position = base + offset
        return self._position

    def read(self, size: int | None = -1) -> bytes:
        """``size`` bytes, fewer only at the end of the file; all the rest for -1.

        Raises:
            ValueError: a single read too large to be honest.
        """
        rest = max(0, self._size - self._position)
        wanted = rest if size is None or size < 0 else min(size, rest)
        if wanted > MAX_READ_BYTES:
            raise ValueError(f"it asks for {wanted} bytes in one piece")
        parts = bytearray()
        while len(parts) < wanted:
            number, offset = divmod(self._position, self._options.block_bytes)
            part = self._block(number)[offset : offset + wanted - len(parts)]
            parts += part
            self._position += len(part)
        return bytes(parts)

    def close(self) -> None:
        """Free blocks and connections."""
        self._blocks = OrderedDict()
        if self._owns_session:
            self._session.close()
        super().close()

    def _block(self, number: int) -> bytes:
        if number not in self._blocks:
            start = number * self._options.block_bytes
            self._blocks[number] = self._fetch(start, min(self._options.block_bytes, self._size - start))
            if len(self._blocks) > CACHED_BLOCKS:
                self._blocks.popitem(last=False)
        self._blocks.move_to_end(number)
        return self._blocks[number]

    def _fetch(self, start: int, length: int) -> bytes:
        pause = self._options.pause_s
        for attempt in range(1, self._options.attempts + 1):
            try:
                return self._try(start, length)
            except _Trouble as trouble:
                reason = trouble.reason
                LOG.info("%s: %s (try %d of %d)", self._options.name, reason, attempt, self._options.attempts)
                if attempt < self._options.attempts:
                    time.sleep(max(pause, trouble.wait_s))
                    pause *= 2
        tries = f"{self._options.attempts} tries" if self._options.attempts > 1 else "1 try"
        raise BlockedError(self._options.name, f"{reason}, after {tries}", f"Check the network. {RUN_AGAIN}")

    def _try(self, start: int, length: int) -> bytes:
        options = self._options
        asked = {"Range": f"bytes={start}-{start + length - 1}", "Accept-Encoding": "identity"}
        try:
            with self._session.get(
                self._url, headers=asked, stream=True, timeout=(options.connect_s, options.stall_s)
            ) as response:
                self._check_status(response)
                self._check_range(response, start, length)
                return self._body(response, length)
        except (requests.Timeout, urllib3.exceptions.TimeoutError):
            # Not chained: the library's text holds the address.
            raise _Trouble("the transfer stalled") from None
        except urllib3.exceptions.ProtocolError:
            raise _Trouble("the transfer was cut short") from None
        except (requests.RequestException, urllib3.exceptions.HTTPError, OSError) as error:
            raise _Trouble(f"the connection failed ({type(error).__name__})") from None

    def _check_status(self, response: requests.Response) -> None:
        name, code = self._options.name, response.status_code
        if urlsplit(self._url).scheme == "https" and urlsplit(response.url).scheme != "https":
            raise BlockedError(name, "its server leads to an address without https", "Report this to its publisher")
        if code == requests.codes.ok:
            if "html" in response.headers.get("Content-Type", ""):
                raise BlockedError(
                    name, "its server sends a web page instead of the file", "Open the official page in a browser"
                )
            raise BlockedError(
                name,
                "its server ignores byte ranges, so single members cannot be read",
                "Download the whole archive by hand and name its folder under local_copies",
            )
        if code in {408, 429} or code >= 500:
            raise _Trouble(f"its server is busy or down (HTTP {code})", self._asked_wait(response))
        if code in {401, 403}:
            raise BlockedError(
                name,
                f"its server refuses access (HTTP {code})",
                "Check terms and token; a link with a signature may have expired",
            )
        if code in {404, 410}:
            raise BlockedError(name, f"is gone from its server (HTTP {code})", "Look at the official page")
        if code != requests.codes.partial_content:
            raise BlockedError(name, f"its server answers a byte range with HTTP {code}", RUN_AGAIN)

    def _asked_wait(self, response: requests.Response) -> float:
        text = response.headers.get("Retry-After", "")
        try:
            wait = float(text) if text.isdigit() else (parsedate_to_datetime(text) - datetime.now(UTC)).total_seconds()
        except (TypeError, ValueError):
            return 0.0
        if wait > LONGEST_WAIT_S:
            raise BlockedError(self._options.name, "its server asks to come back much later", "Run again in some hours")
        return max(0.0, wait)

    def _check_range(self, response: requests.Response, start: int, length: int) -> None:
        name, headers = self._options.name, response.headers
        if headers.get("Content-Encoding", "identity") != "identity":
            raise BlockedError(name, "its server sends ranges of a compressed form of the file", RUN_AGAIN)
        found = CONTENT_RANGE.fullmatch(headers.get("Content-Range", ""))
        first, last, size = (int(number) for number in found.groups()) if found else (-1, -1, -1)
        if (first, last) != (start, start + length - 1) or last >= size:
            raise BlockedError(
                name,
                f"its server answers bytes {start}-{start + length - 1} with "
                f"{ascii(headers.get('Content-Range', 'no Content-Range'))[:80]}",
                "Download the whole archive by hand and name its folder under local_copies",
            )
        if headers.get("Content-Length", str(length)) != str(length):
            raise _Trouble(f"its server announces {headers['Content-Length'][:20]} bytes for a range of {length}")
        version = headers.get("ETag", "")
        if not version or version.startswith("W/"):
            version = headers.get("Last-Modified", "")
        if not version:
            raise BlockedError(
                name,
                "its server gives neither a strong ETag nor Last-Modified, so pieces might be of different files",
                "Download the whole archive by hand and name its folder under local_copies",
            )
        if self._version is None:
            self._version, self._size = version, size
        elif (self._version, self._size) != (version, size):
            raise BlockedError(name, "changed on its server while it was read", RUN_AGAIN)

    def _body(self, response: requests.Response, length: int) -> bytes:
        # read1 gives what has come, so a server that drips is noticed too.
        end = time.monotonic() + self._options.stall_s + length / SLOWEST_BYTES_PER_S
        body = bytearray()
        while len(body) <= length and (piece := response.raw.read1(PIECE_BYTES, decode_content=False)):
            body += piece
            if time.monotonic() > end:
                raise _Trouble("the transfer stalled")
        if len(body) != length:
            raise _Trouble(f"the transfer gave {len(body)} of {length} bytes")
        return bytes(body)
