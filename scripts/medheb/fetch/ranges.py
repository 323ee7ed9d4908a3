"""A remote file as a seekable stream: pieces over HTTP ranges, each proved to belong to one and the same file."""

from __future__ import annotations

import io
import re
import time
from collections import OrderedDict

import requests

from medheb.core.errors import BlockedError, MedhebError
from medheb.fetch.addresses import host_name
from medheb.fetch.credentials import Login
from medheb.fetch.sessions import ANONYMOUS, Patience, TransientError, request
from medheb.fetch.trouble import LATER
from medheb.manifest.config import Transfer

BLOCK_BYTES = 4 << 20
CACHED_BLOCKS = 4
# The directory of an archive is read in one piece; a larger one is no honest directory.
MAX_READ_BYTES = 64 << 20
PIECE_BYTES = 64 << 10
# A server that drips never runs into the time limit for silence, so a whole block has one too.
GRACE_S = 60.0
SLOWEST_BYTES_PER_S = 10_000
CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)")
WHOLE = "Download the whole archive by hand, unpack it and set local_copies in the configuration to its folder"


class RangeFile(io.RawIOBase):
    """Read-only stream over a remote file.

    Every answer must be a 206 for exactly the bytes that were asked for, of one total size and one strong
    ETag (or Last-Modified, where there is no strong one). A few blocks are kept in memory.

    Args:
        url: address; it may hold a signature and is never shown.
        what: the file, as errors call it.
        size: the bytes that the manifest pins, None if it does not.
        transfer: tries of one piece, requests at once to one host.
        login: for the hosts it names.
        block_bytes: size of one piece.

    Raises:
        BlockedError: network, server or access trouble, no ranges, or the file changed meanwhile.
        MedhebError: the size is not the pinned one.
    """

    def __init__(
        self,
        url: str,
        what: str,
        size: int | None,
        transfer: Transfer,
        login: Login = ANONYMOUS,
        block_bytes: int = BLOCK_BYTES,
    ) -> None:
        super().__init__()
        self._url, self._what, self._transfer, self._login = url, what, transfer, login
        self._block_bytes = block_bytes
        self._version: str | None = None
        self._size = 0
        self._position = 0
        self._blocks: OrderedDict[int, bytes] = OrderedDict()
        self._fetch(0, 1)
        if size is not None and size != self._size:
            raise MedhebError(
                what,
                f"has {self._size} bytes at {host_name(url)}, the manifest expects {size}",
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
            number, offset = divmod(self._position, self._block_bytes)
            part = self._block(number)[offset : offset + wanted - len(parts)]
            parts += part
            self._position += len(part)
        return bytes(parts)

    def close(self) -> None:
        """Free the blocks."""
        self._blocks = OrderedDict()
        super().close()

    def _block(self, number: int) -> bytes:
        if number not in self._blocks:
            start = number * self._block_bytes
            self._blocks[number] = self._fetch(start, min(self._block_bytes, self._size - start))
            if len(self._blocks) > CACHED_BLOCKS:
                self._blocks.popitem(last=False)
        self._blocks.move_to_end(number)
        return self._blocks[number]

    def _fetch(self, start: int, length: int) -> bytes:
        patience = Patience(self._transfer)
        asked = {"Range": f"bytes={start}-{start + length - 1}"}
        while True:
            try:
                with request(self._url, self._what, self._transfer, self._login, asked) as response:
                    self._check(response, start, length)
                    return self._body(response, length)
            except TransientError as error:
                patience.after(error)

    def _check(self, response: requests.Response, start: int, length: int) -> None:
        host, headers = host_name(self._url), response.headers
        if response.status_code != requests.codes.partial_content:
            raise self._not_a_part(response)
        if headers.get("Content-Encoding", "identity") != "identity":
            raise BlockedError(self._what, f"{host} sends ranges of a packed form of the file", WHOLE)
        told = headers.get("Content-Range", "no Content-Range")
        found = CONTENT_RANGE.fullmatch(told)
        first, last, size = (int(number) for number in found.groups()) if found else (-1, -1, -1)
        if (first, last) != (start, start + length - 1) or last >= size:
            asked = f"bytes {start}-{start + length - 1}"
            raise BlockedError(self._what, f"{host} answers a request for {asked} with {ascii(told)[:80]}", WHOLE)
        if headers.get("Content-Length", str(length)) != str(length):
            self._try_again(f"announces {ascii(headers['Content-Length'])[:30]} bytes for a range of {length}")
        self._same_file(headers.get("ETag", ""), headers.get("Last-Modified", ""), size)

    def _not_a_part(self, response: requests.Response) -> BlockedError:
        host = host_name(self._url)
        if response.status_code != requests.codes.ok:
            return BlockedError(self._what, f"{host} refuses a byte range ({response.status_code})", LATER)
        if "html" in response.headers.get("Content-Type", ""):
            return BlockedError(
                self._what,
                f"{host} sent a web page instead of the file",
                f"Open the source's page in a browser: a quota, a login or a form may stand in the way. {WHOLE}",
            )
        return BlockedError(self._what, f"{host} ignores byte ranges, so single members cannot be read", WHOLE)

    def _same_file(self, etag: str, date: str, size: int) -> None:
        version = etag if etag.startswith('"') else date
        if not version:
            fault = "gives neither a strong ETag nor Last-Modified, so its pieces might be of different files"
            raise BlockedError(self._what, f"{host_name(self._url)} {fault}", WHOLE)
        if self._version is None:
            self._version, self._size = version, size
        elif (self._version, self._size) != (version, size):
            raise BlockedError(
                self._what, f"changed at {host_name(self._url)} while it was read", "Run again; nothing of it was kept"
            )

    def _body(self, response: requests.Response, length: int) -> bytes:
        # read1 gives what has come so far; read would wait for the whole piece.
        end = time.monotonic() + GRACE_S + length / SLOWEST_BYTES_PER_S
        body = bytearray()
        while len(body) <= length and (piece := response.raw.read1(PIECE_BYTES, decode_content=False)):
            body += piece
            if time.monotonic() > end:
                self._try_again("is too slow")
        if len(body) != length:
            self._try_again(f"sent {'more' if len(body) > length else 'less'} than the {length} bytes of a range")
        return bytes(body)

    def _try_again(self, fault: str) -> None:
        raise TransientError(BlockedError(self._what, f"{host_name(self._url)} {fault}", LATER))
