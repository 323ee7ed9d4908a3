"""Recipe ``pubmedqa``: abstracts and their conclusions, split by the publisher's list of 500 test ids.

The query is the abstract without its conclusion, the target the conclusion. The list is read, not drawn again: the
publisher's draw depends on the order of rows in its file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from medheb.build.output import Output
from medheb.build.recipe import Recipe, Unit
from medheb.build.source import Source
from medheb.build.tables import read_json_file
from medheb.build.text_pairs import TRAINING, Row, collected, text_of, write_pairs
from medheb.core.errors import MedhebError
from medheb.manifest.base import Strict


class Options(Strict):
    """``recipe.options``.

    Args:
        rows: file of the labelled questions.
        test: file that names the test ids.
        separator: what stands between the sections of an abstract.
    """

    rows: str
    test: str
    separator: str


def build(source: Source, _: Unit, out: Output) -> None:
    """Both parts.

    Raises:
        MedhebError: a file is missing or not as published.
    """
    options = source.options(Options)
    path = source.find(options.rows)
    listed = source.find(options.test)
    rows, test = read_json_file(path), read_json_file(listed)
    for content, where in ((rows, path), (test, listed)):
        if not isinstance(content, dict) or not content:
            raise MedhebError(where, "is not an object with an entry for each id", "Get the publisher's own file")
    for pmid in sorted(test.keys() - rows.keys()):
        out.refuse(MedhebError(f"{listed}: {pmid}", "is not among the labelled questions", "Get both files again"))
    entries = [
        (f"{path}: {pmid}", {**row, "id": pmid} if isinstance(row, dict) else {}) for pmid, row in sorted(rows.items())
    ]
    made = collected(entries, lambda where, row: _row(where, row, options.separator), out)
    write_pairs(out, [row for row in made if row["id"] in test])
    training = [row for row in made if row["id"] not in test]
    if training:
        write_pairs(out, training, TRAINING)
    others = sum(row["id"] in test and row["decision"] != test[row["id"]] for row in made)
    if others:
        out.note(f"test rows whose decision differs between the two files: {others}")
    out.lines("selection/test.txt", sorted(row["id"] for row in made if row["id"] in test), kind="selection")


def _row(where: str, row: Mapping[str, Any], separator: str) -> Row:
    contexts = row.get("CONTEXTS")
    if not isinstance(contexts, list) or not all(isinstance(part, str) and part.strip() for part in contexts):
        raise MedhebError(where, "has no CONTEXTS of text", "Get the publisher's own file")
    return {
        "id": str(row["id"]),
        "group": str(row["id"]),
        "query": separator.join(part.strip() for part in contexts),
        "target": text_of(row, ["LONG_ANSWER"], where),
        "question": text_of(row, ["QUESTION"], where),
        "decision": str(row.get("final_decision") or ""),
        "year": str(row.get("YEAR") or ""),
    }


RECIPE = Recipe(build)
