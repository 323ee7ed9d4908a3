"""What VinDr-CXR and VinDr-Mammo have in common: tables of readers' boxes become crops, one set a picture and finding.

``release`` (finding 35 and errata 12): boxes in the order of the tables, corners as they are, the last row of a
picture decides its split, and pictures keep their pixel format. ``corrected``: boxes sorted before they are united,
boxes put in order or refused, a picture in two splits refused, 8 bit pictures, test rows by a keyed hash.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from medheb.build.closed_tables import MEND_ROW, Fault, Row, unit_of_faults
from medheb.build.inventory import BuiltFile
from medheb.build.output import Output
from medheb.build.recipe import Unit
from medheb.build.selection import in_keyed_order, one_per_picture, published_one_per_picture, regions_of
from medheb.build.source import Source
from medheb.build.xrays import ReaderBox, read_xray, united_boxes, write_crop, write_xray
from medheb.core.errors import MedhebError

NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]*")
SPLITS = ("train", "test")


@dataclass(frozen=True)
class Mark:
    """A reader's box for one finding.

    Args:
        row: of the table.
        picture: its name there, without suffix.
        folder: between the picture folder and the file, empty if there is none.
        split: ``train`` or ``test``.
        group: patient or picture, the unit of splitting.
        label: the finding.
        corners: x1, y1, x2, y2 as the table has them.
        laterality: of the picture, where the table says it; it is trusted more than the header.
        view: likewise.
    """

    row: Row
    picture: str
    folder: str
    split: str
    group: str
    label: str
    corners: tuple[str, ...]
    laterality: str | None = None
    view: str | None = None


@dataclass(frozen=True)
class PictureUnit:
    """A picture with its boxes by finding, as a worker gets it."""

    picture: str
    target: str
    original: Path
    split: str
    group: str
    findings: tuple[tuple[str, int, tuple[ReaderBox, ...]], ...]
    laterality: str | None = None
    view: str | None = None


def sound_names(row: Row, names: Iterable[str], faults: list[Fault]) -> bool:
    """Whether the names of a row can be parts of a path; puts the row aside if not."""
    if all(NAME.fullmatch(name) for name in names):
        return True
    faults.append(
        row.fault("has a name that cannot be a file's: letters, digits, dot, dash and underscore are allowed")
    )
    return False


def numbers_of(labels: Iterable[str], vocabulary: Sequence[str], release: bool) -> dict[str, int]:
    """Number of each finding in file names: its place among the sorted ones, found (published) or of the vocabulary."""
    return {label: number for number, label in enumerate(sorted(set(labels if release else vocabulary)))}


def known_labels(marks: Iterable[Mark], vocabulary: Sequence[str], release: bool, faults: list[Fault]) -> list[Mark]:
    """Marks whose finding is in the vocabulary; ``release`` takes every text, as the published programs do."""
    if release:
        return list(marks)
    known = []
    for mark in marks:
        if mark.label in vocabulary:
            known.append(mark)
        else:
            faults.append(
                mark.row.fault("has a finding outside the vocabulary", "Mend it, or add it to options.labels")
            )
    return known


def _placed(marks: Sequence[Mark], release: bool, faults: list[Fault]) -> dict[str, Mark]:
    """The mark of each picture that decides its place and split: the last one. ``corrected`` takes no contradiction."""
    last = {mark.picture: mark for mark in marks}
    if release:
        return last
    places: dict[str, set[tuple[str, str]]] = {}
    for mark in marks:
        places.setdefault(mark.picture, set()).add((mark.split, mark.folder))
    for picture in [picture for picture, found in places.items() if len(found) > 1]:
        faults.append(last[picture].row.fault("has a picture that other rows put into another split or folder"))
        del last[picture]
    return last


def picture_units(
    source: Source,
    marks: Sequence[Mark],
    folders: Mapping[str, tuple[Path, str]],
    target: str,
    vocabulary: Sequence[str],
    faults: list[Fault],
) -> list[Unit]:
    """A unit for each picture with boxes, and one for the rows that cannot be used.

    Args:
        source: for its protocol.
        marks: all boxes, in the order of the tables.
        folders: of each split that is there, folder and suffix of its pictures.
        target: folder of the pictures below the image folder; ``{split}`` is replaced.
        vocabulary: allowed findings.
        faults: rows that were put aside so far.
    """
    marks = known_labels(marks, vocabulary, source.release, faults)
    numbers = numbers_of((mark.label for mark in marks), vocabulary, source.release)
    boxes: dict[str, dict[str, list[ReaderBox]]] = {}
    for mark in marks:
        box = ReaderBox(mark.row.where, mark.corners)
        boxes.setdefault(mark.picture, {}).setdefault(mark.label, []).append(box)
    units = []
    absent: Counter[str] = Counter()
    for picture, mark in _placed(marks, source.release, faults).items():
        if mark.split not in folders:
            absent[mark.split] += 1
            continue
        folder, suffix = folders[mark.split]
        inner = f"{mark.folder}/{picture}" if mark.folder else picture
        findings = tuple((label, numbers[label], tuple(found)) for label, found in sorted(boxes[picture].items()))
        path = f"{target.replace('{split}', mark.split)}/{inner}.png"
        original, sides = folder / f"{inner}{suffix}", (mark.laterality, mark.view)
        units.append(Unit(picture, PictureUnit(picture, path, original, mark.split, mark.group, findings, *sides)))
    if absent:
        units.append(Unit("splits without pictures", dict(sorted(absent.items()))))
    return [*units, *unit_of_faults(faults)]


def build_picture(source: Source, unit: Unit, out: Output) -> None:
    """Write one picture and its crops, ``crop/<picture>_<number of the finding>_<k>.png``.

    Raises:
        MedhebError: the picture cannot be read, or none of its boxes can be used.
    """
    if isinstance(unit.data, dict):
        for split, count in unit.data.items():
            out.count(f"pictures of split {split} left out: the folder has no pictures of that split", count)
        return
    data: PictureUnit = unit.data
    xray = read_xray(data.original, source.release)
    common = {
        "case": data.picture,
        "split": data.split,
        "group": data.group,
        "picture": data.target,
        "laterality": data.laterality or xray.facts.get("laterality"),
        "view": data.view or xray.facts.get("view"),
    }
    for label, number, boxes in data.findings:
        united = united_boxes(boxes, xray.image.size, source.release, out)
        member = "; ".join(box.where for box in boxes)
        for place, box in enumerate(united):
            path = f"crop/{data.picture}_{number}_{place}.png"
            write_crop(
                out,
                path,
                xray.image,
                box,
                label=label,
                number=place,
                class_id=number,
                member=member,
                **common,
            )
    if not out.files:
        raise MedhebError(unit.name, "has no box that can be used", MEND_ROW)
    labels = " | ".join(sorted({str(file.facts["label"]) for file in out.files.values()}))
    origin = "/".join(data.original.parts[-2:])
    write_xray(out, data.target, xray, kind="xray", label=labels, member=origin, **common)
    for note in xray.notes:
        out.count(f"pictures: {note}")


def write_test_rows(source: Source, files: Sequence[BuiltFile], out: Output, rows: int) -> None:
    """Write ``selection/{train,test}.jsonl``, a picture, text and crops a line, and ``selection/labels.csv``.

    The published draw of the test starts from an order that a pool's timing decides (finding 35), so ``release``
    repeats the draw from the order of the names: the same rule, not the same rows.
    """
    for split in SPLITS:
        regions = regions_of(files, split)
        if split == "test":
            if source.release:
                regions = published_one_per_picture(regions, rows)
            else:
                ordered = in_keyed_order(regions, lambda region: region.name, source.seed, source.dataset.id)
                regions = one_per_picture(ordered, rows)
        if regions:
            out.records(f"selection/{split}.jsonl", (region.row() for region in regions), kind="selection", split=split)
    labels = {(file.facts["class_id"], file.facts["label"]) for file in files if "class_id" in file.facts}
    lines = [f"{number},{label}" for number, label in sorted(labels, key=lambda pair: int(pair[0] or 0))]
    out.lines("selection/labels.csv", ["class_id,label", *lines], kind="selection")
    if source.release:
        out.note(
            "the published draw of test rows depends on the timing of a pool; its rule is repeated in a fixed order"
        )
