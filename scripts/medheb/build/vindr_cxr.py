"""Recipe ``vindr_cxr``: chest X-rays with radiologists' boxes, from DICOM or from a third party's PNG files.

``release`` takes the PNG files where it finds them, as the published program does; ``corrected`` the official DICOM.

Names of tables and columns are the formats that this recipe reads, so they stand here; what can differ between copies
or is a choice (folders, texts, caps) comes from the manifest.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from medheb.build.closed_tables import Fault, refuse_rows, rows_of
from medheb.build.inventory import BuiltFile
from medheb.build.output import Output
from medheb.build.recipe import Recipe, Unit
from medheb.build.source import Source
from medheb.build.vindr import Mark, build_picture, picture_units, sound_names, write_test_rows
from medheb.core.errors import MedhebError
from medheb.manifest.base import RelativePath, Strict

COLUMNS = ("image_id", "class_name")
CORNERS = ("x_min", "y_min", "x_max", "y_max")
TABLES = {"train": "annotations_train.csv", "test": "annotations_test.csv"}
TABLE_FOLDERS = ("annotations", ".")


class Options(Strict):
    """Settings of this source.

    Args:
        pictures: folder of the third party's PNG files, in the source and in the layout; ``{split}`` in it.
        no_finding: text of rows that mark nothing.
        labels: all findings that boxes may have.
        test_rows: cap of the test.
    """

    pictures: RelativePath
    no_finding: str
    labels: tuple[str, ...]
    test_rows: int = 1000


def _pictures(source: Source, root: Path, options: Options) -> dict[str, tuple[Path, str]]:
    """Folder and suffix of each split's pictures; only splits that are there."""
    found: dict[str, tuple[Path, str]] = {}
    for split in TABLES:
        kinds = [(root / options.pictures.replace("{split}", split), ".png"), (root / split, ".dicom")]
        for folder, suffix in kinds if source.release else reversed(kinds):
            if folder.is_dir():
                found[split] = (folder, suffix)
                break
    if not found:
        raise MedhebError(
            source.dataset.id,
            f"has neither folders train and test with DICOM files nor {options.pictures}",
            "Give the folder that holds tables and pictures",
        )
    return found


def _marks(root: Path, options: Options, faults: list[Fault]) -> list[Mark]:
    """Boxes of train, then of test, in file order."""
    marks = []
    for split, name in TABLES.items():
        path = next((root / folder / name for folder in TABLE_FOLDERS if (root / folder / name).is_file()), None)
        if path is None:
            continue
        for row in rows_of(path, (*COLUMNS, *CORNERS), faults):
            picture, label = row.cells["image_id"], row.cells["class_name"]
            if label == options.no_finding or not row.cells[CORNERS[0]]:
                continue
            if sound_names(row, [picture], faults):
                corners = tuple(row.cells[name] for name in CORNERS)
                # No patient is known of these pictures: each is its own group.
                marks.append(Mark(row, picture, "", split, picture, label, corners))
    return marks


def units(source: Source) -> Sequence[Unit]:
    """One unit a picture with boxes."""
    options = source.options(Options)
    root = source.folder_with(*(f"{folder}/{name}" for folder in TABLE_FOLDERS for name in TABLES.values()))
    faults: list[Fault] = []
    marks = _marks(root, options, faults)
    folders = _pictures(source, root, options)
    return picture_units(source, marks, folders, options.pictures, options.labels, faults)


def build(source: Source, unit: Unit, out: Output) -> None:
    """A picture and its crops."""
    if not refuse_rows(unit, out):
        build_picture(source, unit, out)


def finish(source: Source, files: Sequence[BuiltFile], out: Output) -> None:
    """The lists of train and test rows."""
    write_test_rows(source, files, out, source.options(Options).test_rows)


RECIPE = Recipe(build, units, finish)
