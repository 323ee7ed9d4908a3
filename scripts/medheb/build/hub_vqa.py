"""Recipe ``hub_vqa``: questions on pictures, in parquet files of a hub, one row a question.

Serves Path-VQA, VQA-RAD, MEDPIX-ClinQA and RadImageNet-VQA. No published script makes these. Each row's picture is
kept as it is stored, under a name of ours, with question and answer as facts of the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any, Literal

from pydantic import Field

from medheb.build.faults import fault_unit, require_use
from medheb.build.inventory import BuiltFile
from medheb.build.kept_pictures import EXTENSION, check, facts_of
from medheb.build.output import Output
from medheb.build.parquet_rows import RowBlock, Table, open_table, picture_bytes, read_rows
from medheb.build.recipe import Recipe, Unit
from medheb.build.rights import files_below
from medheb.build.source import Source
from medheb.build.splits import NOT_PUBLISHED, drawn_split, split_word, write_selections
from medheb.build.unusual import note_unusual
from medheb.core.digests import sha256_bytes
from medheb.core.errors import MedhebError
from medheb.manifest.base import RelativePath, Strict

Split = Literal["train", "valid", "test"]


class HubVqa(Strict):
    """Settings of ``hub_vqa``."""

    picture: str = Field(default="image", description="column of the picture")
    question: str = "question"
    answer: str = "answer"
    choices: str | None = Field(default=None, description="column of a list of choices; a lettered answer means one")
    right: tuple[str, str] | None = Field(
        default=None, description="column and key of the right answer's text, which counts more than a letter"
    )
    group: str | None = Field(default=None, description="column of the case; the split is drawn by it")
    split: Literal["file", "test", "drawn"] = Field(
        description="file: the first word of the file name; test: all is the test part; drawn: 7:3 by group"
    )
    training: str | None = Field(
        default=None, description="shell pattern of the paths of files that are the training part; * also crosses /"
    )
    folders: dict[Split, RelativePath] = Field(description="where each split's pictures go, below images")
    extra: tuple[str, ...] = Field(
        default=(), description="further columns kept as facts, with source_ before their name"
    )


def units(source: Source) -> Sequence[Unit]:
    """One unit a row group. A table that is damaged or of another kind is refused; the others are built.

    Raises:
        MedhebError: no parquet file with the columns.
    """
    options = source.options(HubVqa)
    found: list[Unit] = []
    faults: list[Unit] = []
    first: MedhebError | None = None
    for path in files_below(source.files, ".parquet"):
        place = path.relative_to(source.files).as_posix()
        try:
            table = open_table(path)
            if missing := sorted(_columns(options) - table.columns):
                raise MedhebError(path, f"has no column {', '.join(missing)}", "Get the publisher's own files")
            split = _split_of(table, options, place)
        except MedhebError as error:
            first = first or error
            faults.append(fault_unit(f"table {place}", error))
            continue
        found += [Unit(f"{split}/{path.name}/{block.group:04d}", (split, block)) for block in table.blocks]
    if not found:
        raise first or MedhebError(source.files, "holds no parquet file", f"Give the folder of {source.dataset.title}")
    return [*found, *faults]


def _columns(options: HubVqa) -> set[str]:
    named = {options.picture, options.question, options.answer, options.choices, options.group, *options.extra}
    return {name for name in named if name} | ({options.right[0]} if options.right else set())


def _split_of(table: Table, options: HubVqa, path: str) -> str:
    if options.training is not None and fnmatchcase(path, options.training):
        return "train"
    if options.split != "file":
        return options.split
    split = split_word(table.path.name.split("-")[0])
    if split is None:
        raise MedhebError(table.path, "does not begin with the name of a split", "Names begin with train-, test- ...")
    return split


def build(source: Source, unit: Unit, out: Output) -> None:
    """Keep the pictures of a block of rows."""
    options = source.options(HubVqa)
    split, block = require_use(unit)
    for number, cells in read_rows(block, sorted(_columns(options))):
        try:
            _row(source, options, (split, block, number), cells, out)
        except MedhebError as error:
            out.refuse(error)


def _row(source: Source, options: HubVqa, place: tuple[str, RowBlock, int], cells: dict[str, Any], out: Output) -> None:
    split, block, number = place
    where, name = f"{block.path}, row {number}", f"{block.path.stem}_{number:06d}"
    content = picture_bytes(cells[options.picture], where, [block.path.parent, source.files])
    cell = cells[options.picture]
    named = cell.get("path") if isinstance(cell, dict) else None
    decoded = check(content, where, named if isinstance(named, str) else "")
    # Without a case, questions on one picture belong together.
    group = str(cells[options.group]) if options.group else sha256_bytes(content)
    if split == "drawn":
        split = drawn_split(source.seed, source.dataset.id, group)
    if split not in options.folders:
        raise MedhebError(where, f"is of split {split}, which has no folder", "Add it to recipe.options.folders")
    extension = EXTENSION.get(decoded.format, decoded.format.lower())
    out.content(
        f"{options.folders[split]}/{name}.{extension}",
        content,
        kind="picture",
        split=split,
        group=group,
        member=name,
        question=_text(cells[options.question], options.question, where),
        answer=_answer(cells, options, where),
        **{f"source_{column}": None if cells[column] is None else str(cells[column]) for column in options.extra},
        **facts_of(decoded),
    )


def _text(value: object, column: str, where: str) -> str:
    text = " ".join(value.split()) if isinstance(value, str) else ""
    if not text:
        raise MedhebError(where, f"has no text in column {column}", "Mend the row or take it out; the others are built")
    return text


def _answer(cells: dict[str, Any], options: HubVqa, where: str) -> str:
    """The text of the right answer, also where the column holds only its letter."""
    if options.right is not None:
        column, key = options.right
        value = cells[column]
        if isinstance(value, dict) and isinstance(value.get(key), str) and value[key].strip():
            return _text(value[key], f"{column}.{key}", where)
    answer = _text(cells[options.answer], options.answer, where)
    choices = cells[options.choices] if options.choices else None
    letter = answer.rstrip(".):").upper()
    if choices and len(letter) == 1 and letter.isalpha():
        index = ord(letter) - ord("A")
        texts = [choices[key] for key in sorted(choices)] if isinstance(choices, dict) else list(choices)
        if index >= len(texts):
            raise MedhebError(where, f"answers {letter} among {len(texts)} choices", "Mend the row or take it out")
        return _text(texts[index], f"{options.choices} {letter}", where)
    return answer


def finish(source: Source, files: Sequence[BuiltFile], out: Output) -> None:
    """Selection lists, and a word on the split."""
    write_selections(files, out, ["picture"])
    note_unusual(files, out)
    if source.options(HubVqa).split == "drawn":
        out.note(NOT_PUBLISHED)


RECIPE = Recipe(build, units, finish)
