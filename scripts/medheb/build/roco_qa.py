"""Recipe ``roco_qa``: radiology figures with questions, from five tables of mixed age.

Written: ``images/<word>_sample_<number>.jpg`` with the bytes that the table stores, whatever they are, and
``dataset.json`` with question, answer, picture and word of every row. ``<word>`` is the start of the table's name, its
misspelling included; the number counts over all tables in the manifest's order, rows that are left out included.

* ``release``: rows without an answer stay.
* ``corrected``: rows without a question or an answer are refused.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import Field

from medheb.build.inventory import BuiltFile
from medheb.build.kept_pictures import facts_of
from medheb.build.output import Output
from medheb.build.parquet_rows import RowBlock, open_table, picture_bytes, read_rows
from medheb.build.recipe import Recipe, Unit
from medheb.build.source import Source
from medheb.build.splits import write_selections
from medheb.build.unusual import note_unusual
from medheb.core.errors import MedhebError
from medheb.imaging.picture_modes import Modes
from medheb.imaging.pictures import decode_picture
from medheb.manifest.base import RelativePath, Strict

COLUMNS = ("image", "question", "answer")
MEND_ROW = "Mend the row or take it out; the other rows are built"


class Options(Strict):
    """``recipe.options``.

    Args:
        tables: in the order in which rows are counted.
        splits: the split that each table's first word means.
    """

    tables: tuple[RelativePath, ...] = Field(min_length=1)
    splits: dict[str, Literal["train", "valid", "test"]]


def _word(table: str) -> str:
    return Path(table).name.split("-", 1)[0]


def units(source: Source) -> Sequence[Unit]:
    """Row groups of all tables, with the number of their first row over all tables.

    Raises:
        MedhebError: a table is missing or damaged: the numbers of all later rows would change.
    """
    options = source.options(Options)
    root = source.folder_with(*options.tables)
    found = []
    number = 1
    for table in options.tables:
        if _word(table) not in options.splits:
            raise MedhebError(table, f"has no entry {_word(table)} in recipe.options.splits", "Add it to the manifest")
        opened = open_table(root / table)
        missing = set(COLUMNS) - opened.columns
        if missing:
            raise MedhebError(root / table, f"has no column {', '.join(sorted(missing))}", "Fetch the source again")
        for block in opened.blocks:
            place = (os.fspath(block.path), block.group, block.first, block.rows, number)
            found.append(Unit(f"rows from {number:06d}", place))
            number += block.rows
    return found


def _text(value: object, what: str, where: str, release: bool) -> str | None:
    if isinstance(value, str) and (release or value.strip()):
        return value
    if release and value is None:
        return None
    raise MedhebError(where, f"has no {what}", MEND_ROW)


def build(source: Source, unit: Unit, out: Output) -> None:
    """The rows of one row group."""
    options = source.options(Options)
    path, group, first, rows, start = unit.data
    block = RowBlock(Path(path), group, first, rows)
    word = _word(path)
    for row, cells in read_rows(block, COLUMNS):
        where = f"{path}, row {row}"
        number = start + row - first
        name = f"images/{word}_sample_{number:06d}.jpg"
        try:
            content = picture_bytes(cells["image"], where, (block.path.parent,))
            # Stored bytes stay as they are, but what no reader could open is refused.
            decoded = decode_picture(content, where, modes=Modes.AS_STORED, orientation="keep", name=name)
            question = _text(cells["question"], "question", where, source.release)
            answer = _text(cells["answer"], "answer", where, source.release)
        except MedhebError as error:
            out.refuse(error)
            continue
        out.content(
            name,
            content,
            kind="picture",
            case=Path(name).stem,
            group=Path(name).stem,
            number=number,
            split=options.splits[word],
            word=word,
            question=question,
            answer=answer,
            member=f"{Path(path).name}, row {row}",
            **facts_of(decoded),
        )


def finish(source: Source, files: Sequence[BuiltFile], out: Output) -> None:
    """The table of all questions, and the pictures of each split."""
    ordered = sorted(files, key=lambda file: int(file.facts["number"] or 0))
    rows = [
        {
            "Question": file.facts.get("question"),
            "Answer": file.facts.get("answer"),
            "ImageName": Path(file.path).name,
            "split": file.facts.get("word"),
        }
        for file in ordered
    ]
    out.content("dataset.json", json.dumps(rows, indent=4, ensure_ascii=False).encode(), kind="questions")
    write_selections(files, out, ["picture"])
    note_unusual(files, out)


RECIPE = Recipe(build, units, finish)
