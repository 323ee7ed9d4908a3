"""Recipe ``medical_qa``: questions and answers of the mteb copy of MedQuAD, joined by their ids.

The hub's three tables are a corpus (answers), queries and pairs of ids. Scores of pairs are ignored: the script that
wrote them gives 0 to right pairs. Rows that share a question or an answer form a group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from medheb.build.output import Output
from medheb.build.recipe import Recipe, Unit
from medheb.build.rights import files_below
from medheb.build.source import Source
from medheb.build.text_pairs import Row, collected, group_alike, rows_of_json, text_of, write_pairs
from medheb.core.errors import MedhebError
from medheb.manifest.base import Strict

IDS = ("_id", "id")
FEW_CHARACTERS = 10


class Options(Strict):
    """``recipe.options``: patterns of the paths of the three tables, as no list of the hub's files is at hand."""

    corpus: tuple[str, ...]
    queries: tuple[str, ...]
    pairs: tuple[str, ...]


def _table(source: Source, patterns: Sequence[str]) -> Path:
    """The one file of JSON lines whose path fits.

    Raises:
        MedhebError: none or several.
    """
    paths = [path for path in files_below(source.files, ".jsonl") if not path.name.startswith(".")]
    found = [
        path
        for path in paths
        if any(fnmatchcase(path.relative_to(source.files).as_posix(), pattern) for pattern in patterns)
    ]
    if len(found) != 1:
        raise MedhebError(
            source.files, f"holds {len(found)} files that fit {' or '.join(patterns)}, not one", "Mend recipe.options"
        )
    return found[0]


def _texts(path: Path) -> dict[str, str]:
    """Texts by id.

    Raises:
        MedhebError: an id that occurs twice, or a row without id or text.
    """
    texts: dict[str, str] = {}
    for where, row in rows_of_json(path):
        name = text_of(row, IDS, where)
        if name in texts:
            raise MedhebError(where, f"has the id {name} again", "Get the publisher's own file")
        texts[name] = text_of(row, ("text",), where)
    return texts


def build(source: Source, _: Unit, out: Output) -> None:
    """All pairs.

    Raises:
        MedhebError: a table is missing, there twice, or damaged.
    """
    options = source.options(Options)
    answers, questions = _texts(_table(source, options.corpus)), _texts(_table(source, options.queries))

    def row_of(where: str, row: Mapping[str, Any]) -> Row:
        query, answer = text_of(row, ("query-id", "query_id"), where), text_of(row, ("corpus-id", "corpus_id"), where)
        for name, texts in ((query, questions), (answer, answers)):
            if name not in texts:
                raise MedhebError(where, f"names {name}, which has no text", "Get all three tables again")
        return {"id": f"{query}/{answer}", "query": questions[query], "target": answers[answer]}

    rows = collected(rows_of_json(_table(source, options.pairs)), row_of, out)
    group_alike(rows)
    write_pairs(out, rows)
    short = sum(len(row["target"]) < FEW_CHARACTERS for row in rows)
    if short:
        out.note(f"answers of fewer than {FEW_CHARACTERS} characters: {short}")
    unused = len(questions.keys() - {row["id"].split("/")[0] for row in rows})
    if unused:
        out.note(f"questions in no pair: {unused}")


RECIPE = Recipe(build)
