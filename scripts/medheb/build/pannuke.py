"""Recipe ``pannuke``: tissue pictures in class folders, and nuclei cut out of them.

Written below the image folder:

* ``{train,test}_images/<tissue>/fold<N>_<row>.png`` of the three folds, split by the published list;
* ``PanNuke_VG/images/<table>/...`` and ``PanNuke_VG/crops/<table>/...`` of every table below ``data``, one crop a
  nucleus (:mod:`medheb.build.pannuke_regions`).

``release``: pixel modes as the published scripts keep them; damaged pictures are left out of the class folders but
filled for the nuclei; without the published list no class folders. ``corrected``: RGB, damaged pictures are refused,
and where the list is not at hand the split is drawn 7:3 by a hash of the picture's name, which the inventory notes.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field

from medheb.build.closed_tables import Fault, refuse_rows, unit_of_faults
from medheb.build.inventory import BuiltFile
from medheb.build.output import Output
from medheb.build.pannuke_regions import REGION_COLUMNS, Tile, table_tag, write_regions
from medheb.build.parquet_rows import RowBlock, open_table, picture_bytes, read_rows
from medheb.build.recipe import Recipe, Unit
from medheb.build.rights import files_below
from medheb.build.source import Source
from medheb.build.splits import NOT_PUBLISHED, drawn_split, split_word, write_selections
from medheb.build.tables import read_table
from medheb.build.unusual import done, note_unusual, unusual
from medheb.core.errors import MedhebError
from medheb.imaging.picture_modes import Modes
from medheb.imaging.pictures import Decoded, decode_picture
from medheb.imaging.png import MAX_16_BIT
from medheb.manifest.base import RelativePath, Strict

MEND_ROW = "Mend the row or take it out; the other rows are built"


class Options(Strict):
    """``recipe.options``.

    Args:
        folds: tables of the class folders in order; the number in a picture's name is its place here, from 1.
        data: folder of all tables.
        split_list: the published list, beside ``data`` or in it.
        tissues: folder name of each tissue, by number.
        cell_types: text of each kind of nucleus, by number.
        least_side: of a crop, in pixels.
    """

    folds: tuple[RelativePath, ...] = Field(min_length=1)
    data: RelativePath = "data"
    split_list: RelativePath = "PanNuke_split.csv"
    tissues: tuple[RelativePath, ...] = Field(min_length=2)
    cell_types: tuple[str, ...] = Field(min_length=2)
    least_side: int = Field(default=28, ge=1)


@dataclass(frozen=True)
class Layout:
    """The download, found in the source's folder."""

    source: Source
    options: Options
    faults: list[Fault] = field(default_factory=list)

    @cached_property
    def root(self) -> Path:
        """Folder that holds ``data``."""
        return self.source.folder_with(*self.options.folds)

    @cached_property
    def split_list(self) -> Path | None:
        """The published list, None if it is not at hand."""
        places = (self.root, self.root / self.options.data, self.source.files)
        found = (place / self.options.split_list for place in places)
        return next((path for path in found if path.is_file()), None)

    @property
    def has_tissues(self) -> bool:
        """Whether class folders can be made."""
        return self.split_list is not None or not self.source.release

    @cached_property
    def splits(self) -> dict[str, tuple[str, str]]:
        """Picture key to the split's word in the list (none if it stands there twice), and where it stands.

        Lines that are longer than the header go to ``faults``.

        Raises:
            MedhebError: the list cannot be read.
        """
        found: dict[str, tuple[str, str]] = {}
        for row in read_table(self.split_list, ["image_path", "split"], self.faults) if self.split_list else []:
            key = row.cells["image_path"]
            found[key] = ("" if key in found else row.cells["split"], row.where)
        return found


def units(source: Source) -> Sequence[Unit]:
    """Row groups of all tables; what is missing or damaged is a unit that says so.

    Raises:
        MedhebError: there is no table, two tables would get one name, or the published list is damaged.
    """
    layout = Layout(source, source.options(Options))
    _ = layout.splits
    data = layout.root / layout.options.data
    paths = files_below(data, ".parquet")
    tables = {table_tag(path.relative_to(data)): path for path in paths}
    if len(tables) < len(paths):
        raise MedhebError(data, "holds two tables whose names differ in blanks or signs only", "Rename one of them")
    found = []
    for tag, path in tables.items():
        try:
            blocks = open_table(path).blocks
        except MedhebError:
            found.append(Unit(tag, (os.fspath(path), None, tag)))
            continue
        for block in blocks:
            place = (block.group, block.first, block.rows)
            found.append(Unit(f"{tag} from {block.first:06d}", (os.fspath(path), place, tag)))
    for fold in layout.options.folds if layout.has_tissues else ():
        if not (layout.root / fold).exists():
            found.append(Unit(f"{fold} is missing", (os.fspath(layout.root / fold), None, "")))
    return [*found, *unit_of_faults(layout.faults)]


@dataclass(frozen=True)
class Place:
    """Where a tissue picture goes."""

    tissue: str
    name: str
    split: str

    @property
    def path(self) -> str:
        """Below the image folder."""
        return f"{self.split}_images/{self.tissue}/{self.name}"


def _tissue(value: object, tissues: Sequence[str], where: str) -> str:
    """Folder name of a tissue; numbers as text and with a fraction of 0 occur.

    Raises:
        MedhebError: no number, or outside the list.
    """
    if value is None or (isinstance(value, str) and not value.strip()):
        raise MedhebError(where, "has no tissue", MEND_ROW)
    try:
        number = float(value) if isinstance(value, (int, float, str)) else -1.0
    except ValueError:
        raise MedhebError(where, f"has tissue {str(value)[:40]!r}, which is no number", MEND_ROW) from None
    if not number.is_integer() or not 0 <= number < len(tissues):
        raise MedhebError(where, f"has tissue {value}, outside the {len(tissues)} of the set", MEND_ROW)
    return tissues[int(number)]


def _place(layout: Layout, fold: int, row: int, value: object, where: str) -> Place:
    """Where the picture of a row goes.

    Raises:
        MedhebError: no tissue, not in the list, or a word there that is no split.
    """
    tissue = _tissue(value, layout.options.tissues, where)
    name = f"fold{fold}_{row:08d}.png"
    if layout.split_list is None:
        return Place(tissue, name, drawn_split(layout.source.seed, layout.source.dataset.id, f"{tissue}/{name}"))
    # Some lists name pictures without leading zeros.
    keys = (f"{tissue}/{name}", f"{tissue}/fold{fold}_{row}.png")
    listed = next((layout.splits[key] for key in keys if key in layout.splits), None)
    if listed is None:
        raise MedhebError(where, f"is not in {layout.split_list.name} as {keys[0]}", "Get the list of this download")
    if not listed[0]:
        raise MedhebError(listed[1], f"lists {keys[0]} a second time, or without a split", "Keep one line with a split")
    split = listed[0].strip().lower()
    if split not in {"train", "test"}:
        raise MedhebError(listed[1], f"has the split {listed[0]!r}", "Write train or test")
    return Place(tissue, name, split)


def _decode(content: bytes, where: str, release: bool, regions: bool) -> Decoded:
    """A picture as its part of the source wants it. Never turned by EXIF: the masks lie over the stored pixels."""
    if not release:
        return decode_picture(content, where, modes=Modes.COLOUR, orientation="keep")
    if regions:
        return decode_picture(content, where, modes=Modes.PLAIN_RGB, orientation="keep", truncated="fill")
    return decode_picture(content, where, modes=Modes.PANNUKE, orientation="keep")


def build(source: Source, unit: Unit, out: Output) -> None:
    """The rows of one row group.

    Raises:
        MedhebError: the table is missing or damaged.
    """
    if refuse_rows(unit, out):
        return
    layout = Layout(source, source.options(Options))
    path, place, tag = Path(unit.data[0]), unit.data[1], unit.data[2]
    columns = open_table(path).columns
    block = RowBlock(path, *place)
    folds = [(layout.root / fold).resolve() for fold in layout.options.folds]
    fold = folds.index(path.resolve()) + 1 if path.resolve() in folds and "tissue" in columns else 0
    regions = columns >= REGION_COLUMNS
    if layout.split_list is None:
        name = layout.options.split_list
        out.note(f"no {name}: no class folders, only nuclei" if source.release else NOT_PUBLISHED)
    if block.first == 0 and not regions:
        lacking = ", ".join(sorted(REGION_COLUMNS - columns))
        out.refuse(MedhebError(path, f"has no column {lacking}: no nuclei of it", "Get the publisher's own table"))
    if "image" not in columns or not (regions or fold):
        return
    wanted = ["image", *(["tissue"] if fold else []), *(sorted(REGION_COLUMNS - {"image"}) if regions else [])]
    for row, cells in read_rows(block, wanted):
        where = f"{path}, row {row}"
        _row(layout, out, cells, Tile(tag, row, where, path), fold, regions)


def _row(layout: Layout, out: Output, cells: dict[str, Any], tile: Tile, fold: int, regions: bool) -> None:
    """The pictures of one row; what is wrong with one part of it leaves the other."""
    source = layout.source
    try:
        content = picture_bytes(cells["image"], tile.where, (layout.root, tile.table.parent))
    except MedhebError as error:
        out.refuse(error)
        return
    decoded: Decoded | None = None
    place: Place | None = None
    damaged = False
    if fold and layout.has_tissues:
        try:
            place = _place(layout, fold, tile.row, cells["tissue"], tile.where)
            decoded = _decode(content, tile.where, source.release, regions=False)
            _write_tissue(out, place, decoded, tile)
        except MedhebError as error:
            out.refuse(error)
            damaged = place is not None
    if not regions or (damaged and not source.release):
        return
    written = place.path if place and decoded and decoded.image.mode == "RGB" else None
    try:
        if decoded is None or decoded.image.mode != "RGB":
            decoded = _decode(content, tile.where, source.release, regions=True)
    except MedhebError as error:
        if not damaged:
            out.refuse(error)
        return
    split = place.split if place else drawn_split(source.seed, source.dataset.id, tile.picture)
    write_regions(out, tile, decoded, written, cells, layout.options, None if source.release else split)


def _write_tissue(out: Output, place: Place, decoded: Decoded, tile: Tile) -> None:
    """One picture of a class folder.

    Raises:
        MedhebError: 32-bit samples that no PNG holds.
    """
    samples = np.asarray(decoded.image) if decoded.image.mode == "I" else None
    if samples is not None and not 0 <= samples.min() <= samples.max() <= MAX_16_BIT:
        raise MedhebError(tile.where, "has samples that do not fit into 16 bits", MEND_ROW)
    out.picture(
        place.path,
        decoded.image,
        kind="picture",
        case=place.name.removesuffix(".png"),
        group=place.name.removesuffix(".png"),
        label=place.tissue,
        split=split_word(place.split),
        member=f"{tile.table.name}, row {tile.row}",
        transform=done(decoded),
        unusual=unusual(decoded),
    )


def finish(source: Source, files: Sequence[BuiltFile], out: Output) -> None:
    """The pictures and crops of each split."""
    write_selections(files, out, ["picture", "crop"])
    note_unusual(files, out)


RECIPE = Recipe(build, units, finish)
