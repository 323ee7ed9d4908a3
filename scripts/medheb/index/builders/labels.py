"""Builders whose candidates are labels or answers: ``label`` and ``question``."""

from __future__ import annotations

from collections.abc import Callable

from medheb.index.builders.common import MAX_ROWS, confusable, first_of_each, query_fields, record
from medheb.index.draw import Draw
from medheb.index.entries import Sources, organ_entries
from medheb.index.records import Record
from medheb.manifest.task import Task

MIDDLE = "in the centre of this image"
QUESTIONS: tuple[tuple[str, str, Callable[[str], str]], ...] = (
    ("label", f"Which anatomical structure is {MIDDLE}?", str),
    ("side", f"On which side of the patient's body is the structure {MIDDLE}?", "{} side of the body".format),
    ("system", f"To which body system does the structure {MIDDLE} belong?", str),
)


def label(task: Task, sources: Sources, draw: Draw) -> list[Record]:
    """Which label does the image or volume have? Candidates: all labels of all sources, positive first.

    Every source gives queries.
    """
    entries = organ_entries(sources.all, task.form)
    group_of = {entry.fact("label"): entry.fact("group") for entry in entries}
    records = []
    for entry in entries:
        right, group = entry.fact("label"), entry.fact("group")
        wrong = [name for name, other in group_of.items() if not confusable(right, group, name, other)]
        drawn = draw.sample(wrong, len(wrong), entry.paths[0], str)
        fields = query_fields(entry, task.form)
        records.append(record(task, qry_text=task.qry_text, tgt_text=(right, *drawn), **fields))
    return records


def question(task: Task, sources: Sources, draw: Draw) -> list[Record]:
    """A question about the structure in the middle. Candidates: the answers to all kinds of question.

    Which structure, which side (of paired structures) and which body system; a model that does not read the
    question cannot know which kind of answer is wanted. At most 300 drawn rows.
    """
    entries = organ_entries(sources.all, task.form)
    asked = [
        (entry, text, phrase(entry.fact(fact)))
        for entry in entries
        for fact, text, phrase in QUESTIONS
        if entry.facts.get(fact) is not None
    ]
    answers = first_of_each((answer for _, _, answer in asked), str)
    group_of = {entry.fact("label"): entry.fact("group") for entry in entries}
    records = []
    drawn_rows = draw.sample(asked, MAX_ROWS, "rows", lambda row: f"{row[0].paths[0]}|{row[1]}")
    for entry, text, right in sorted(drawn_rows, key=lambda row: (row[0].paths, row[1])):
        wrong = [
            answer
            for answer in answers
            if not confusable(right, group_of.get(right, right), answer, group_of.get(answer, answer))
        ]
        drawn = draw.sample(wrong, len(wrong), f"{entry.paths[0]}|{text}", str)
        fields = query_fields(entry, task.form)
        records.append(record(task, qry_text=text, tgt_text=(right, *drawn), **fields))
    return records
