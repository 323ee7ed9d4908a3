"""Recipes ``pmc_vqa`` and ``omnimedvqa``: tables of multiple-choice questions beside folders of pictures.

No published script makes these. Pictures are kept as they are; questions become ``records/<part>.jsonl`` with ``id``,
``question``, ``answer``, ``choices``, ``picture`` (below the image folder), ``group`` and ``split``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from pydantic import Field

from medheb.build.closed_tables import Fault, refuse_rows, unit_of_faults
from medheb.build.inventory import BuiltFile
from medheb.build.kept_pictures import keep_file
from medheb.build.output import Output
from medheb.build.recipe import Recipe, Unit
from medheb.build.rights import children, is_folder
from medheb.build.source import Source
from medheb.build.splits import write_selections
from medheb.build.tables import read_json_file, read_table
from medheb.build.unusual import note_unusual
from medheb.core.errors import MedhebError, printable
from medheb.manifest.base import RelativePath, Strict, check_relative

LETTERS = "ABCD"
BLOCK = 512


@dataclass(frozen=True)
class Question:
    """One row: where it stands, its id, texts, and the picture's path in the source."""

    where: str
    id: str
    question: str
    answer: str
    choices: tuple[str, ...]
    picture: str
    facts: tuple[tuple[str, str], ...] = ()


class PmcVqa(Strict):
    """Settings of ``pmc_vqa``."""

    table: str = "test.csv"
    pictures: tuple[str, ...] = Field(default=("images", "figures"), description="names of the folder of pictures")
    folder: RelativePath = Field(description="where pictures go, below images")
    training: str | None = Field(default=None, description="table of training questions, which a copy may lack")


class OmniMedVqa(Strict):
    """Settings of ``omnimedvqa``."""

    questions: str = Field(default="QA_information", description="folder that holds the question files")
    access: str = Field(default="Open-access", description="its folder of questions whose pictures are there")
    folder: RelativePath = Field(description="where the source's own tree of pictures goes, below images")


def _without_letter(text: str, letter: str) -> str:
    """A choice without its leading letter: `` A: heart`` is ``heart``."""
    text = " ".join(text.split())
    for mark in (":", ".", ")"):
        if text.upper().startswith(f"{letter}{mark}"):
            return text[2:].strip()
    return text


def _right(answer: str, letter: str, choices: Mapping[str, str], where: str) -> str:
    """The right answer's text: the answer itself if it is a choice, else the choice of its letter.

    Raises:
        MedhebError: it is neither.
    """
    text = " ".join(answer.split())
    for known in choices.values():
        if text.casefold() == known.casefold():
            return known
    if letter in choices:
        return choices[letter]
    raise MedhebError(where, "has an answer that equals none of its choices", "The row is left out")


def pmc_units(source: Source) -> Sequence[Unit]:
    """Blocks of pictures by name, each with all its questions."""
    options = source.options(PmcVqa)
    table, top = source.find(options.table), source.find(*options.pictures)
    # Copies nest the folder of pictures: images/figures, images/images.
    while inner := next((top / name for name in options.pictures if is_folder(top / name)), None):
        top = inner
    faults: list[Fault] = []
    found = _pmc_blocks(table, top, ("test", ()), faults)
    if options.training is not None and source.folders_with(options.training):
        tested = {name for unit in found for name in unit.data[2]}
        found += _pmc_blocks(source.find(options.training), top, ("train", tested), faults)
    return [*found, *unit_of_faults(faults)]


def _pmc_blocks(table: Path, top: Path, part: tuple[str, Collection[str]], faults: list[Fault]) -> list[Unit]:
    """Blocks of a table; pictures of the test are left out of the training part, and counted."""
    split, tested = part
    columns = ["Figure_path", "Question", "Answer", *(f"Choice {letter}" for letter in LETTERS)]
    by_picture: dict[str, list[tuple[str, dict[str, str]]]] = defaultdict(list)
    for row in read_table(table, columns, faults):
        by_picture[row.cells["Figure_path"]].append((row.where, row.cells))
    names = sorted(set(by_picture).difference(tested), key=str.encode)
    units = []
    for start in range(0, len(names), BLOCK):
        block = {name: by_picture[name] for name in names[start : start + BLOCK]}
        number = f"{start // BLOCK:04d}"
        units.append(Unit(number if split == "test" else f"{split} {number}", (split, str(top), block)))
    if left := len(set(by_picture) & set(tested)):
        units.append(Unit(f"{split} tested", left))
    return units


def pmc_build(source: Source, unit: Unit, out: Output) -> None:
    """Keep the pictures of a block and write its questions."""
    options = source.options(PmcVqa)
    if refuse_rows(unit, out):
        return
    if isinstance(unit.data, int):
        out.count("pictures of training questions left out: the test asks about them", unit.data)
        return
    split, top, rows = unit.data
    questions = []
    for name, claims in rows.items():
        for where, cells in claims:
            try:
                questions.append(_pmc_question(where, cells, name))
            except MedhebError as error:
                out.refuse(error)
    number = unit.name.split()[-1]
    _write(Path(top), options.folder, questions, (f"records/{split}_{number}.jsonl", split), out)


def _pmc_question(where: str, cells: Mapping[str, str], name: str) -> Question:
    choices = {letter: text for letter in LETTERS if (text := _without_letter(cells[f"Choice {letter}"], letter))}
    question = " ".join(cells["Question"].split())
    if not question or not name or len(choices) < 2:
        raise MedhebError(where, "lacks a question, a picture or two choices", "The row is left out")
    letter = cells.get("Answer_label", "").strip().upper()
    answer = _right(_without_letter(cells["Answer"], letter or "A"), letter, choices, where)
    # The table has no ids: the picture's name and the question tell rows apart.
    return Question(where, f"{name}: {question}", question, answer, tuple(choices.values()), name)


def omni_units(source: Source) -> Sequence[Unit]:
    """One unit a question file.

    Raises:
        MedhebError: the folder of question files is not there or holds none.
    """
    options = source.options(OmniMedVqa)
    top = source.folder_with(options.questions)
    files = _json_files(top / options.questions / options.access)
    if not files:
        raise MedhebError(
            top / options.questions, f"holds no {options.access}/*.json", "Fetch the source again, or mend unpack"
        )
    return [Unit(path.stem, (str(top), str(path))) for path in files]


def _json_files(folder: Path) -> list[Path]:
    return [path for path in children(folder) if path.suffix == ".json"] if is_folder(folder) else []


def omni_build(source: Source, unit: Unit, out: Output) -> None:
    """Keep the pictures of a question file and write its questions.

    Raises:
        MedhebError: the file is not a JSON list.
    """
    options = source.options(OmniMedVqa)
    top, path = Path(unit.data[0]), Path(unit.data[1])
    rows = read_json_file(path)
    if not isinstance(rows, list):
        raise MedhebError(path, "is not a list of questions", "Fetch the source again")
    questions: dict[str, Question] = {}
    for number, row in enumerate(rows):
        try:
            question = _omni_question(f"{path}, question {number}", row)
            if (first := questions.setdefault(question.id, question)) is not question:
                raise MedhebError(question.where, f"repeats the id of {first.where}", "Keep one of the rows")
        except MedhebError as error:
            out.refuse(error)
    _write(top, options.folder, list(questions.values()), (f"records/{path.stem}.jsonl", "test"), out)


def _omni_question(where: str, row: Any) -> Question:
    names = ("dataset", "question_id", "question", "gt_answer", "image_path")
    if not isinstance(row, dict) or not all(isinstance(row.get(name), str) and row[name].strip() for name in names):
        raise MedhebError(where, f"lacks one of {', '.join(names)}", "The row is left out")
    if any(isinstance(text, str) and printable(text) != text for text in row.values()):
        raise MedhebError(where, "holds half a character, which no UTF-8 has", "The row is left out")
    # Questions with two options have no C and D.
    choices = {
        letter: " ".join(row[f"option_{letter}"].split())
        for letter in LETTERS
        if isinstance(row.get(f"option_{letter}"), str) and row[f"option_{letter}"].strip()
    }
    answer = _right(row["gt_answer"], "", choices, where)
    facts = tuple((name, str(row[name])) for name in ("dataset", "question_type", "modality_type") if row.get(name))
    question = " ".join(row["question"].split())
    return Question(where, row["question_id"], question, answer, tuple(choices.values()), row["image_path"], facts)


def _write(top: Path, folder: str, questions: Sequence[Question], into: tuple[str, str], out: Output) -> None:
    """Pictures once each, then the questions whose picture could be kept."""
    records, split = into
    kept: dict[str, str | None] = {}
    rows = []
    for question in sorted(questions, key=lambda row: (row.id, row.answer)):
        if question.picture not in kept:
            kept[question.picture] = _keep(top, (folder, split), question, out)
        place = kept[question.picture]
        if place is None:
            out.count("questions whose picture cannot be used, left out")
            continue
        rows.append(
            {
                "id": question.id,
                "question": question.question,
                "answer": question.answer,
                "choices": list(question.choices),
                "picture": place,
                "group": question.picture,
                "split": split,
                **dict(question.facts),
            }
        )
    if rows:
        out.records(records, rows, kind="records", split=split, count=len(rows))


def _keep(top: Path, into: tuple[str, str], question: Question, out: Output) -> str | None:
    """Place of a picture below the image folder; None if it is refused."""
    folder, split = into
    name = PurePosixPath(question.picture).as_posix()
    place = f"{folder}/{name}"
    try:
        check_relative(name)
        keep_file(out, place, top / name, kind="picture", split=split, group=name, member=name)
    except ValueError as error:
        out.refuse(MedhebError(question.where, f"names a picture whose path is not {error}", "The row is left out"))
        return None
    except MedhebError as error:
        out.refuse(error)
        return None
    return place


def finish(source: Source, files: Sequence[BuiltFile], out: Output) -> None:
    """Selection lists."""
    write_selections(files, out, ["picture"])
    note_unusual(files, out)


PMC_VQA = Recipe(pmc_build, pmc_units, finish)
OMNIMEDVQA = Recipe(omni_build, omni_units, finish)
