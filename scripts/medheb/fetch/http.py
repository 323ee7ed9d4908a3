"""Transfer of files over HTTP: whole and right, or not at all.

A file is written under a unique temporary name in its own folder, counted and digested on the way,
flushed and renamed. Nothing depends on locks. A cut transfer goes on where it stopped only if the
server proves that it still is the same file; otherwise it starts again.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import requests

from medheb.core.errors import BlockedError, MedhebError
from medheb.core.files import atomic_open
from medheb.fetch.addresses import host_name
from medheb.fetch.bodies import HEAD_BYTES, refuse_page, refuse_tiny
from medheb.fetch.credentials import Login
from medheb.fetch.expected import Check, Expected, changed
from medheb.fetch.limits import go_on
from medheb.fetch.progress import Meter, meter
from medheb.fetch.sessions import ANONYMOUS, Patience, TransientError, request
from medheb.fetch.sink import sink
from medheb.fetch.trouble import LATER
from medheb.manifest.config import Transfer

LOG = logging.getLogger("medheb.fetch")
CHUNK_BYTES = 1 << 20
PROGRESS_BYTES = 64 << 20
CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+|\*)")


def download(
    urls: Sequence[str],
    target: Path,
    expected: Expected,
    transfer: Transfer,
    *,
    login: Login = ANONYMOUS,
    what: str = "",
) -> None:
    """Write ``target`` from the first of ``urls`` that delivers it.

    Args:
        urls: addresses of the same file, tried in order.
        target: appears only when it is whole and right; replaced if it is there.
        expected: size and digests, as far as they are known.
        transfer: tries of each address, files at once from one host.
        login: sent to the hosts that it names, never beyond them.
        what: named in errors and progress; the name of ``target`` if empty.

    Raises:
        BlockedError: no address could be used, for reasons outside our reach.
        MedhebError: what came is not the expected file.
        OSError: ``target`` cannot be written.
    """
    what = what or target.name
    troubles: list[MedhebError] = []
    for url in urls:
        try:
            _from_one(url, target, expected, transfer, login, what)
        except MedhebError as error:
            LOG.warning("%s: %s", what, error.fault)
            troubles.append(error)
        else:
            return
    raise first_of(troubles, "addresses")


def first_of(troubles: Sequence[MedhebError], kind: str) -> MedhebError:
    """One error for several vain tries: the first reason, and how many more there were."""
    first = troubles[0]
    if len(troubles) == 1:
        return first
    fault = f"{first.fault} (all {len(troubles)} {kind} failed; the log has each reason)"
    return type(first)(first.where, fault, first.remedy)


@dataclass
class _State:
    """What one address has delivered so far."""

    expected: Expected
    check: Check
    validator: str = ""
    total: int | None = None
    resumed: bool = False
    type: str = ""
    head: bytes = field(default=b"")

    def restart(self, stream: IO[bytes], progress: Meter) -> None:
        stream.seek(0)
        stream.truncate()
        self.check = Check(self.expected)
        self.validator, self.total, self.head, self.resumed = "", None, b"", False
        progress.restart(0)


def _from_one(url: str, target: Path, expected: Expected, transfer: Transfer, login: Login, what: str) -> None:
    patience, farthest = Patience(transfer), 0
    state = _State(expected, Check(expected))
    with atomic_open(target) as stream, meter(what, expected.size) as progress:
        while True:
            try:
                _receive(url, stream, state, transfer, login, what, target.name, progress)
                _judge(state, what, target.name)
                return
            except TransientError as error:
                if state.check.size >= farthest + PROGRESS_BYTES:
                    # A huge file over a poor line is cut more often than a small one: tries count from here anew.
                    patience, farthest = Patience(transfer), state.check.size
                patience.after(error)
            except MedhebError:
                # Two halves of different files may have come together: only a whole transfer proves a change.
                if not state.resumed:
                    raise
                state.restart(stream, progress)


def _receive(
    url: str,
    stream: IO[bytes],
    state: _State,
    transfer: Transfer,
    login: Login,
    what: str,
    name: str,
    progress: Meter,
) -> None:
    """Add the rest of the file to ``stream``.

    Raises:
        TransientError: cut, stalled, or refused for now; ``state`` knows how far it came.
    """
    headers = {}
    if state.check.size and state.validator:
        headers = {"Range": f"bytes={state.check.size}-", "If-Range": state.validator}
    with request(url, what, transfer, login, headers) as response:
        if headers and _continues(response, state):
            state.resumed = True
        elif response.status_code != 200:
            state.restart(stream, progress)
            raise TransientError(BlockedError(what, f"{host_name(url)} sent a part that nobody asked for", LATER))
        else:
            state.restart(stream, progress)
            _begin(response, state, what)
        _copy(response, stream, state, what, name, progress)
        if state.total is not None and state.check.size < state.total:
            raise TransientError(BlockedError(what, f"{host_name(url)} cut the transfer off", LATER))


def _begin(response: requests.Response, state: _State, what: str) -> None:
    """Note what the headers of a whole answer say, and refuse what cannot become the file."""
    headers = response.headers
    state.type = headers.get("Content-Type", "")
    if headers.get("Content-Encoding", "identity") != "identity":
        # Length and ranges then speak of the packed form, not of the file.
        return
    length = headers.get("Content-Length", "")
    state.total = int(length) if length.isdigit() else None
    etag = headers.get("ETag", "")
    state.validator = etag if etag.startswith('"') else headers.get("Last-Modified", "")
    page = state.type.startswith(("text/html", "application/xhtml"))
    size = state.expected.size
    if size is not None and state.total is not None and state.total != size and not page and state.total >= HEAD_BYTES:
        raise changed(what, f"{size} bytes", f"{state.total} bytes")


def _continues(response: requests.Response, state: _State) -> bool:
    """True if a 206 is the missing rest of the very same file."""
    if response.status_code != 206:
        return False
    found = CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", ""))
    if not found or int(found.group(1)) != state.check.size:
        return False
    if found.group(3) != "*" and state.total is not None and int(found.group(3)) != state.total:
        return False
    if state.total is not None and int(found.group(2)) != state.total - 1:
        return False
    etag = response.headers.get("ETag", "")
    return state.validator in {etag, response.headers.get("Last-Modified", "")}


def _copy(response: requests.Response, stream: IO[bytes], state: _State, what: str, name: str, progress: Meter) -> None:
    decode = response.headers.get("Content-Encoding", "identity") != "identity"
    limit = state.expected.size
    with sink(stream, state.check) as received:
        # read1 hands over what has come; read would lose it when the rest does not come in time.
        while chunk := response.raw.read1(CHUNK_BYTES, decode_content=decode):
            go_on()
            received.add(chunk)
            progress.add(len(chunk))
            if len(state.head) < HEAD_BYTES:
                state.head += chunk[: HEAD_BYTES - len(state.head)]
                if len(state.head) == HEAD_BYTES:
                    # Some servers give a wrong type; where there is a digest, that decides.
                    refuse_page(what, name, "" if state.expected.pinned else state.type, state.head)
            if limit is not None and received.size > limit:
                break


def _judge(state: _State, what: str, name: str) -> None:
    """Last look at what came.

    Raises:
        MedhebError: it is not the file.
    """
    expected = state.expected
    try:
        state.check.finish(what)
    except MedhebError:
        refuse_page(what, name, state.type, state.head)
        raise
    if not expected.pinned:
        refuse_page(what, name, state.type, state.head)
        if expected.size is None:
            refuse_tiny(what, name, state.check.size)
