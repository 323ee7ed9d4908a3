"""Recipe ``mimic_cxr_vqa``: questions of Medical-CXR-VQA on studies of MIMIC-CXR, each with one frontal picture.

Pictures are linked. No published program makes this task, so both protocols give the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from medheb.build.closed_tables import Fault, Row, refuse_rows, rows_of, unit_of_faults
from medheb.build.inventory import BuiltFile
from medheb.build.mimic import (
    FILES,
    MimicOptions,
    Study,
    frontal_pictures,
    jpg_root,
    link_folders,
    link_picture,
    table_of,
)
from medheb.build.output import Output
from medheb.build.recipe import Recipe, Unit
from medheb.build.selection import in_keyed_order
from medheb.build.source import Source
from medheb.core.errors import MedhebError
from medheb.manifest.base import Strict

BLOCK, TRAINING_BLOCK = 32, 1024
TEST = "test"


class Columns(Strict):
    """Names of the table's columns.

    Args:
        study: study id.
        question: text.
        answer: text.
        type: kind of question; null if the table does not tell.
        split: the table's own split; null for that of MIMIC-CXR.
    """

    study: str
    question: str
    answer: str
    type: str | None
    split: str | None


class Options(MimicOptions):
    """Settings of this source.

    Args:
        table: file of the questions.
        columns: its columns.
        split: word for the test part, in the table's own split or in that of MIMIC-CXR.
        training: word for the training part there, whose questions are listed with their pictures, which stay in place
            and are not checked; null: none.
        test_rows: cap of the test.
    """

    table: str
    columns: Columns
    split: str
    training: str | None = None
    test_rows: int = 1000


@dataclass(frozen=True)
class Question:
    """A question with its answer on a study."""

    where: str
    study: str
    type: str
    question: str
    answer: str

    @property
    def name(self) -> str:
        """Tells questions apart."""
        return f"{self.study}\0{self.question}\0{self.answer}"


@dataclass(frozen=True)
class Block:
    """Some pictures of the test or training part with their questions."""

    part: Literal["test", "train"]
    root: Path
    studies: tuple[tuple[Study, tuple[Question, ...]], ...]


def _studies(root: Path, word: str, faults: list[Fault]) -> set[str]:
    """Studies of a part of MIMIC-CXR."""
    split = rows_of(table_of(root, "split"), ("study_id", "split"), faults)
    return {row.cells["study_id"] for row in split if row.cells["split"] == word}


def _question(row: Row, columns: Columns, faults: list[Fault]) -> Question | None:
    study, question, answer = (row.cells[name] for name in (columns.study, columns.question, columns.answer))
    if not (study and question and answer):
        faults.append(row.fault("lacks its study, question or answer"))
        return None
    return Question(row.where, study, row.cells.get(columns.type or "", ""), question, answer)


def _questions(path: Path, root: Path, options: Options, word: str, faults: list[Fault]) -> list[Question]:
    """Questions of a part, each once."""
    columns = options.columns
    needed = [columns.study, columns.question, columns.answer, *([columns.split] if columns.split else [])]
    wanted = None if columns.split else _studies(root, word, faults)
    found: dict[str, Question] = {}
    for row in rows_of(path, needed, faults, optional=[columns.type] if columns.type else []):
        study = row.cells[columns.study]
        inside = row.cells[columns.split] == word if columns.split else study in (wanted or ())
        question = _question(row, columns, faults) if inside or not study else None
        if question is not None:
            found.setdefault(question.name, question)
    return list(found.values())


def units(source: Source) -> Sequence[Unit]:
    """One unit a block of pictures of the drawn questions."""
    options = source.options(Options)
    folder, root = source.folder_with(options.table), jpg_root(source)
    if root is None:
        raise MedhebError(source.dataset.id, "finds no copy of MIMIC-CXR-JPG", "Give a folder that holds both")
    faults: list[Fault] = []
    questions = _questions(folder / options.table, root, options, options.split, faults)
    pictures = frontal_pictures(root, {question.study for question in questions}, faults)
    usable = [question for question in questions if question.study in pictures]
    ordered = in_keyed_order(usable, lambda question: question.name, source.seed, source.dataset.id)
    found = _blocks("test", root, pictures, ordered[: options.test_rows])
    if options.training is not None:
        # What is wrong with a table has been said above.
        listed = _questions(folder / options.table, root, options, options.training, [])
        trained = frontal_pictures(root, {question.study for question in listed}, [])
        found += _blocks("train", root, trained, sorted(listed, key=lambda question: question.name))
    without = len(questions) - len(usable)
    return [*found, *([Unit("without a frontal picture", without)] if without else []), *unit_of_faults(faults)]


def _blocks(
    part: Literal["test", "train"], root: Path, pictures: Mapping[str, Study], questions: Sequence[Question]
) -> list[Unit]:
    """Blocks of studies that have a picture, with their questions in the given order."""
    asked: dict[str, list[Question]] = {}
    for question in questions:
        if question.study in pictures:
            asked.setdefault(question.study, []).append(question)
    studies = [(pictures[study], tuple(asked[study])) for study in sorted(asked)]
    name, size = ("studies", BLOCK) if part == "test" else ("training", TRAINING_BLOCK)
    return [
        Unit(f"{name} {first // size:05d}", Block(part, root, tuple(studies[first : first + size])))
        for first in range(0, len(studies), size)
    ]


def build(source: Source, unit: Unit, out: Output) -> None:
    """Link the pictures of a block and write its questions."""
    if refuse_rows(unit, out):
        return
    if isinstance(unit.data, int):
        out.count("questions on studies without a frontal picture", unit.data)
        return
    rows, trained = [], unit.data.part == "train"
    for study, questions in unit.data.studies:
        facts = {"case": study.study, "split": TEST, "group": study.subject, "view": study.view}
        try:
            if not trained:
                link_picture(out, unit.data.root, study.picture, prefix=f"{FILES}/", **facts)
        except MedhebError as error:
            out.refuse(error)
            continue
        for question in questions:
            common = {"picture": f"{FILES}/{study.picture}", "group": study.subject, "row": question.where}
            rows.append(common | {"type": question.type, "question": question.question, "answer": question.answer})
    number = unit.name.split()[-1]
    if rows and trained:
        out.records(f"training/{number}.jsonl", rows, kind="training", split="train")
    elif rows:
        out.records(f"questions/{number}.jsonl", rows, kind="records", split=TEST)


def finish(source: Source, files: Sequence[BuiltFile], out: Output) -> None:
    """Write ``selection/test.txt``: the pictures that are asked about."""
    out.lines("selection/test.txt", [file.path for file in files if file.facts.get("kind") == "xray"], kind="selection")


def links(source: Source, benchmark: Path, staging: Path) -> None:
    """Show the pictures of MIMIC-CXR in the image folder."""
    link_folders(source, staging, source.options(Options).mimic_version)


RECIPE = Recipe(build, units, finish, links)
