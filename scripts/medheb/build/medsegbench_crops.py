"""Recipe ``medsegbench_crops``: pictures of a MedSegBench set, and the region of each mask cut out.

Written: ``images/<split>_00000[_<name>].png`` and ``..._<suffix>.png`` for every row whose mask is not empty; one box
around all of the mask.

* ``release``: RGB; the published programs differ among themselves, as the manifest's ``recipe.options.published`` says:
  the one for polyps leaves out the last row and column of a box and sees masks of 0 and 1 only, those for skin and
  ultrasound drop pairs whose crop is under 28 pixels. They also leave all arrays of the archive as files, in
  ``<archive>/<split>/<array>/``; so does this.
* ``corrected``: grey stays grey, any value above 0 is mask, and a crop grows to at least 28 pixels.
"""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from PIL import Image
from pydantic import Field

from medheb.build.inventory import BuiltFile, Fact
from medheb.build.output import Output
from medheb.build.recipe import Recipe, Unit
from medheb.build.source import Source
from medheb.build.splits import split_word, write_selections
from medheb.core.errors import MedhebError
from medheb.imaging.arrays import open_npz
from medheb.imaging.boxes import LEAST_SIDE, PixelBox, box_of_mask, cut, grow, published_clamp
from medheb.imaging.stored import StoredSlices
from medheb.imaging.volume import Array
from medheb.imaging.windows import Picture
from medheb.manifest.base import Strict

SPLITS = ("train", "val", "test")
GET_AGAIN = "Delete it and fetch the source again"
MEND_ROW = "Take the row out; the other rows are built"


class Published(Strict):
    """What the published program of this set does differently.

    Args:
        last_pixel: the box holds its last row and column.
        drop_below: pairs whose crop has a shorter side are dropped; 0 keeps all.
        any_mask: masks of other values than 0 and 1 are seen.
        keep_arrays: all arrays are left as files.
    """

    last_pixel: bool = True
    drop_below: int = Field(default=LEAST_SIDE, ge=0)
    any_mask: bool = True
    keep_arrays: bool = True


class Options(Strict):
    """``recipe.options``.

    Args:
        archive: name of the archive without size and ending.
        size: pixels a side; decides which archive is read.
        name: ends the names of the files, so that two sets can share a folder.
        suffix: ends the names of crops.
        label: text of the region.
        masks: arrays that can hold the masks; the first that a split has is taken.
        least_side: of a crop, in pixels.
        published: for ``release``.
    """

    archive: str = Field(min_length=1)
    size: Literal[128, 256, 512] = 512
    name: str = ""
    suffix: str = "crop"
    label: str = Field(min_length=1)
    masks: tuple[str, ...] = ("labels", "label", "label_C1", "masks", "mask")
    least_side: int = Field(default=LEAST_SIDE, ge=1)
    published: Published = Published()


def _archive(source: Source, options: Options) -> Path:
    name = f"{options.archive}_{options.size}.npz"
    return source.find(name, f"{name}?download=1")


def units(source: Source) -> Sequence[Unit]:
    """A unit a split; for ``release`` also one for each array that is left as files.

    Raises:
        MedhebError: the archive has no split with pictures.
    """
    options = source.options(Options)
    path = _archive(source, options)
    arrays = open_npz(path)
    found = [Unit(f"crops of {split}", (os.fspath(path), split)) for split in SPLITS if f"{split}_images" in arrays]
    if not found:
        raise MedhebError(path, f"holds no pictures; it holds {', '.join(sorted(arrays))}", GET_AGAIN)
    if source.release and options.published.keep_arrays:
        found += [Unit(f"array {name}", (os.fspath(path), name)) for name in arrays]
    return found


def _picture(values: Array, where: str, rounded: bool) -> Picture:
    """Grey (H, W) or colours (H, W, 3 or 4) as uint8. Fractions from 0 to 1 are stretched to 255, cut off or rounded.

    Raises:
        MedhebError: another shape or type, or fractions outside of 0 to 1.
    """
    if values.ndim == 3 and values.shape[2] == 1:
        values = values[..., 0]
    if values.ndim != 2 and not (values.ndim == 3 and values.shape[2] in {3, 4}):
        raise MedhebError(where, f"has shape {values.shape}, which is no picture", GET_AGAIN)
    if values.dtype.kind == "b":
        values = values.astype(np.uint8)
    if values.dtype.kind == "f":
        if not (values.min() >= 0 and values.max() <= 1):
            raise MedhebError(where, "holds fractions that are not from 0 to 1", MEND_ROW)
        stretched = values * values.dtype.type(255)
        values = (np.rint(stretched) if rounded else stretched).astype(np.uint8)
    if values.dtype != np.uint8:
        raise MedhebError(where, f"holds {values.dtype} values, not 8 bit pictures", GET_AGAIN)
    return values


def _mask(values: Array, where: str) -> Array:
    if values.ndim == 3 and values.shape[2] == 1:
        values = values[..., 0]
    if values.ndim != 2:
        raise MedhebError(where, f"has a mask of shape {values.shape}, not one plane", GET_AGAIN)
    return values


def _only_0_and_1(plane: Array) -> bool:
    return bool(np.isin(plane, (0, 1)).all())


def _crop(mask: Array, options: Options, release: bool) -> PixelBox | None:
    """Box of a row's crop; None for none."""
    size = (mask.shape[1], mask.shape[0])
    if not release:
        box = box_of_mask(mask)
        return None if box is None else grow(box, size, options.least_side)
    published = options.published
    if not published.any_mask and not _only_0_and_1(mask):
        return None
    box = box_of_mask(mask, published_edge=not published.last_pixel)
    box = None if box is None else published_clamp(box, size)
    return None if box is None or min(box.width, box.height) < published.drop_below else box


def build(source: Source, unit: Unit, out: Output) -> None:
    """The pictures and crops of one split, or one array as files.

    Raises:
        MedhebError: an array is missing or damaged, or pictures and masks do not belong together.
    """
    options = source.options(Options)
    path, part = Path(unit.data[0]), unit.data[1]
    arrays = open_npz(path)
    if unit.name.startswith("array "):
        _keep_array(arrays, part, options, path, out)
        return
    images, masks = arrays[f"{part}_images"], _masks_of(arrays, part, options)
    if masks is None:
        raise MedhebError(path, f"holds no masks of {part}: no {', '.join(options.masks)}", GET_AGAIN)
    if images.count != masks.count:
        raise MedhebError(path, f"holds {images.count} pictures but {masks.count} masks of {part}", GET_AGAIN)
    left_out = 0
    for (row, values), (_, plane) in zip(images.slices(), masks.slices(), strict=True):
        where = f"{images.where}, row {row}"
        try:
            picture = _picture(values, where, rounded=not source.release)
            mask = _mask(plane, f"{masks.where}, row {row}")
            if mask.shape != picture.shape[:2]:
                raise MedhebError(where, f"has shape {picture.shape} but a mask of {mask.shape}", GET_AGAIN)
        except MedhebError as error:
            out.refuse(error)
            continue
        box = _crop(mask, options, source.release)
        if box is None:
            left_out += 1
            continue
        image = Image.fromarray(picture)
        _write(out, image.convert("RGB") if source.release else image, box, options, part, row)
    if left_out:
        out.count(
            f"pictures that {'give no crop under the published rule' if source.release else 'have an empty mask'}",
            left_out,
        )


def _masks_of(arrays: Mapping[str, StoredSlices], part: str, options: Options) -> StoredSlices | None:
    return next((arrays[f"{part}_{name}"] for name in options.masks if f"{part}_{name}" in arrays), None)


def _stem(part: str, row: int, options: Options) -> str:
    """Name of a picture: it is its own group, as no archive says who the patient is."""
    return f"{part}_{row:05d}" + (f"_{options.name}" if options.name else "")


def _write(out: Output, image: Image.Image, box: PixelBox, options: Options, part: str, row: int) -> None:
    stem = _stem(part, row, options)
    facts: dict[str, Fact] = {
        "case": stem,
        "group": stem,
        "label": options.label,
        "split": split_word(part),
        "member": f"{part}_images, row {row}",
    }
    out.picture(f"images/{stem}.png", image, kind="picture", transform="as stored", **facts)
    out.picture(
        f"images/{stem}_{options.suffix}.png",
        cut(image, box),
        kind="crop",
        transform="crop " + ",".join(map(str, box)),
        **facts,
    )


def _digest(values: Array) -> bytes:
    return hashlib.sha256(f"{values.shape}{values.dtype}".encode() + np.ascontiguousarray(values).tobytes()).digest()


def _groups(arrays: Mapping[str, StoredSlices], part: str, rest: str, options: Options) -> list[str]:
    """Group of each row of an array ``<part>_<rest>``: the picture of the split that it shows.

    Rows of pictures and masks are in the split's order. Arrays of single categories or centres (``images_C1``,
    ``label_C1``) repeat some of its pictures; which, their pixels tell. A row without its like is its own group.
    """
    name = f"{part}_{rest}"
    rows, whole = range(arrays[name].count), arrays.get(f"{part}_images")
    if rest == "images" or (whole is not None and arrays[name] is _masks_of(arrays, part, options)):
        return [_stem(part, row, options) for row in rows]
    own = [f"{name}_{row:05d}" for row in rows]
    pictures = arrays.get(f"{part}_images_{rest.rpartition('_')[2]}")
    if whole is None or pictures is None or pictures.count != len(rows):
        return own
    known = {_digest(values): _stem(part, row, options) for row, values in whole.slices()}
    return [known.get(_digest(values), own[row]) for row, values in pictures.slices()]


def _keep_array(arrays: Mapping[str, StoredSlices], name: str, options: Options, path: Path, out: Output) -> None:
    """An array as the published programs leave it: planes of 0 and 1 as NumPy files, all else as pictures."""
    array = arrays[name]
    part, _, rest = name.partition("_")
    split = part if part in SPLITS and rest else None
    folder = f"{path.name.split('.')[0]}/{f'{part}/{rest}' if split else name}"
    facts: dict[str, Fact] = {"kind": "array", "label": options.label, "split": split_word(part) if split else None}
    if len(array.shape) < 3:
        out.content(f"{folder}/{name}.npy", _npy(array.array()), **facts, member=name)
        return
    groups = _groups(arrays, part, rest, options) if split else [f"{name}_{row:05d}" for row in range(array.count)]
    for row, values in array.slices():
        whose: dict[str, Fact] = {"case": groups[row], "group": groups[row], "member": f"{name}, row {row}"}
        if values.ndim == 2 and _only_0_and_1(values):
            out.content(f"{folder}/{row:05d}.npy", _npy(values), transform="as stored", **facts, **whose)
            continue
        try:
            picture = _picture(values, f"{array.where}, row {row}", rounded=False)
        except MedhebError as error:
            out.refuse(error)
            continue
        out.picture(f"{folder}/{row:05d}.png", picture, transform="as stored", **facts, **whose)


def _npy(values: Array) -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.ascontiguousarray(values), allow_pickle=False)
    return stream.getvalue()


def finish(source: Source, files: Sequence[BuiltFile], out: Output) -> None:
    """The pictures and crops of each split."""
    write_selections(files, out, ["picture", "crop"])


RECIPE = Recipe(build, units, finish)
