"""Recipe ``mimic_cxr_lt``: rows of MIMIC-CXR-LT with exactly one label, and links to the pictures of the test.

``release``: every column of zeros and ones is a label, and the test is drawn class by class with one seed, as the
published program does (findings 7 and 41, errata 10 and 11). ``corrected``: labels are those of the manifest, the same
quota is drawn with a keyed hash, and patients of the test are no training data.

Where the folder has no pictures, the lists are made without links.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from medheb.build.closed_tables import Fault, Row, refuse_rows, rows_of, unit_of_faults
from medheb.build.mimic import PATH, MimicOptions, jpg_root, link_folders, link_picture
from medheb.build.output import Output
from medheb.build.recipe import Recipe, Unit
from medheb.build.selection import PUBLISHED_SEED, in_keyed_order
from medheb.build.source import Source
from medheb.core.errors import MedhebError

PATH_COLUMN = "path"
YES = frozenset({"True", "TRUE", "true"})
NO = frozenset({"False", "FALSE", "false"})
BLOCK = 32


class Options(MimicOptions):
    """Settings of this source.

    Args:
        test: table of the test.
        train: table of the training data, which a folder may lack.
        not_labels: columns that are no labels, whatever they hold.
        labels: columns that are labels; ``release`` finds them by their values.
        test_rows: cap of the test.
    """

    test: str
    train: str
    not_labels: tuple[str, ...]
    labels: tuple[str, ...]
    test_rows: int = 1000


@dataclass(frozen=True)
class Labelled:
    """A picture with its one label. ``path`` is as the table has it, ``picture`` below ``files``."""

    where: str
    path: str
    picture: str
    patient: str
    label: str

    def row(self) -> dict[str, str]:
        """As a line of a selection list."""
        return {"picture": self.picture, "label": self.label, "group": self.patient, "path": self.path}


@dataclass(frozen=True)
class List:
    """A selection list."""

    split: str
    rows: tuple[Labelled, ...]
    labels: tuple[str, ...]
    notes: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Pictures:
    """Some pictures of the test."""

    root: Path
    rows: tuple[Labelled, ...]


def _numbers(cells: Sequence[str]) -> list[float | None]:
    """A column as the published program reads it: truth values are 1 and 0, text is nothing."""
    if all(cell in YES | NO for cell in cells if cell):
        return [None if not cell else float(cell in YES) for cell in cells]
    numbers: list[float | None] = []
    for cell in cells:
        try:
            numbers.append(float(cell))
        except ValueError:
            numbers.append(None)
    return [None if number is None or np.isnan(number) else number for number in numbers]


def binary_columns(rows: Sequence[Row], skipped: Sequence[str]) -> dict[str, list[bool]]:
    """Columns that hold zeros and ones only, blanks and text aside, in table order; True for a one.

    Args:
        rows: of the whole table.
        skipped: columns that are not looked at.
    """
    found: dict[str, list[bool]] = {}
    for column in rows[0].cells if rows else ():
        numbers = [] if column in skipped else _numbers([row.cells[column] for row in rows])
        known = {number for number in numbers if number is not None}
        if known and known <= {0.0, 1.0}:
            found[column] = [number == 1 for number in numbers]
    return found


def _labelled(row: Row, label: str, faults: list[Fault]) -> Labelled | None:
    path = row.cells[PATH_COLUMN]
    match = PATH.fullmatch(path)
    if match is None:
        faults.append(row.fault("has a path that is none of MIMIC-CXR-JPG"))
        return None
    return Labelled(row.where, path, match[1], match[1].split("/")[1][1:], label)


def single_labels(
    rows: Sequence[Row], options: Options, release: bool, faults: list[Fault]
) -> tuple[list[Labelled], list[str]]:
    """Rows with exactly one label in file order, and all labels in column order.

    Args:
        rows: of one table.
        options: label columns.
        release: find the columns by their values.
        faults: receives rows with a label outside the vocabulary, an impossible path, or a repeated picture.

    Raises:
        MedhebError: the table lacks a label.
    """
    binary = binary_columns(rows, options.not_labels)
    labels = list(binary) if release else [name for name in (rows[0].cells if rows else ()) if name in options.labels]
    missing = [] if release else [name for name in options.labels if name not in labels]
    if missing or not labels:
        where = rows[0].where.split(",")[0] if rows else "the table of labels"
        raise MedhebError(where, f"lacks {len(missing) or 'all'} label columns", "Mend options.labels or the table")
    others = [name for name in binary if name not in labels]
    found: list[Labelled] = []
    seen: set[str] = set()
    for place, row in enumerate(rows):
        if any(binary[name][place] for name in others):
            faults.append(row.fault("has a label outside the vocabulary", "Add its column to labels or not_labels"))
            continue
        positive = [name for name in labels if name in binary and binary[name][place]]
        if len(positive) != 1:
            continue
        labelled = _labelled(row, positive[0], faults)
        if labelled is None:
            continue
        if labelled.picture in seen and not release:
            faults.append(row.fault("names a picture for the second time"))
            continue
        seen.add(labelled.picture)
        found.append(labelled)
    return found, labels


def quotas(usable: int, labels: Sequence[str], cap: int) -> dict[str, int]:
    """How many rows each label gets: equal parts of the cap, the first labels one more where it does not divide."""
    share, more = divmod(min(cap, usable), len(labels))
    return {label: share + (place < more) for place, label in enumerate(labels)}


def published_draw(rows: Sequence[Labelled], labels: Sequence[str], cap: int) -> list[Labelled]:
    """The published test: class by class with the same seed each time, then a top-up from all that is left."""
    chosen: list[Labelled] = []
    rest: list[Labelled] = []
    for label, quota in quotas(len(rows), labels, cap).items():
        of_label = [row for row in rows if row.label == label]
        # What pandas' DataFrame.sample(n, random_state=42) does.
        order = np.random.RandomState(PUBLISHED_SEED).permutation(len(of_label))[:quota]
        taken = {int(place) for place in order}
        chosen += [of_label[int(place)] for place in order]
        rest += [row for place, row in enumerate(of_label) if place not in taken]
    missing = min(cap, len(rows)) - len(chosen)
    if missing > 0:
        chosen += random.Random(PUBLISHED_SEED).sample(rest, missing)  # noqa: S311 - the published draw
    return chosen


def keyed_draw(rows: Sequence[Labelled], labels: Sequence[str], cap: int, seed: int, dataset: str) -> list[Labelled]:
    """The same quotas with a keyed hash of each picture's name, in the order of the hash."""
    ordered = in_keyed_order(rows, lambda row: row.picture, seed, dataset)
    left = quotas(len(rows), labels, cap)
    first: list[Labelled] = []
    rest: list[Labelled] = []
    for row in ordered:
        (first if left[row.label] > 0 else rest).append(row)
        left[row.label] -= 1
    chosen = set(first + rest[: min(cap, len(rows)) - len(first)])
    return [row for row in ordered if row in chosen]


def units(source: Source) -> Sequence[Unit]:
    """A unit a list, and one a block of test pictures."""
    options = source.options(Options)
    folder = source.folder_with(options.test)
    faults: list[Fault] = []
    found, labels = single_labels(list(rows_of(folder / options.test, (), faults)), options, source.release, faults)
    if source.release:
        test = published_draw(found, labels, options.test_rows)
    else:
        test = keyed_draw(found, labels, options.test_rows, source.seed, source.dataset.id)
    lists = [Unit("list test", List("test", tuple(test), tuple(labels), ()))]
    if (folder / options.train).is_file():
        lists.append(_training(source, folder / options.train, options, {row.patient for row in test}, faults))
    return [*lists, *_picture_units(source, test), *unit_of_faults(faults)]


def _training(source: Source, path: Path, options: Options, tested: set[str], faults: list[Fault]) -> Unit:
    rows, labels = single_labels(list(rows_of(path, (), faults)), options, source.release, faults)
    kept = [row for row in rows if source.release or row.patient not in tested]
    notes = (("training rows left out: their patients are in the test", len(rows) - len(kept)),)
    return Unit("list train", List("train", tuple(kept), tuple(labels), notes))


def _picture_units(source: Source, test: Sequence[Labelled]) -> list[Unit]:
    root = jpg_root(source)
    if root is None:
        return [Unit("no pictures")]
    pictures = sorted({row.picture: row for row in test}.values(), key=lambda row: row.picture)
    blocks = [tuple(pictures[first : first + BLOCK]) for first in range(0, len(pictures), BLOCK)]
    return [Unit(f"pictures {number:05d}", Pictures(root, block)) for number, block in enumerate(blocks)]


def build(source: Source, unit: Unit, out: Output) -> None:
    """A list, or some pictures."""
    if refuse_rows(unit, out):
        return
    if unit.data is None:
        out.note("no copy of MIMIC-CXR-JPG in the folder: lists of rows without pictures")
    elif isinstance(unit.data, List):
        split = unit.data.split
        out.records(f"selection/{split}.jsonl", (row.row() for row in unit.data.rows), kind="selection", split=split)
        if split == "test":
            out.lines("selection/labels.txt", unit.data.labels, kind="selection")
        for phrase, number in unit.data.notes:
            if number:
                out.count(phrase, number)
    else:
        for row in unit.data.rows:
            try:
                facts = {"case": Path(row.picture).stem, "label": row.label, "split": "test", "group": row.patient}
                link_picture(out, unit.data.root, row.picture, source.release, member=row.where, **facts)
            except MedhebError as error:
                out.refuse(error)


def links(source: Source, benchmark: Path, staging: Path) -> None:
    """Show the pictures of MIMIC-CXR in the image folder."""
    link_folders(source, staging, source.options(Options).mimic_version)


RECIPE = Recipe(build, units, links=links)
