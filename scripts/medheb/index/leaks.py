"""What the tests of a run show, and which of it a training row shows again.

Compared are pictures and volumes (by content, whatever their names), pairs of texts, patients (or the cases or source
pictures that a source splits by) and studies. Only what a source's own publisher put on both sides of its split may
be in the training rows, and only under protocol ``release``; everything else is left out.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Literal

from medheb.build.splits import NOT_PUBLISHED
from medheb.index.builders.common import Context, Pair, RuleOptions
from medheb.index.entries import Entry
from medheb.index.text_rules import comparable
from medheb.manifest.load import Run

Kind = Literal["image", "text", "patient", "study"]
Why = Literal["other source", "no published split", "published split"]
PUBLISHED_SPLIT: Why = "published split"
# From the strongest reason for leaving a row out to the weakest.
REASONS: tuple[Why, ...] = ("other source", "no published split", PUBLISHED_SPLIT)


@dataclass(frozen=True)
class Leak:
    """What a training row shows of tests.

    Args:
        shows: kinds of things, each with the source of that side of the row.
        tests: sources whose tests show it, sorted.
        why: the strongest reason for leaving the row out. ``published split``: both the row and all those tests stand
            where the source's publisher put them.
    """

    shows: tuple[tuple[Kind, str], ...]
    tests: tuple[str, ...]
    why: Why

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """Kinds of things, in order, each once."""
        return tuple(dict.fromkeys(kind for kind, _ in self.shows))


@dataclass
class Tested:
    """What the tests of a run show, and of whom.

    Everything shown is a key with a set of owners: sources whose tests show it, apart by whether their publisher's
    split put it there. A set is a number with a bit an owner, so that memory grows by one digest a thing.

    Args:
        run: gives the sources.
    """

    run: Run
    _owners: list[tuple[str, bool]] = field(default_factory=list)
    _bits: dict[tuple[str, bool], int] = field(default_factory=dict)
    _seen: dict[tuple[Kind, Hashable], int] = field(default_factory=dict)

    def add(self, pair: Pair, form: str, published: Iterable[str]) -> None:
        """Note both sides of a test pair.

        Args:
            pair: of a test.
            form: of its task; see :func:`content_keys`.
            published: sources of the task whose publisher's split decides; see :func:`split_by_publisher`.
        """
        for kind, key, dataset in _things(self.run, pair, form):
            self._note(kind, key, dataset, dataset in published)

    def add_entry(self, entry: Entry, form: str, published: bool) -> None:
        """Note a picture or volume that is a wrong candidate, or that a released task file names."""
        for kind, key, dataset in _of_entry(self.run, entry, form):
            self._note(kind, key, dataset, published)

    def leak(self, pair: Pair, form: str, published: Iterable[str]) -> Leak | None:
        """What a training pair shows of the tests; None if it shows nothing. Arguments as for :meth:`add`."""
        shows: dict[tuple[Kind, str], None] = {}
        tests: set[str] = set()
        worst = len(REASONS) - 1
        for kind, key, dataset in _things(self.run, pair, form):
            mask = self._seen.get((kind, key), 0)
            if not mask:
                continue
            owners = [owner for place, owner in enumerate(self._owners) if mask >> place & 1]
            shows[kind, dataset] = None
            tests.update(name for name, _ in owners)
            if any(name != dataset for name, _ in owners):
                worst = 0
            elif dataset not in published or not all(theirs for _, theirs in owners):
                worst = min(worst, 1)
        return Leak(tuple(shows), tuple(sorted(tests)), REASONS[worst]) if shows else None

    def _note(self, kind: Kind, key: Hashable, dataset: str, published: bool) -> None:
        owner = dataset, published
        if owner not in self._bits:
            self._bits[owner] = 1 << len(self._owners)
            self._owners.append(owner)
        bit, before = self._bits[owner], self._seen.get((kind, key), 0)
        if not before & bit:
            self._seen[kind, key] = before | bit if before else bit


def split_by_publisher(run: Run, context: Context[RuleOptions]) -> frozenset[str]:
    """Sources of a task whose training and test rows stand where the source's own publisher put them."""
    if context.options.split != "given":
        return frozenset()
    return frozenset(
        source.dataset
        for source in context.sources.all
        if run.datasets[source.dataset].published_split is not None and NOT_PUBLISHED not in source.inventory.notes
    )


def _things(run: Run, pair: Pair, form: str) -> Iterator[tuple[Kind, Hashable, str]]:
    """Kind, key and source of everything that both sides of a pair show or stand for."""
    for shown in (pair.query, pair.target):
        if shown.entry is not None:
            yield from _of_entry(run, shown.entry, form)
    for dataset, group in pair.groups:
        yield "patient", (_people(run, dataset), group), dataset
    if pair.query.entry is None and pair.target.entry is None:
        owner = pair.groups[0][0] if pair.groups else ""
        texts = f"{comparable(pair.query.text)}\0{comparable(pair.target.text)}"
        yield "text", digest(texts), owner


def _of_entry(run: Run, entry: Entry, form: str) -> Iterator[tuple[Kind, Hashable, str]]:
    for key in content_keys(entry, form):
        yield "image", key, entry.dataset
    study = entry.known("study")
    if study is not None:
        yield "study", (_people(run, entry.dataset), study), entry.dataset


def content_keys(entry: Entry, form: str) -> list[bytes]:
    """Digests of pictures; of a volume as a whole, as single slices, say black ones, are no leak."""
    return [digest(content) for content in ([entry.content] if form == "3d" else entry.contents)]


def digest(text: str) -> bytes:
    """128 bits that tell contents apart."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _people(run: Run, dataset: str) -> str:
    """The source that patients come from, so that all sources of one hospital's patients agree."""
    known = run.datasets.get(dataset)
    return known.people if known else dataset
