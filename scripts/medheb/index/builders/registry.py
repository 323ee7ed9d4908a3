"""Builder names, and what they call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pydantic import ValidationError

from medheb.core.errors import MedhebError
from medheb.index.builders import classes, matches, overlap, questions, regions, reports, texts
from medheb.index.builders.common import Context, Pair, Part, RuleOptions, Wrong, rows_of, unambiguous
from medheb.index.draw import Draw
from medheb.index.entries import Entry, Sources
from medheb.index.records import Record
from medheb.manifest.base import describe_faults
from medheb.manifest.rules import IndexRule
from medheb.manifest.task import Task


@dataclass(frozen=True)
class Family:
    """One builder.

    Args:
        options: model of its settings.
        pairs: all pairs of a part, test or train.
        wrong: from all test pairs, and those that become rows, to what finds the wrong candidates of one.
        published: rows that a published program drew, None where it drew none.
        pool: pictures and volumes that a local pool can draw on, also those that are in no pair.
    """

    options: type[RuleOptions]
    pairs: Callable[[Context[Any], Part], Iterable[Pair]]
    wrong: Callable[[Context[Any], Sequence[Pair], Sequence[Pair]], Wrong]
    published: Callable[[Context[Any]], list[Record] | None] = lambda _: None
    pool: Callable[[Context[Any]], Iterable[Entry]] = lambda _: ()


FAMILIES: dict[str, Family] = {
    "label": Family(classes.ClassOptions, classes.label_pairs, classes.label_wrong),
    "label_to_image": Family(classes.ClassOptions, classes.image_pairs, classes.image_wrong, pool=classes.pool),
    "matched": Family(matches.MatchOptions, matches.match_pairs, matches.match_wrong, pool=matches.pool),
    "question": Family(questions.QuestionOptions, questions.question_pairs, questions.question_wrong),
    "region": Family(regions.RegionOptions, regions.region_pairs, regions.region_wrong),
    "report": Family(reports.ReportOptions, reports.report_pairs, reports.report_wrong),
    "report_to_image": Family(reports.ReportOptions, reports.image_of_report_pairs, reports.image_of_report_wrong),
    "same_label": Family(classes.SameOptions, classes.same_pairs, classes.same_wrong, pool=classes.same_pool),
    "shared_labels": Family(overlap.OverlapOptions, overlap.overlap_pairs, overlap.overlap_wrong, pool=overlap.pool),
    "text_pairs": Family(texts.TextOptions, texts.text_pairs, texts.text_wrong, texts.published_records),
}

Builder = Callable[[Task, Sources, Draw], Iterable[Record]]


def rule_of(task: Task, rules: Sources) -> IndexRule:
    """The rule that a task's row names; the name of a builder alone means the builder with its defaults.

    Raises:
        MedhebError: there is neither such a rule nor such a builder.
    """
    rule = rules.rules.get(task.builder) or IndexRule(builder=task.builder)
    if rule.builder not in FAMILIES:
        known = sorted(rules.rules) or sorted(FAMILIES)
        raise MedhebError(f"task {task.task}", f"key 'builder' is '{task.builder}'", f"Allowed: {', '.join(known)}")
    return rule


def context_of(task: Task, sources: Sources, draw: Draw) -> tuple[Family, Context[Any]]:
    """A task's builder and what it works with.

    Raises:
        MedhebError: no such rule, or a wrong setting in it.
    """
    rule = rule_of(task, sources)
    family = FAMILIES[rule.builder]
    try:
        options = family.options.model_validate(rule.options)
    except ValidationError as error:
        raise describe_faults(error, f"rule {task.builder} of task {task.task}") from error
    return family, Context(task, sources, draw, options)


def build_rows(task: Task, sources: Sources, draw: Draw) -> Iterator[Record]:
    """Rows of one task one by one, each with its positive first.

    Raises:
        MedhebError: the rule or the sources do not fit.
    """
    family, context = context_of(task, sources, draw)
    published = family.published(context)
    if published is not None:
        yield from published
        return
    pairs = family.pairs(context, "test")
    chosen = unambiguous(pairs) if task.pool == "global" else pairs
    yield from rows_of(context, chosen, partial(family.wrong, context))


def training_pairs(task: Task, sources: Sources, draw: Draw) -> Iterable[Pair]:
    """Pairs of the training part by the same rule, streamed."""
    family, context = context_of(task, sources, draw)
    return family.pairs(context, "train")


def builder_of(task: Task) -> Builder:
    """What makes the rows of a task."""
    return BUILDERS.get(task.builder, build_rows)


BUILDERS: dict[str, Builder] = dict.fromkeys(FAMILIES, build_rows)
