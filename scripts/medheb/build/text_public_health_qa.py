"""Recipe ``public_health_qa``: questions and answers of health agencies in eight languages, cleaned as published.

``records.jsonl`` has the cleaned rows of all languages, with the language of each; rows that share a question or an
answer form a group. Under ``release`` the task files of the published script are written as well
(``PublicHealthQA_test.json`` and ``output_jsons/<language>.json``): 29 wrong answers a row, drawn with one generator
that runs on from language to language (discrepancy 40), so that a file more or less changes all that follow it.

A header with blanks around its names costs ``release`` every row of the file, as the published script looks cells up
by the bare names; ``corrected`` reads it.
"""

from __future__ import annotations

import csv
import io
import json
import random
import re
from pathlib import Path
from typing import Any

from medheb.build.output import Output
from medheb.build.recipe import Recipe, Unit
from medheb.build.source import Source
from medheb.build.tables import read_text
from medheb.build.text_pairs import Row, group_alike, write_pairs
from medheb.core.errors import MedhebError
from medheb.manifest.base import Strict

QUESTION, ANSWER = "question", "answer"
ADDRESS = re.compile(r"\b(?:https?://|www\.)\S+", re.IGNORECASE)
INVISIBLE = re.compile("[\u200b-\u200f\ufeff\u202a-\u202e\u2066-\u2069]")
PUBLISHED_SEED = 42
WRONG_ANSWERS = 29
INSTRUCTION = "Find the answer of the given question:"


class Options(Strict):
    """``recipe.options``.

    Args:
        folder: folder of the tables.
        languages: names of the tables without ``.csv``, in the order of the published script.
    """

    folder: str
    languages: tuple[str, ...]


def clean(text: str) -> str:
    """As published: addresses become a blank, invisible signs nothing, runs of white space one blank."""
    return " ".join(INVISIBLE.sub("", ADDRESS.sub(" ", text)).split())


def read_rows(path: Path, language: str, published: bool, out: Output) -> list[Row]:
    """Cleaned rows of one language; rows without a question or an answer are counted.

    Args:
        path: the table.
        language: for ids.
        published: look cells up by the bare names, whatever blanks the header has.
        out: takes the note.

    Raises:
        MedhebError: missing, not UTF-8, no table, a missing column, or no row that is whole.
    """
    try:
        table = list(csv.reader(io.StringIO(read_text(path))))
    except csv.Error as error:
        raise MedhebError(path, f"is no table ({error})", "Get the publisher's own file") from error
    names, rows = table[0], [cells for cells in table[1:] if cells]
    trimmed = [name.strip() for name in names]
    for name in (QUESTION, ANSWER):
        if name not in trimmed:
            fault = f"has no column {name}; it has {', '.join(trimmed)}"
            raise MedhebError(path, fault, "Get the publisher's own file")
    header = names if published else trimmed
    found = []
    for number, cells in enumerate(rows):
        row = dict(zip(header, cells, strict=False))
        query, target = clean(row.get(QUESTION, "")), clean(row.get(ANSWER, ""))
        if query and target:
            found.append({"id": f"{language}/{number}", "language": language, "query": query, "target": target})
    if not found:
        raise MedhebError(path, "holds no row with a question and an answer", "Check its header for blanks in names")
    if len(found) < len(rows):
        out.note(f"{language}: rows that lack a question or an answer: {len(rows) - len(found)} of {len(rows)}")
    return found


def published_records(rows: list[Row], generator: random.Random) -> list[dict[str, Any]]:
    """Task rows of one language as the published script draws them; rows without enough other answers are left out.

    Args:
        rows: cleaned rows of the language.
        generator: of the whole run; it is moved on by every row that is kept.
    """
    answers = list(dict.fromkeys(row["target"] for row in rows))
    records = []
    for row in rows:
        others = [answer for answer in answers if answer != row["target"]]
        if len(others) < WRONG_ANSWERS:
            continue
        wrong = generator.sample(others, WRONG_ANSWERS)
        records.append({"qry_inst": INSTRUCTION, "qry_text": row["query"], "tgt_text": [row["target"], *wrong]})
    return records


def build(source: Source, _: Unit, out: Output) -> None:
    """All languages.

    Raises:
        MedhebError: no table at all, or none with whole rows.
    """
    options = source.options(Options)
    names = [f"{options.folder}/{language}.csv" for language in options.languages]
    folder = source.folder_with(*names) / options.folder
    generator = random.Random(PUBLISHED_SEED)  # noqa: S311 - the published draw
    everything: list[Row] = []
    published: dict[str, list[dict[str, Any]]] = {}
    for language in options.languages:
        try:
            rows = read_rows(folder / f"{language}.csv", language, source.release, out)
        except MedhebError as error:
            out.refuse(error)
            continue
        everything += rows
        published[language] = published_records(rows, generator)
    group_alike(everything)
    write_pairs(out, everything, language="mul")
    if source.release:
        for language, records in published.items():
            _write_index(out, f"output_jsons/{language}.json", records)
        _write_index(out, "PublicHealthQA_test.json", [row for records in published.values() for row in records])


def _write_index(out: Output, path: str, records: list[dict[str, Any]]) -> None:
    text = json.dumps(records, ensure_ascii=False, indent=2)
    out.content(path, text.encode(), kind="published index")


RECIPE = Recipe(build)
