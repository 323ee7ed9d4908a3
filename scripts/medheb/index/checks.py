"""What every rebuilt task must hold, whichever builder made it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b

from medheb.index.records import Item, Record
from medheb.index.refusal import RuleError

REMEDY = "Build its sources with more of what they hold, or give the task another rule"


def content_of(item: Item, contents: Mapping[str, str]) -> tuple[str, ...]:
    """What an item says: its text and the pixels of its images; paths without known content stand for themselves."""
    return (item.text, *(contents.get(path, path) for path in item.images))


def content_key(item: Item, contents: Mapping[str, str]) -> bytes:
    """Short key of :func:`content_of`, for many items in little memory."""
    return blake2b("\0".join(content_of(item, contents)).encode("utf-8", "surrogatepass"), digest_size=12).digest()


class RowRules:
    """The rules of all rebuilt tasks, row by row; :meth:`finish` raises what was found first.

    Args:
        pool: ``local`` or ``global``.
        contents: path below the image root to content digest.
        where: the task JSON.
    """

    def __init__(self, pool: str, contents: Mapping[str, str], where: str) -> None:
        self._pool, self._contents, self._where = pool, contents, where
        self._rows = 0
        self._seen: dict[tuple[str, bytes], int] = {}
        self._fault: str | None = None

    def add(self, record: Record) -> None:
        """Look at the next row."""
        if self._fault is None:
            self._fault = self._look(record)
        self._rows += 1

    def _look(self, record: Record) -> str | None:
        row, contents = self._rows, self._contents
        candidates = [content_of(item, contents) for item in record.candidates]
        if len(set(candidates)) != len(candidates):
            return f"row {row} holds one candidate twice"
        if self._pool == "local" and len(candidates) < 2:
            return f"row {row} has no wrong candidate"
        if self._pool == "global":
            for name, item in (("query", record.query), ("positive", record.candidates[0])):
                first = self._seen.setdefault((name, content_key(item, contents)), row)
                if first != row:
                    return f"rows {first} and {row} have one {name}"
        return None

    def finish(self) -> None:
        """Refuse the task if a rule was broken.

        Raises:
            RuleError: no query, candidates of equal content in one row, a local row without a wrong
                candidate, or a global pool with two rows that share their query or their positive.
        """
        if not self._rows:
            raise RuleError(self._where, "would have no query", REMEDY)
        if self._fault is not None:
            raise RuleError(self._where, self._fault, REMEDY)


def check_rows(records: Sequence[Record], pool: str, contents: Mapping[str, str], where: str) -> None:
    """Check a whole task; see :class:`RowRules`."""
    rules = RowRules(pool, contents, where)
    for record in records:
        rules.add(record)
    rules.finish()
