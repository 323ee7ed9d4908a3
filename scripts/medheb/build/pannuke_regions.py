"""Nuclei of PanNuke: a crop around each instance mask, at least 28 pixels a side.

``release``: a centre at a half pixel is rounded to even; an unknown kind of nucleus is named by its number; lists of
different length are cut to the shorter; all crops of a (picture, kind) are for training if one of them had to be
enlarged, else for the test, so that the test holds large nuclei only and a picture can be on both sides.

``corrected``: the rule book's :func:`~medheb.imaging.boxes.grow`; unknown kinds and lists of different length are
refused; a crop is on its picture's side of the split.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path, PurePath
from typing import Any, Protocol

import numpy as np
from PIL import Image
from PIL.PngImagePlugin import PngImageFile

from medheb.build.output import Output
from medheb.build.parquet_rows import picture_bytes
from medheb.build.unusual import done, unusual
from medheb.core.errors import MedhebError
from medheb.imaging.boxes import PixelBox, box_of_mask_picture, cut, grow, grow_cell
from medheb.imaging.picture_modes import Modes
from medheb.imaging.pictures import READ_ERRORS, Decoded, decode_picture

REGION_COLUMNS = frozenset({"image", "instances", "categories"})
FOLDER = "PanNuke_VG"
MEND_ROW = "Mend the row or take it out; the other rows are built"


class RegionOptions(Protocol):
    """What the crops need of the recipe's options."""

    @property
    def cell_types(self) -> tuple[str, ...]:
        """Text of each kind of nucleus, by number."""

    @property
    def least_side(self) -> int:
        """Of a crop, in pixels."""


@dataclass(frozen=True)
class Tile:
    """One row of a table.

    Args:
        tag: name of the table in paths.
        row: number in the table, from 0.
        where: table and row, for messages.
        table: the file.
    """

    tag: str
    row: int
    where: str
    table: Path

    @property
    def name(self) -> str:
        """Stem of its files."""
        return f"{self.tag}_{self.row:06d}"

    @property
    def picture(self) -> str:
        """Path of its picture below the image folder."""
        return f"{FOLDER}/images/{self.tag}/{self.name}.png"


@dataclass(frozen=True)
class Nucleus:
    """One instance: its number in the row, its kind, the box of its mask and that of its crop."""

    number: int
    kind: str
    crop: PixelBox
    enlarged: bool


def table_tag(relative: PurePath) -> str:
    """Name of a table in paths: its path below ``data`` without ending, each run of other signs one underscore."""
    return re.sub(r"_+", "_", re.sub(r"[^\w.-]+", "_", relative.with_suffix("").as_posix())).strip("_")


def _mask(content: bytes, where: str) -> Image.Image:
    """A mask picture. A row has hundreds, so the checks of other pictures are kept for those that do not load."""
    try:
        mask = PngImageFile(BytesIO(content))
        if mask.width * mask.height <= 1 << 20:
            mask.load()
            return mask
    except READ_ERRORS:
        pass
    return decode_picture(content, where, modes=Modes.AS_STORED, orientation="keep").image


def _kind(value: object, cell_types: Sequence[str], where: str, release: bool) -> str:
    number = value if isinstance(value, int) and not isinstance(value, bool) else -1
    if 0 <= number < len(cell_types):
        return cell_types[number]
    if release and number >= 0:
        return f"class_{number}"
    raise MedhebError(where, f"is of kind {value}, outside the {len(cell_types)} of the set", MEND_ROW)


def _crop(mask: Image.Image, size: tuple[int, int], least: int, release: bool) -> tuple[PixelBox, bool] | None:
    """Box of the crop and whether it was enlarged; None for an empty mask."""
    box = box_of_mask_picture(mask)
    if box is None:
        return None
    if release:
        return grow_cell(box, size, least)
    return grow(box, size, least), min(box.width, box.height) < least


def _nuclei(
    tile: Tile, size: tuple[int, int], cells: Mapping[str, Any], options: RegionOptions, release: bool, out: Output
) -> list[Nucleus]:
    """The instances that can be cut out; the others are refused one by one.

    Raises:
        MedhebError: the lists of masks and kinds differ in length, and this is no ``release`` build.
    """
    instances, kinds = cells["instances"] or [], cells["categories"] or []
    if len(instances) != len(kinds) and not release:
        raise MedhebError(tile.where, f"has {len(instances)} masks but {len(kinds)} kinds of nuclei", MEND_ROW)
    found = []
    for number, (cell, value) in enumerate(zip(instances, kinds, strict=False)):
        where = f"{tile.where}, instance {number}"
        try:
            mask = _mask(picture_bytes(cell, where, (tile.table.parent,)), where)
            if mask.size != size:
                fault = f"has a mask of {mask.width} x {mask.height} over a picture of {size[0]} x {size[1]}"
                raise MedhebError(where, fault, MEND_ROW)
            crop = _crop(mask, size, options.least_side, release)
            kind = _kind(value, options.cell_types, where, release)
        except MedhebError as error:
            out.refuse(error)
            continue
        if crop is None:
            out.count("nuclei with an empty mask, without a crop")
            continue
        found.append(Nucleus(number, kind, *crop))
    return found


def write_regions(
    out: Output,
    tile: Tile,
    decoded: Decoded,
    written: str | None,
    cells: Mapping[str, Any],
    options: RegionOptions,
    split: str | None,
) -> None:
    """The picture of a row and a crop of each nucleus.

    Args:
        out: receives them.
        tile: the row.
        decoded: its picture in RGB.
        written: path of the same picture in a class folder, if it has one.
        cells: of the row: ``instances``, ``categories``.
        options: of the recipe.
        split: of the picture; None for ``release``, where crops decide it.
    """
    facts = {"case": tile.name, "group": tile.name, "member": f"{tile.table.name}, row {tile.row}"}
    image = decoded.image
    picture_facts = {**facts, "kind": "region_picture", "split": split, "transform": done(decoded)}
    if written:
        out.again(tile.picture, written, **picture_facts)
    else:
        out.picture(tile.picture, image, unusual=unusual(decoded), **picture_facts)
    try:
        nuclei = _nuclei(tile, image.size, cells, options, split is None, out)
    except MedhebError as error:
        out.refuse(error)
        return
    enlarged: defaultdict[str, bool] = defaultdict(bool)
    for nucleus in nuclei:
        enlarged[nucleus.kind] |= nucleus.enlarged
    pixels = np.asarray(image)
    for nucleus in nuclei:
        published = "train" if enlarged[nucleus.kind] else "test"
        out.picture(
            f"{FOLDER}/crops/{tile.tag}/{tile.name}_{nucleus.kind.lower()}_{nucleus.number:03d}.png",
            cut(pixels, nucleus.crop),
            **facts,
            kind="crop",
            label=nucleus.kind,
            split=split or published,
            enlarged=nucleus.enlarged,
            transform="crop " + ",".join(map(str, nucleus.crop)),
        )
