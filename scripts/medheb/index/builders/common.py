"""What the builders of all families share: settings, splits, pairs, and rows in the record format."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

from medheb.build.splits import drawn_split
from medheb.core.errors import MedhebError
from medheb.index.draw import Draw
from medheb.index.entries import Entry, Select, Sources
from medheb.index.records import Record
from medheb.index.refusal import RuleError
from medheb.index.text_rules import comparable, honest
from medheb.manifest.base import Strict
from medheb.manifest.rules import TEST_ROWS
from medheb.manifest.task import Task

log = logging.getLogger("medheb.index")
Part = Literal["test", "train"]
MORE = "Build its sources with more of what they hold"


class RuleOptions(Strict):
    """Settings that every builder has.

    Args:
        rows: cap of the test, after sorting, by a keyed hash of each row's name.
        split: ``given``: the fact ``split`` decides; ``drawn``: 7:3 by a keyed hash of the group; ``none``: all of
            it is test.
        test: values of the fact that mean test.
        train: values that mean training.
    """

    rows: int = TEST_ROWS
    split: Literal["given", "drawn", "none"] = "given"
    test: tuple[str, ...] = ("test",)
    train: tuple[str, ...] = ("train",)


OptionsT = TypeVar("OptionsT", bound=RuleOptions, covariant=True)


@dataclass(frozen=True)
class Shown:
    """One side of a pair: a text, pictures, or both."""

    text: str = ""
    entry: Entry | None = None

    @property
    def key(self) -> tuple[str, str]:
        """Equal exactly where a model could not tell two of them apart in earnest."""
        return comparable(self.text) if self.text else "", self.entry.content if self.entry else ""


@dataclass(frozen=True)
class Pair:
    """A query and what is right for it.

    Args:
        name: tells the pairs of a task apart, whatever the order of files.
        query: asked.
        target: right.
        groups: units of splitting on both sides, each with its source.
        kind: class, person or whatever else keeps candidates apart; its meaning is the builder's.
    """

    name: str
    query: Shown
    target: Shown
    groups: tuple[tuple[str, str], ...] = ()
    kind: str = ""


@dataclass(frozen=True)
class Context(Generic[OptionsT]):
    """All that a builder works with."""

    task: Task
    sources: Sources
    draw: Draw
    options: OptionsT
    _entries: dict[str, list[Entry]] = field(default_factory=dict)
    _left_out: dict[str, int] = field(default_factory=dict)

    @property
    def where(self) -> str:
        """The task, for messages."""
        return f"task {self.task.task}"

    def entries(self, select: Select, role: str = "all") -> list[Entry]:
        """Items of the sources of a role, read once."""
        key = f"{role}|{select!r}"
        if key not in self._entries:
            self._entries[key] = [entry for source in self.sources.of(role) for entry in source.entries(select)]
        return self._entries[key]

    def part(self, facts: Mapping[str, Any], dataset: str, split: str | None, group: str | None) -> Part | None:
        """``test``, ``train``, or None for what is neither (validation, what no list names)."""
        options = self.options
        if options.split == "none":
            return "test"
        if options.split == "drawn":
            if group is None:
                raise MedhebError(f"{dataset}: {facts}", "has no group to draw a split by", "Mend the recipe")
            return "test" if drawn_split(self.draw.seed, dataset, group) == "test" else "train"
        if split in options.test:
            return "test"
        return "train" if split in options.train else None

    def part_of(self, entry: Entry) -> Part | None:
        """Part of a picture or volume; without a group it is its own."""
        group = entry.known("group") or entry.content
        return self.part(entry.facts, entry.dataset, entry.known("split"), group)

    def of_part(self, found: Iterable[Entry], part: Part) -> list[Entry]:
        """Those entries that belong to a part.

        Raises:
            RuleError: nothing is there for the test.
        """
        everything = list(found)
        if part == "test" and not everything:
            names = ", ".join(source.dataset for source in self.sources.all)
            raise RuleError(
                self.where,
                f"finds none of the pictures that its rule asks for in {names}, which offers {self.offered()}"
                f"{self.why_none()}",
                "Build the source with them",
            )
        kept = [entry for entry in everything if self.part_of(entry) == part]
        if everything and not kept and part == "test":
            words = " or ".join(self.options.test)
            raise RuleError(
                self.where,
                f"finds {len(everything)} items, none of the split {words}{self.why_none()}",
                "Set options.split or options.test of its rule, or build the source with its published lists",
            )
        return kept

    def needs_pool(self, wanted: str) -> None:
        """Refuse a pool that the builder cannot serve.

        Raises:
            RuleError: the task's pool is another.
        """
        if self.task.pool != wanted:
            raise RuleError(
                self.where, f"key 'pool' is '{self.task.pool}'", f"Allowed with builder {self.task.builder}: {wanted}"
            )

    def offered(self) -> str:
        """How many files of each kind the sources hold."""
        kinds = Counter(str(file.facts.get("kind")) for source in self.sources.all for file in source.inventory.files)
        return ", ".join(f"{count} of kind {kind}" for kind, count in sorted(kinds.items())) or "no file"

    def left_out(self, count: int, why: str) -> None:
        """Say how many possible rows a builder left out."""
        if count:
            self._left_out[why] = count
            log.info("index %s: left out %d %s", self.task.task, count, why)

    def why_none(self) -> str:
        """What was left out, for a refusal."""
        told = ", ".join(f"{count} {why}" for why, count in self._left_out.items())
        return f": left out are {told}" if told else ""

    @property
    def published(self) -> bool:
        """Take the rows that a source's published program drew, where it has them."""
        return self.sources.protocol is not None and self.sources.protocol.published_draws

    @property
    def whole_answer_set(self) -> bool:
        """A question is asked against all answers of its task, not only those of its row."""
        return self.sources.protocol is None or self.sources.protocol.question_pool == "task"

    def text(self, text: str) -> str:
        """A text as rows hold it: as it is if the protocol cleans it later as published, else honestly cleaned."""
        protocol = self.sources.protocol
        return text.strip() if protocol is not None and protocol.text_cleaning else honest(text)


Pairs = Callable[[Context[Any], Part], Iterable[Pair]]
Wrong = Callable[[Pair], Sequence[Shown]]


def group_of(entry: Entry) -> tuple[str, str]:
    """Source and unit of splitting of an entry; without a group it is its own."""
    return entry.dataset, entry.known("group") or entry.content


def rows_of(
    context: Context[Any], pairs: Iterable[Pair], wrong: Callable[[Sequence[Pair], Sequence[Pair]], Wrong]
) -> Iterator[Record]:
    """Rows of the test in the order of their names, at most as many as the rule allows.

    Args:
        context: of the task.
        pairs: all possible rows, in any order.
        wrong: given all of them and those that become rows, returns what finds the wrong candidates of one.

    Raises:
        RuleError: there is no row.
    """
    everything = sorted(pairs, key=lambda pair: pair.name)
    if not everything:
        raise RuleError(
            context.where, f"has no query{context.why_none()}", "Build its sources with more of what they hold"
        )
    kept = context.draw.subset(everything, context.options.rows, "rows", lambda pair: pair.name)
    context.left_out(len(everything) - len(kept), f"rows over the cap of {context.options.rows}")
    find = wrong(everything, kept) if context.task.pool == "local" else _none
    alone = 0
    for pair in kept:
        others = find(pair)
        if not others and context.task.pool == "local":
            alone += 1
            continue
        yield record(context, pair, [pair.target, *others])
    context.left_out(alone, "rows without a wrong candidate")
    if alone == len(kept):
        raise RuleError(context.where, f"has no query{context.why_none()}", MORE)


def _none(_: Pair) -> Sequence[Shown]:
    return ()


def unambiguous(pairs: Iterable[Pair]) -> list[Pair]:
    """The first of all pairs that share query or target: in a common pool each question has one right answer."""
    queries: set[tuple[str, str]] = set()
    targets: set[tuple[str, str]] = set()
    kept = []
    for pair in sorted(pairs, key=lambda pair: pair.name):
        if pair.query.key not in queries and pair.target.key not in targets:
            kept.append(pair)
            queries.add(pair.query.key)
            targets.add(pair.target.key)
    return kept


def record(context: Context[Any], pair: Pair, candidates: Sequence[Shown]) -> Record:
    """A record with the task's instruction, the positive first."""
    fields: dict[str, Any] = {"qry_inst": context.task.qry_inst, "qry_text": context.text(pair.query.text)}
    if pair.query.entry is not None:
        fields |= query_fields(pair.query.entry, context.task.form)
    texts = tuple(context.text(shown.text) for shown in candidates)
    shown = [candidate.entry for candidate in candidates if candidate.entry is not None]
    fields |= {"tgt_text": texts, **(image_targets(shown, context.task.form) if shown else {})}
    return Record.model_validate(fields)


def query_fields(entry: Entry, form: str) -> dict[str, object]:
    """Query part of a record: one path for a picture, the slices and ``video`` for a volume."""
    if form == "3d":
        return {"qry_img_path": entry.paths, "qry_modality": "image" if len(entry.paths) == 1 else "video"}
    if len(entry.paths) == 1:
        return {"qry_img_path": entry.paths[0]}
    return {"qry_img_path": entry.paths, "qry_modality": "image"}


def image_targets(entries: Sequence[Entry], form: str) -> dict[str, object]:
    """Candidate part of a record whose candidates are pictures or volumes; several crops of one target are nested."""
    if form == "3d":
        return {"tgt_img_path": tuple(entry.paths for entry in entries), "tgt_modality": "video"}
    paths = tuple(entry.paths[0] if len(entry.paths) == 1 else entry.paths for entry in entries)
    several = any(len(entry.paths) > 1 for entry in entries)
    return {"tgt_img_path": paths, **({"tgt_modality": "image"} if several else {})}


def wrong_texts(
    context: Context[Any], ordered: Sequence[str], pair: Pair, most: int, never: Iterable[str]
) -> list[str]:
    """Drawn texts that differ from the right one, from ``never`` and from each other after normalisation.

    Args:
        context: of the task.
        ordered: texts in an order that is the same everywhere.
        pair: the row.
        most: how many.
        never: further texts that are right too.
    """
    taken = {comparable(pair.target.text), *map(comparable, never)}
    chosen: list[str] = []
    for text in context.draw.pick(ordered, pair.name):
        if len(chosen) == most:
            break
        key = comparable(text)
        if key not in taken:
            taken.add(key)
            chosen.append(text)
    return chosen
