"""Names and exact synonyms out of an ontology in OBO format 1.2 or 1.4.

Of the format (owlcollab.github.io/oboformat/doc/GO.format.obo-1_4.html) only what the recipe needs is read: stanzas
``[Term]`` with ``id``, ``name``, ``synonym`` and ``is_obsolete``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from medheb.core.errors import MedhebError

REMEDY = "The file is not what the recipe was written for; fetch the pinned version again"
# synonym: "text" SCOPE [TYPE] [sources]
SYNONYM = re.compile(r'"((?:[^"\\]|\\.)*)" (EXACT|BROAD|NARROW|RELATED)(?: ([^\s\[]+))? \[')
ESCAPED = re.compile(r"\\(.)")
# Other kinds of synonyms are the same words again: spellings, plurals, abbreviations.
OTHER_WORDS = frozenset({None, "layperson"})


def exact_synonyms(path: Path) -> list[dict[str, str]]:
    """Exact synonyms of all terms in use, each with the name of its term.

    Returns:
        Dicts with ``id``, ``synonym``, ``name``, sorted by id and synonym, each once. Synonyms that are the name in
        other letters of case, and those marked as spelling, plural or abbreviation, are left out.

    Raises:
        MedhebError: not such a file, a term without id or name, or a synonym that cannot be read; names file and line.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise MedhebError(path, f"is not text in UTF-8 (byte {error.start})", REMEDY) from error
    if not lines or not lines[0].startswith("format-version:"):
        raise MedhebError(path, "does not begin with 'format-version:' as OBO files do", REMEDY)
    found: set[tuple[str, str, str]] = set()
    for number, tags in _terms(lines):
        where = f"{path} line {number}"
        if tags.get("is_obsolete") == ["true"]:
            continue
        if len(tags.get("id", ())) != 1 or len(tags.get("name", ())) != 1:
            raise MedhebError(where, "begins a term without one id and one name", REMEDY)
        identifier, name = tags["id"][0], _unescaped(tags["name"][0])
        for value in tags.get("synonym", ()):
            read = SYNONYM.match(value)
            if read is None:
                raise MedhebError(where, f"begins term {identifier}, a synonym of which cannot be read", REMEDY)
            text = _unescaped(read[1])
            if read[2] == "EXACT" and read[3] in OTHER_WORDS and text and text.casefold() != name.casefold():
                found.add((identifier, text, name))
    if not found:
        raise MedhebError(path, "holds no term with an exact synonym", REMEDY)
    return [{"id": identifier, "synonym": text, "name": name} for identifier, text, name in sorted(found)]


def _terms(lines: list[str]) -> Iterator[tuple[int, dict[str, list[str]]]]:
    """Line number and tags of every ``[Term]``."""
    tags: dict[str, list[str]] | None = None
    begun = 0
    for number, line in enumerate(lines, start=1):
        if line.startswith("["):
            if tags is not None:
                yield begun, tags
            tags, begun = ({} if line.strip() == "[Term]" else None), number
        elif tags is not None and ": " in line:
            tag, _, value = line.partition(": ")
            tags.setdefault(tag, []).append(value.strip())
    if tags is not None:
        yield begun, tags


def _unescaped(text: str) -> str:
    """White space folded to single blanks, and escaped signs as they are."""
    return " ".join(ESCAPED.sub(r"\1", text).split())
