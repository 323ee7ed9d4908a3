"""Recipe ``kvasir_seg_crops``: endoscopy pictures of Kvasir-SEG and the largest polyp of each, cut out.

Written: ``images/<split>_<id>.png`` and ``images/<split>_<id>_polyp.png``, split 700 to 300 by the published list.

* ``release``: RGB; boxes without a corner are passed over; the largest box is taken before it is cut to the picture;
  no least size. Without the published list there is nothing to build.
* ``corrected``: boxes that are no boxes are refused; the largest part inside the picture is taken and grows to at least
  28 pixels; without the list the split is drawn 7:3 by a hash of the picture's id, which the inventory notes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import Field

from medheb.build.closed_tables import Fault, refuse_rows, unit_of_faults
from medheb.build.inventory import BuiltFile
from medheb.build.output import Output
from medheb.build.recipe import Recipe, Unit
from medheb.build.source import Source
from medheb.build.splits import NOT_PUBLISHED, drawn_split, write_selections
from medheb.build.tables import read_json_file, read_table
from medheb.build.unusual import done, note_unusual, unusual
from medheb.core.errors import MedhebError
from medheb.imaging.boxes import LEAST_SIDE, PixelBox, cut, grow, largest, published_clamp, read_corners, sound_box
from medheb.imaging.picture_modes import Modes
from medheb.imaging.pictures import read_picture
from medheb.manifest.base import RelativePath, Strict

CORNERS = ("xmin", "ymin", "xmax", "ymax")
PICTURES_A_UNIT = 100
GET_LIST = "Fetch the source again, or lay the published list beside the pictures"


class Options(Strict):
    """``recipe.options``.

    Args:
        boxes: names of the box file; the archive's own spelling and others that are in use.
        pictures: folder of the pictures beside it.
        split_list: the published list, beside the box file or in a folder above it.
        label: text of the region.
        least_side: of a crop, in pixels.
    """

    boxes: tuple[RelativePath, ...] = Field(min_length=1)
    pictures: RelativePath = "images"
    split_list: RelativePath = "split.csv"
    label: str = "polyp"
    least_side: int = Field(default=LEAST_SIDE, ge=1)


@dataclass(frozen=True)
class Download:
    """The unpacked archive and the list."""

    source: Source
    options: Options
    faults: list[Fault] = field(default_factory=list)

    @cached_property
    def root(self) -> Path:
        """Folder that holds the box file."""
        return self.boxes.parent

    @cached_property
    def boxes(self) -> Path:
        """The box file."""
        return self.source.find(*self.options.boxes)

    @cached_property
    def split_list(self) -> Path | None:
        """The published list, None if it is not at hand."""
        places = (self.root, self.root.parent, self.source.files)
        return next((place / self.options.split_list for place in places if self._is_list(place)), None)

    def _is_list(self, place: Path) -> bool:
        return (place / self.options.split_list).is_file()

    @cached_property
    def splits(self) -> dict[str, str | MedhebError]:
        """Id to the split of the published list, or to what is wrong with its line; lines without an id in ``faults``.

        Raises:
            MedhebError: the list cannot be read.
        """
        found: dict[str, str | MedhebError] = {}
        columns = ["split", "original_image_path"]
        for row in read_table(self.split_list, columns, self.faults) if self.split_list else []:
            name = Path(row.cells["original_image_path"]).stem
            split = row.cells["split"].lower()
            if name in found:
                found[name] = MedhebError(row.where, "lists a picture a second time", "Remove one of the lines")
            elif split not in {"train", "test"}:
                found[name] = MedhebError(row.where, "has a split that is neither train nor test", "Write one of them")
            else:
                found[name] = split
        return found


def units(source: Source) -> Sequence[Unit]:
    """Blocks of pictures in the order of their ids.

    Raises:
        MedhebError: no box file, one that is not a table of ids, a damaged list, or for ``release`` none.
    """
    options = source.options(Options)
    download = Download(source, options)
    if source.release and download.split_list is None:
        raise MedhebError(download.root, f"has no {options.split_list}, without which nothing was published", GET_LIST)
    content = read_json_file(download.boxes)
    if not isinstance(content, dict):
        raise MedhebError(download.boxes, "is no table of picture ids", "Get the publisher's own file")
    _ = download.splits
    names = sorted(content)
    blocks = [names[start : start + PICTURES_A_UNIT] for start in range(0, len(names), PICTURES_A_UNIT)]
    found = [Unit(f"pictures from {block[0]}", {name: content[name] for name in block}) for block in blocks]
    return [*found, *unit_of_faults(download.faults)]


def _boxes(entry: object, where: str, out: Output) -> list[PixelBox]:
    """The boxes of a picture; those without a corner are refused one by one.

    Raises:
        MedhebError: the entry is no list of boxes, or an empty one.
    """
    listed = entry.get("bbox") if isinstance(entry, Mapping) else None
    if not isinstance(listed, list):
        raise MedhebError(where, "has no list 'bbox'", "Get the publisher's own file")
    if not listed:
        raise MedhebError(where, "has no box", "Check it against its mask")
    found = []
    for number, box in enumerate(listed):
        at = f"{where}, box {number}"
        corners: Any = [box.get(name) for name in CORNERS] if isinstance(box, Mapping) else [None] * 4
        try:
            found.append(read_corners(corners, at))
        except MedhebError as error:
            out.refuse(error)
    return found


def _crop(boxes: Sequence[PixelBox], size: tuple[int, int], download: Download, where: str, out: Output) -> PixelBox:
    """Box of the crop.

    Raises:
        MedhebError: no box has a pixel in the picture.
    """
    if download.source.release:
        best = largest(boxes)
        inside = None if best is None else published_clamp(best, size)
    else:
        sound = []
        for box in boxes:
            try:
                sound.append(sound_box(box, size, where))
            except MedhebError as error:
                out.refuse(error)
        best = largest(sound)
        inside = None if best is None else grow(best, size, download.options.least_side)
    if inside is None:
        raise MedhebError(where, "has no box with a pixel in the picture", "Check it against its mask")
    return inside


def build(source: Source, unit: Unit, out: Output) -> None:
    """Pictures and crops of a block."""
    if refuse_rows(unit, out):
        return
    options = source.options(Options)
    download = Download(source, options)
    if download.split_list is None:
        out.note(NOT_PUBLISHED)
    for name, entry in unit.data.items():
        try:
            _pair(download, name, entry, out)
        except MedhebError as error:
            out.refuse(error)


def _split(download: Download, name: str, where: str) -> str:
    if download.split_list is None:
        return drawn_split(download.source.seed, download.source.dataset.id, name)
    split = download.splits.get(name)
    if split is None:
        raise MedhebError(where, f"is not in {download.split_list.name}", GET_LIST)
    if isinstance(split, MedhebError):
        raise split
    return split


def _pair(download: Download, name: str, entry: object, out: Output) -> None:
    options, release = download.options, download.source.release
    where = f"{download.boxes}, {name}"
    split = _split(download, name, where)
    boxes = _boxes(entry, where, out)
    path = download.root / options.pictures / f"{name}.jpg"
    # Boxes are in stored pixels, so the picture is never turned.
    modes = Modes.PLAIN_RGB if release else Modes.COLOUR
    decoded = read_picture(path, modes=modes, orientation="keep")
    image = decoded.image
    crop = _crop(boxes, image.size, download, where, out)
    facts = {
        "case": name,
        "group": name,
        "label": options.label,
        "split": split,
        "member": f"{options.pictures}/{name}.jpg",
    }
    stem = f"images/{split}_{name}"
    out.picture(f"{stem}.png", image, kind="picture", transform=done(decoded), unusual=unusual(decoded), **facts)
    transform = "crop " + ",".join(map(str, crop))
    out.picture(f"{stem}_{options.label}.png", cut(image, crop), kind="crop", transform=transform, **facts)


def finish(source: Source, files: Sequence[BuiltFile], out: Output) -> None:
    """The pictures and crops of each split."""
    write_selections(files, out, ["picture", "crop"])
    note_unusual(files, out)


RECIPE = Recipe(build, units, finish)
