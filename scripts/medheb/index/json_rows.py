"""Rows of a large JSON list one by one, so that a file of any size is read in little memory."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from medheb.core.errors import MedhebError
from medheb.core.json_text import TOO_DEEP, too_deep

CHUNK_BYTES = 1 << 20
MAX_ROW_CHARACTERS = 64 << 20
BLANKS = " \t\r\n"
ENDS = frozenset(BLANKS + ",]")
# An error this near to the end of what was read may only mean that the rest has not been read yet.
MARGIN = 32


class _FaultError(ValueError):
    """A fault of the JSON text that more text cannot mend."""


def _no_constant(name: str) -> Any:
    raise _FaultError(f"holds {name}, which is not JSON")


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(pairs)
    if len(row) < len(pairs):
        names = [name for name, _ in pairs]
        raise _FaultError(f"holds field '{next(name for name in names if names.count(name) > 1)}' twice")
    return row


DECODER = json.JSONDecoder(object_pairs_hook=_pairs, parse_constant=_no_constant)


class _Text:
    """What has been read and not yet used of a UTF-8 file."""

    def __init__(self, path: Path, stream: IO[bytes], remedy: str) -> None:
        self.path, self._stream, self._remedy = path, stream, remedy
        # A byte order mark is left out.
        self._decode = codecs.getincrementaldecoder("utf-8-sig")()
        self.text, self.start, self.row, self.ended = "", 0, 0, False

    def more(self) -> None:
        """Read at least as much again as is held, so that a long row is parsed few times."""
        chunk = self._stream.read(max(CHUNK_BYTES, len(self.text) - self.start))
        self.ended = not chunk
        try:
            decoded = self._decode.decode(chunk, final=self.ended)
        except UnicodeDecodeError as error:
            if self.ended:
                raise self.fault("is cut off") from None
            raise self.fault(f"is not UTF-8 text (byte 0x{error.object[error.start]:02x})") from None
        self.text, self.start = self.text[self.start :] + decoded, 0

    def next_sign(self) -> str:
        """The next character that is no blank, not used up; empty at the end."""
        while True:
            while self.start < len(self.text):
                if self.text[self.start] not in BLANKS:
                    return self.text[self.start]
                self.start += 1
            if self.ended:
                return ""
            self.more()

    def value(self) -> Any:
        """The next JSON value, used up."""
        while True:
            try:
                value, end = DECODER.raw_decode(self.text, self.start)
                # A number may go on in what has not been read yet; everything else says where it ends.
                if self.ended or isinstance(value, dict | list | str) or self.text[end : end + 1] in ENDS:
                    if too_deep(value):
                        raise self.fault(f"is {TOO_DEEP}")
                    self.start = end
                    return value
            except _FaultError as error:
                raise self.fault(str(error)) from None
            except RecursionError:
                raise self.fault(f"is {TOO_DEEP}") from None
            except json.JSONDecodeError as error:
                near = error.pos >= len(self.text) - MARGIN or error.msg.startswith("Unterminated string")
                if self.ended and near:
                    raise self.fault("is cut off") from None
                if self.ended or not near:
                    raise self.fault(f"is not JSON ({error.msg})") from None
            if len(self.text) - self.start > MAX_ROW_CHARACTERS:
                raise self.fault(f"has a row of more than {MAX_ROW_CHARACTERS >> 20} million characters")
            self.more()

    def fault(self, what: str) -> MedhebError:
        """The refusal, with the row where reading stopped."""
        return MedhebError(f"{self.path} row {self.row}", what, self._remedy)


def stream_rows(path: Path, remedy: str) -> Iterator[tuple[int, Any]]:
    """Number (from 0) and content of each element of the JSON list in ``path``.

    Args:
        path: UTF-8 JSON, a list at the top.
        remedy: what the user can do about a damaged file.

    Raises:
        MedhebError: missing, not UTF-8, cut off, not JSON, no list, a field twice in one object, a number that JSON
            lacks (``NaN``); the row is named. Rows before the fault have been given by then.
    """
    try:
        stream = path.open("rb")
    except FileNotFoundError:
        raise MedhebError(path, "is missing", remedy) from None
    except OSError as error:
        raise MedhebError(path, f"cannot be read ({error.strerror})", remedy) from error
    with stream:
        text = _Text(path, stream, remedy)
        if text.next_sign() != "[":
            raise MedhebError(path, "is not a list of records", remedy)
        text.start += 1
        if text.next_sign() == "]":
            text.start += 1
        else:
            while True:
                if not text.next_sign():
                    raise text.fault("is cut off")
                yield text.row, text.value()
                sign = text.next_sign()
                text.start += 1
                if sign == "]":
                    break
                if sign != ",":
                    raise text.fault("is cut off" if not sign else f"is followed by {sign!r} where a comma must be")
                text.row += 1
        if text.next_sign():
            raise MedhebError(path, "goes on after the end of its list", remedy)
