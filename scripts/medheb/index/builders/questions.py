"""Builder ``question``: a question about a picture or volume, against the answers of its task.

Questions are facts of the pictures, rows of the source's records, or made of facts by templates.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import chain

from pydantic import Field

from medheb.index.builders.classes import confusable
from medheb.index.builders.common import (
    Context,
    Pair,
    Part,
    RuleOptions,
    Shown,
    Wrong,
    group_of,
    wrong_texts,
)
from medheb.index.entries import Entry, Select
from medheb.index.refusal import RuleError
from medheb.index.text_rules import comparable
from medheb.manifest.base import Strict
from medheb.manifest.rules import LOCAL_TEXTS


class Asked(Strict):
    """Questions in records.

    Args:
        kind: of the files.
        path: only this file.
        training: another file of the same kind that holds questions on the training part's items, if there is one.
        row: cell that names the item.
        fact: what it is compared with: a fact, ``path`` or ``folder``.
        question: cell.
        answer: cell.
        choices: cell of a list, which may be missing.
    """

    kind: str = "records"
    path: str | None = None
    training: str | None = None
    row: str = "picture"
    fact: str = "path"
    question: str = "question"
    answer: str = "answer"
    choices: str = "choices"


class Template(Strict):
    """A question for every item that has a fact.

    Args:
        fact: that the answer is made of.
        question: text.
        answer: text with ``{}`` for the fact.
    """

    fact: str
    question: str
    answer: str = "{}"


class QuestionOptions(RuleOptions):
    """Settings of ``question``.

    Args:
        items: pictures or volumes.
        question: fact with the question.
        answer: fact with the answer.
        asked: where questions stand, if they are no facts.
        training: kind of records like those of ``asked``, if the pictures of the training part stay in place and are
            not built.
        templates: questions that are made of facts.
        family: fact of the wider class, for templates; see ``label``.
        candidates: of a row's own list where neither the source gives choices nor the whole answer set is asked.
    """

    items: Select
    question: str = "question"
    answer: str = "answer"
    asked: Asked | None = None
    training: str | None = None
    templates: tuple[Template, ...] = ()
    family: str | None = None
    candidates: int = Field(default=LOCAL_TEXTS, ge=2)


def _from_rows(
    context: Context[QuestionOptions], asked: Asked, part: Part
) -> Iterator[tuple[Entry, str, str, tuple[str, ...]]]:
    entries = context.entries(context.options.items)
    items = {(entry.dataset, entry.known(asked.fact)): entry for entry in entries}
    missing = rows = 0
    for source in context.sources.all:
        files = [source.rows(asked.kind, asked.path)]
        files += [source.rows(asked.kind, asked.training)] if asked.training and part == "train" else []
        for row in chain.from_iterable(files):
            rows += 1
            entry = items.get((row.dataset, row.text(asked.row)))
            if entry is None:
                missing += 1
                continue
            choices = row.cells.get(asked.choices) or ()
            yield entry, row.text(asked.question), row.text(asked.answer), tuple(str(choice) for choice in choices)
    if not rows:
        names = ", ".join(source.dataset for source in context.sources.all)
        raise RuleError(
            context.where,
            f"finds no questions of kind '{asked.kind}' in {names}",
            "Fetch the source's tables of questions too and build it again",
        )
    context.left_out(missing, "questions about pictures that were not built")


def _listed(context: Context[QuestionOptions]) -> Iterator[tuple[Entry, str, str, tuple[str, ...]]]:
    """Questions of the training part about pictures that stay in place."""
    options = context.options
    for source in context.sources.all if options.training and options.asked else ():
        asked = options.asked or Asked()
        for entry, row in source.listed(options.training or ""):
            yield entry, row.text(asked.question), row.text(asked.answer), ()


def _all(context: Context[QuestionOptions], part: Part) -> Iterator[tuple[Entry, str, str, tuple[str, ...]]]:
    """Item, question, answer and the source's own choices."""
    options = context.options
    if options.asked is not None:
        yield from _from_rows(context, options.asked, part)
        return
    for entry in context.entries(options.items):
        if options.templates:
            for template in options.templates:
                value = entry.known(template.fact)
                if value is not None:
                    yield entry, template.question, template.answer.format(value), ()
        elif entry.known(options.question) and entry.known(options.answer):
            yield entry, entry.fact(options.question), entry.fact(options.answer), ()


def _named(context: Context[QuestionOptions], part: Part) -> Iterator[tuple[Pair, tuple[str, ...]]]:
    """Pairs with their choices; a question that is asked again of the same pixels with the same answer counts once."""
    everything = list(_all(context, part))
    kept = {entry.name for entry in context.of_part({entry.name: entry for entry, *_ in everything}.values(), part)}
    if part == "train":
        listed = list(_listed(context))
        everything += listed
        kept |= {entry.name for entry, *_ in listed}
    seen: set[tuple[str, str, str]] = set()
    for entry, question, answer, choices in everything:
        key = (entry.content, comparable(question), comparable(answer))
        if entry.name not in kept or key in seen or not answer.strip():
            continue
        seen.add(key)
        name = f"{entry.name}|{question}|{answer}"
        kind = (entry.known(context.options.family) or "") if context.options.family else ""
        yield Pair(name, Shown(question, entry), Shown(answer), (group_of(entry),), kind), choices


def question_pairs(context: Context[QuestionOptions], part: Part) -> Iterator[Pair]:
    """A question with its answer."""
    yield from (pair for pair, _ in _named(context, part))


def question_wrong(context: Context[QuestionOptions], pairs: Sequence[Pair], kept: Sequence[Pair]) -> Wrong:
    """Wrong answers: all other answers of the task's rows (the paper's wording), or the row's own list.

    The row's own list is the source's choices where it has some, else drawn answers of the task. Other right answers
    to the same question on the same pixels are never wrong.
    """
    right: dict[tuple[str, str], set[str]] = defaultdict(set)
    first: dict[str, str] = {}
    for pair in pairs:
        right[pair.query.key].add(pair.target.text)
    for pair in kept:
        first.setdefault(comparable(pair.target.text), pair.target.text)
    every = sorted(first.values())
    families = _families(context)
    choices = {} if context.whole_answer_set else {pair.name: own for pair, own in _named(context, "test") if own}
    most = len(every) if context.whole_answer_set else context.options.candidates - 1

    def wrong(pair: Pair) -> list[Shown]:
        own = choices.get(pair.name)
        never = right[pair.query.key]
        if own:
            return [Shown(text) for text in wrong_texts(context, sorted(set(own)), pair, len(own), never)]
        answer, family = pair.target.text, families.get(pair.target.text, "")
        possible = every
        if families:
            possible = [text for text in every if not confusable(answer, family, text, families.get(text, text))]
        return [Shown(text) for text in wrong_texts(context, possible, pair, most, never)]

    return wrong


def _families(context: Context[QuestionOptions]) -> dict[str, str]:
    """Family of each answer that a template makes of a label as it is."""
    options = context.options
    if options.family is None:
        return {}
    plain = [template.fact for template in options.templates if template.answer == "{}"]
    return {
        entry.fact(fact): entry.fact(options.family)
        for entry in context.entries(options.items)
        for fact in plain[:1]
        if entry.known(fact) is not None
    }
