"""Recipe ``labelled_pictures``: a table of labels beside a folder of pictures.

Serves APTOS-2019, ISIC-2019 and RFMiD. No published script makes these; both protocols keep the files as they are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import Field

from medheb.build.closed_tables import Fault, refuse_rows, unit_of_faults
from medheb.build.inventory import BuiltFile, Fact
from medheb.build.kept_pictures import keep_file, read_kept
from medheb.build.output import Output
from medheb.build.recipe import Recipe, Unit
from medheb.build.rights import is_file, is_folder
from medheb.build.source import Source
from medheb.build.splits import NOT_PUBLISHED, drawn_split, write_selections
from medheb.build.tables import Row, read_table
from medheb.build.unusual import note_unusual
from medheb.core.errors import MedhebError
from medheb.manifest.base import RelativePath, Strict

BLOCK = 256
TRAIN = "train "  # before the names of its units


class Training(Strict):
    """A training part of its own, which a copy may lack."""

    table: str = Field(description="file name of its table, with the columns of the other one")
    pictures: tuple[str, ...] = Field(min_length=1, description="names of its folder of pictures, alternatives")
    folder: RelativePath = Field(description="where its pictures go, below images")


class LabelledPictures(Strict):
    """Settings of ``labelled_pictures``."""

    table: str = Field(description="file name of the table")
    pictures: tuple[str, ...] = Field(min_length=1, description="names of the folder of pictures, alternatives")
    id_column: str
    suffix: str = Field(pattern=r"^\.[a-z]+$")
    label_column: str | None = Field(default=None, description="column of a class code; null: one column a class")
    labels: dict[str, str] = Field(min_length=2, description="class code or column: label text")
    healthy_column: str | None = Field(default=None, description="column that is 0 where nothing is found")
    healthy: str | None = Field(default=None, description="label text of such a row")
    dropped: tuple[str, ...] = Field(
        default=(), description="columns of classes without a text; their rows are left out"
    )
    split: Literal["test", "drawn"]
    folder: RelativePath = Field(description="where pictures go, below images")
    training: Training | None = Field(default=None, description="null: there is none, or the split is drawn")


def _label(row: Row, options: LabelledPictures) -> str | None:
    """The row's one class; None for several, none, or one without a text.

    Raises:
        MedhebError: a class that is not in the vocabulary, or a cell that is neither 0 nor 1.
    """
    if options.label_column is not None:
        code = row.cells[options.label_column]
        if code not in options.labels:
            raise MedhebError(
                row.where,
                f"has the class {code!r}" if code else "has no class",
                f"Classes are {', '.join(options.labels)}",
            )
        return options.labels[code]
    columns = [column for column in (*options.labels, *options.dropped) if column in row.cells]
    found = [column for column in columns if _is_one(row, column)]
    if options.healthy_column is not None and not _is_one(row, options.healthy_column):
        return options.healthy if not found else None
    return options.labels.get(found[0]) if len(found) == 1 else None


def check_name(name: str, where: str) -> None:
    """Refuse an id that is more than a file name: it would reach out of the folder of pictures.

    Raises:
        MedhebError: it is empty, or holds a slash, a backslash or the parent folder.
    """
    if not name or name in {".", ".."} or any(sign in name for sign in "/\\:\0"):
        raise MedhebError(where, f"names the picture {name!r}, which is no file name", "Mend the row")


def _is_one(row: Row, column: str) -> bool:
    try:
        value = float(row.cells[column] or 0)
    except ValueError:
        value = -1.0
    if value not in {0.0, 1.0}:
        raise MedhebError(row.where, f"has a label other than 0 and 1: {column} {row.cells[column]!r}", "Mend the row")
    return value == 1.0


def units(source: Source) -> Sequence[Unit]:
    """Blocks of rows by picture name; bad rows form a unit that is refused with its reason."""
    options = source.options(LabelledPictures)
    faults: list[Fault] = []
    found = _blocks(source, options, "", faults)
    training = options.training
    if training is not None and source.folders_with(training.table):
        found += _blocks(source, options.model_copy(update=dict(training)), TRAIN, faults)
    return [*found, *unit_of_faults(faults)]


def _blocks(source: Source, options: LabelledPictures, part: str, faults: list[Fault]) -> list[Unit]:
    table = source.find(options.table)
    dropped = () if part else options.dropped  # a training part need not have the classes that are left out
    needed = [options.id_column, *([options.label_column] if options.label_column else options.labels)]
    needed += [*([options.healthy_column] if options.healthy_column else []), *dropped]
    folder = _folder(source, options)
    rows: dict[str, list[Row]] = defaultdict(list)
    for row in read_table(table, needed, faults):
        rows[row.cells[options.id_column].removesuffix(options.suffix)].append(row)
    names = sorted(rows, key=str.encode)
    return [
        Unit(f"{part}{start:06d}", (str(folder), {name: rows[name] for name in names[start : start + BLOCK]}, part))
        for start in range(0, len(names), BLOCK)
    ]


def _folder(source: Source, options: LabelledPictures) -> Path:
    """The innermost folder of that name: copies nest it twice."""
    folder = source.find(*options.pictures)
    while is_folder(folder / folder.name):
        folder /= folder.name
    return folder


def build(source: Source, unit: Unit, out: Output) -> None:
    """Keep the pictures of a block whose rows name exactly one class."""
    options = source.options(LabelledPictures)
    if refuse_rows(unit, out):
        return
    folder, rows, part = Path(unit.data[0]), unit.data[1], unit.data[2]
    for name, claims in rows.items():
        row = claims[0]
        try:
            if len(claims) > 1:
                raise MedhebError(claims[1].where, f"repeats the picture of {row.where}", "Keep one of the rows")
            check_name(name, row.where)
            label = _label(row, options)
            if label is None:
                out.count("rows that name several classes, none, or one without a text, left out")
                continue
            _keep(source, options, (part, folder / f"{name}{options.suffix}"), (label, row.where), out)
        except MedhebError as error:
            out.refuse(error)


def _keep(
    source: Source, options: LabelledPictures, place: tuple[str, Path], claim: tuple[str, str], out: Output
) -> None:
    (part, path), (label, where) = place, claim
    if not is_file(path):
        raise MedhebError(where, f"names a picture that is not there: {path.name}", "Fetch the source again")
    kept = read_kept(path)
    # Equal pictures are one group: repeats with other grades are known.
    group = kept.known.content
    split = "train" if part else "test"
    if options.split == "drawn":
        split = drawn_split(source.seed, source.dataset.id, group)
    folder = options.training.folder if part and options.training else options.folder
    facts: dict[str, Fact] = {"kind": "picture", "label": label, "split": split, "group": group, "member": path.name}
    keep_file(out, f"{folder}/{path.name}", kept, **facts)


def finish(source: Source, files: Sequence[BuiltFile], out: Output) -> None:
    """Selection lists, and counts of what was left out or contradicts itself."""
    options = source.options(LabelledPictures)
    write_selections(files, out, ["picture"])
    note_unusual(files, out)
    if options.split == "drawn":
        out.note(NOT_PUBLISHED)
    labels = defaultdict(set)
    for file in files:
        if file.facts["kind"] == "picture":
            labels[file.content].add(file.facts["label"])
    torn = sum(len(found) > 1 for found in labels.values())
    if torn:
        out.note(f"different pictures that occur with more than one label: {torn:,}")


RECIPE = Recipe(build, units, finish)
