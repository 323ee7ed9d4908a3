"""What a text is reduced to: the published cleaning, an honest one, and the form in which answers are compared."""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import lru_cache

# Byte order mark, word joiner, zero-width space and marks of direction. Joiners stay: scripts need them.
INVISIBLE = re.compile("[\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff]")
KEPT_TEXTS = 20_000  # an answer is a candidate of many rows
FEW_SIGNS = re.compile(r"[^\w\s.,:;()-]")


def published(text: str) -> str:
    """What the published parser leaves of a text (spec: reference evaluation section 2).

    It deletes signs that carry meaning (``%``, ``/``, ``<``, ``>``, ``=``), and minus signs become blanks.
    """
    text = re.sub(r"[_-]+", " ", text.replace("\n", " "))
    return re.sub(r"\s+", " ", FEW_SIGNS.sub("", text)).strip()


@lru_cache(KEPT_TEXTS)
def honest(text: str) -> str:
    """A text without what no reader sees: composed letters, no control or zero-width signs, single blanks."""
    if text.isascii() and text.isprintable():
        return " ".join(text.split())
    composed = INVISIBLE.sub("", unicodedata.normalize("NFC", text))
    shown = (" " if unicodedata.category(sign) == "Cc" else sign for sign in composed)
    return " ".join("".join(shown).split())


@lru_cache(KEPT_TEXTS)
def comparable(text: str) -> str:
    """Two texts are one answer if these are equal.

    Width, case, white space, a final full stop and what no reader sees do not count.
    """
    plain = text.isascii() and text.isprintable()  # most texts; nothing to compose or to take out
    folded = (text if plain else unicodedata.normalize("NFKC", honest(text))).casefold()
    return " ".join(folded.split()).rstrip(" .") or folded.strip()


def merged(texts: Iterable[str], rule: Callable[[str], str]) -> int:
    """How many different answers a rule makes equal to another one.

    Args:
        texts: answers of a task; repeats do not count.
        rule: :func:`published` or :func:`honest`.
    """
    different = set(texts)
    return len(different) - len({rule(text) for text in different})


def merges(texts: Iterable[str], rule: Callable[[str], str]) -> list[tuple[str, ...]]:
    """The answers that a rule makes equal, group by group, sorted."""
    groups: dict[str, set[str]] = defaultdict(set)
    for text in texts:
        groups[rule(text)].add(text)
    return sorted(tuple(sorted(group)) for group in groups.values() if len(group) > 1)
