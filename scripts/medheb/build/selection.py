"""Which rows of a source become its test: at most so many, the same on every machine.

The published programs draw with Python's generator, seed 42, from lists whose order depends on the timing of a pool;
the ``published_*`` functions do that on a list in a fixed order. The others order by a keyed hash of each row's own
name, so that one row more or less does not change the choice among the others.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from medheb.build.inventory import BuiltFile

PUBLISHED_SEED = 42
T = TypeVar("T")


@dataclass(frozen=True)
class Region:
    """A text and the crops of one picture that it stands for.

    Args:
        picture: below the image folder.
        label: text.
        crops: below the image folder, in order.
        group: patient or picture, the unit of splitting.
    """

    picture: str
    label: str
    crops: tuple[str, ...]
    group: str

    @property
    def name(self) -> str:
        """Tells regions of a source apart."""
        return f"{self.picture}\0{self.label}"

    def row(self) -> dict[str, str | list[str]]:
        """As a line of a selection list."""
        return {"picture": self.picture, "label": self.label, "crops": list(self.crops), "group": self.group}


def regions_of(files: Iterable[BuiltFile], split: str) -> list[Region]:
    """Crops of one split as regions, in the order of their first crop's path.

    Args:
        files: with facts ``kind`` (``crop``), ``split``, ``picture``, ``label``, ``number`` and ``group``.
        split: ``train``, ``valid`` or ``test``.
    """
    crops: dict[tuple[str, str], list[BuiltFile]] = {}
    for file in files:
        if file.facts.get("kind") == "crop" and file.facts.get("split") == split:
            crops.setdefault((str(file.facts["picture"]), str(file.facts["label"])), []).append(file)
    regions = []
    for (picture, label), found in crops.items():
        ordered = sorted(found, key=lambda file: int(file.facts.get("number") or 0))
        regions.append(Region(picture, label, tuple(file.path for file in ordered), str(found[0].facts["group"])))
    return regions


def keyed(seed: int, dataset: str, name: str) -> str:
    """A hash of a row's name: its place in the source's own random order."""
    return hashlib.sha256(f"{seed}\0{dataset}\0{name}".encode("utf-8", "surrogateescape")).hexdigest()


def in_keyed_order(items: Iterable[T], name: Callable[[T], str], seed: int, dataset: str) -> list[T]:
    """Items ordered by the keyed hash of their names."""
    return sorted(items, key=lambda item: (keyed(seed, dataset, name(item)), name(item)))


def one_per_picture(regions: Sequence[Region], rows: int) -> list[Region]:
    """At most ``rows`` regions, the first of every picture before the second of any.

    Args:
        regions: in the order of preference, say :func:`in_keyed_order`.
        rows: cap.
    """
    seen: dict[str, int] = {}
    ranks = []
    for region in regions:
        ranks.append(seen.get(region.picture, 0))
        seen[region.picture] = ranks[-1] + 1
    order = sorted(range(len(regions)), key=lambda place: (ranks[place], place))
    return [regions[place] for place in order[:rows]]


def round_robin(regions: Sequence[Region], rows: int) -> list[Region]:
    """At most ``rows`` regions, the labels in turn, pictures that have not been used yet first.

    Args:
        regions: in the order of preference.
        rows: cap.
    """
    waiting: dict[str, list[Region]] = {}
    for region in regions:
        waiting.setdefault(region.label, []).append(region)
    used: set[str] = set()
    chosen: list[Region] = []
    while waiting and len(chosen) < rows:
        for label in sorted(waiting):
            if len(chosen) == rows:
                break
            chosen.append(_next(waiting, label, used))
    return chosen


def _next(waiting: dict[str, list[Region]], label: str, used: set[str]) -> Region:
    """Take the first region of a label whose picture is still unused, else the first."""
    left = waiting[label]
    place = next((number for number, region in enumerate(left) if region.picture not in used), 0)
    region = left.pop(place)
    used.add(region.picture)
    if not left:
        del waiting[label]
    return region


def published_one_per_picture(regions: Sequence[Region], rows: int) -> list[Region]:
    """The published draw of VinDr: a random region of every picture in random order, then of what is left."""
    if len(regions) <= rows:
        return list(regions)
    generator = random.Random(PUBLISHED_SEED)  # noqa: S311 - the published draw
    pictures: dict[str, list[Region]] = {}
    for region in regions:
        pictures.setdefault(region.picture, []).append(region)
    order = list(pictures)
    generator.shuffle(order)
    chosen = [generator.choice(pictures[picture]) for picture in order[:rows]]
    taken = set(chosen)
    rest = [region for region in regions if region not in taken]
    generator.shuffle(rest)
    chosen += rest[: rows - len(chosen)]
    generator.shuffle(chosen)
    return chosen


def published_round_robin(regions: Sequence[Region], training: int, rows: int) -> list[Region]:
    """The published draw of Chest ImaGenome: labels in turn, in a new random order each turn.

    Args:
        regions: of the test.
        training: how many training rows were shuffled before with the same generator.
        rows: cap.
    """
    first = random.Random(PUBLISHED_SEED)  # noqa: S311 - the published draw
    first.shuffle(list(range(training)))
    shuffled = list(regions)
    first.shuffle(shuffled)
    if len(shuffled) <= rows:
        return shuffled
    generator = random.Random(PUBLISHED_SEED)  # noqa: S311 - the published draw
    waiting: dict[str, list[Region]] = {}
    for region in shuffled:
        waiting.setdefault(region.label, []).append(region)
    for left in waiting.values():
        generator.shuffle(left)
    used: set[str] = set()
    chosen: list[Region] = []
    while len(chosen) < rows:
        labels = list(waiting)
        generator.shuffle(labels)
        for label in labels:
            if len(chosen) == rows:
                break
            chosen.append(_next(waiting, label, used))
    generator.shuffle(chosen)
    return chosen
