"""Recipe ``vindr_mammo``: mammograms with radiologists' boxes, from DICOM or from a third party's resized PNG files.

The two have tables of their own, whose boxes fit their own pictures only. ``release`` takes the PNG files where it
finds them, as the published program does; ``corrected`` the official DICOM.

Names of tables and columns are the formats that this recipe reads, so they stand here; what can differ between copies
or is a choice (folders, texts, caps) comes from the manifest.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from medheb.build.closed_tables import Fault, Row, refuse_rows, rows_of
from medheb.build.inventory import BuiltFile
from medheb.build.output import Output
from medheb.build.recipe import Recipe, Unit
from medheb.build.source import Source
from medheb.build.splits import split_word
from medheb.build.vindr import SPLITS, Mark, build_picture, picture_units, sound_names, write_test_rows
from medheb.core.errors import MedhebError
from medheb.imaging.radiograph_dicom import SIDES, VIEWS
from medheb.manifest.base import RelativePath, Strict

COLUMNS = ("image_id", "finding_categories", "split")
LATERALITY, VIEW = "laterality", "view_position"  # in both tables, where they have them
MAX_LIST = 1000
TRAINING = "training"


class Options(Strict):
    """Settings of this source.

    Args:
        pictures: folder of the PNG files, in the third party's copy and in the layout.
        no_finding: category that marks nothing.
        labels: all other categories.
        test_rows: cap of the test.
    """

    pictures: RelativePath
    no_finding: str
    labels: tuple[str, ...]
    test_rows: int = 1000


@dataclass(frozen=True)
class Variant:
    """A table, its corner columns, and the pictures that its boxes fit."""

    table: str
    corners: tuple[str, ...]
    folder_column: str
    pictures: str
    suffix: str


def _variants(source: Source, options: Options) -> list[Variant]:
    plain = ("xmin", "ymin", "xmax", "ymax")
    official = Variant("finding_annotations.csv", plain, "study_id", "images", ".dicom")
    resized = tuple(f"resized_{name}" for name in plain)
    third_party = Variant("vindr_detection_v1_folds.csv", resized, "patient_id", options.pictures, ".png")
    return [third_party, official] if source.release else [official, third_party]


def _found(source: Source, options: Options) -> tuple[Path, Variant]:
    variants = _variants(source, options)
    root = source.folder_with(*(variant.table for variant in variants))
    for variant in variants:
        if (root / variant.table).is_file() and (root / variant.pictures).is_dir():
            return root, variant
    wanted = " or ".join(f"{variant.table} with {variant.pictures}" for variant in variants)
    raise MedhebError(source.dataset.id, f"has a table without its pictures; wanted: {wanted}", "Give the whole folder")


def _categories(row: Row, faults: list[Fault]) -> list[str]:
    """The list that the table holds as text. No code runs: only a literal is read."""
    text = row.cells["finding_categories"]
    try:
        value = ast.literal_eval(text) if len(text) <= MAX_LIST else None
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        value = None
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        faults.append(row.fault("has finding categories that are no list of texts"))
        return []
    return [item.strip() for item in value]


def _split(row: Row, release: bool, faults: list[Fault]) -> str | None:
    """``training`` is train and, as published, anything else test; ``corrected`` wants one of the two words."""
    text = row.cells["split"]
    if release:
        return "train" if text == TRAINING else "test"
    word = split_word(text)
    if word not in SPLITS:
        faults.append(row.fault("has a split that is neither training nor test"))
        return None
    return word


def units(source: Source) -> Sequence[Unit]:
    """One unit a picture with boxes. A box with several categories counts for each of them."""
    options = source.options(Options)
    root, variant = _found(source, options)
    faults: list[Fault] = []
    marks = []
    columns = (*COLUMNS, *variant.corners, variant.folder_column)
    for row in rows_of(root / variant.table, columns, faults, optional=(LATERALITY, VIEW)):
        if not row.cells[variant.corners[0]]:
            continue
        labels = [label for label in _categories(row, faults) if label != options.no_finding]
        split = _split(row, source.release, faults) if labels else None
        picture, folder = row.cells["image_id"].removesuffix(".png"), row.cells[variant.folder_column]
        if split is None or not sound_names(row, [picture, folder], faults):
            continue
        corners = tuple(row.cells[name] for name in variant.corners)
        side = SIDES.get(row.cells.get(LATERALITY, "").upper())
        view = row.cells.get(VIEW, "").upper()
        about = (side, view if view in VIEWS else None)
        marks += [Mark(row, picture, folder, split, folder, label, corners, *about) for label in dict.fromkeys(labels)]
    pictures = root / variant.pictures
    folders = dict.fromkeys(SPLITS, (pictures, variant.suffix))
    return picture_units(source, marks, folders, options.pictures, options.labels, faults)


def build(source: Source, unit: Unit, out: Output) -> None:
    """A picture and its crops."""
    if not refuse_rows(unit, out):
        build_picture(source, unit, out)


def finish(source: Source, files: Sequence[BuiltFile], out: Output) -> None:
    """The lists of train and test rows."""
    write_test_rows(source, files, out, source.options(Options).test_rows)


RECIPE = Recipe(build, units, finish)
