"""Recipe ``medmnist2d``: the nine MedMNIST sets of pictures.

Written: ``output_images/{train,val,test}/<class text>/<split>_000000.png``, as the published script does, the number
being the row of its split. Pictures keep their form: rows x columns (and one channel) are grey, three channels RGB,
four RGBA.

* ``release``: other types than 8 bit wrap at 256; a class number without a text becomes the folder's name.
* ``corrected``: both are refused. MedMNIST's own files hold neither, so both protocols give the same for them.

The published script stops at ChestMNIST, whose rows have 14 numbers. Under both protocols a row with exactly one
finding goes into the folder of that class, as the paper describes. Rows with several have no single text: they go to
``several_findings/<split>``, of the kind ``several``, which no label task draws from. Rows with none are not written.
``selection/labels.csv`` has all rows with all their findings.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import Field, field_validator

from medheb.build.inventory import BuiltFile
from medheb.build.output import Output
from medheb.build.recipe import Recipe, Unit
from medheb.build.rights import is_there
from medheb.build.source import Source
from medheb.build.splits import split_word, write_selections
from medheb.core.errors import MedhebError
from medheb.imaging.arrays import open_npz
from medheb.imaging.stored import StoredSlices
from medheb.imaging.volume import Array
from medheb.manifest.base import Strict

SIZES = (28, 64, 128, 224)
Split = Literal["train", "val", "test"]
SPLITS: tuple[Split, ...] = ("train", "val", "test")
# Archives are packed, so a unit must unpack what lies before it: few units a split, each of some minutes.
UNIT_BYTES = 4 << 30
CHANNELS = (1, 3, 4)
SEVERAL = " | "
SEVERAL_FOLDER = "several_findings"
GET_AGAIN = "Delete it and fetch the source again"


class Options(Strict):
    """``recipe.options``.

    Args:
        archive: name of the archive without size and ending.
        size: pixels a side; decides which archive is read.
        labels: text of each class, by number; also the name of its folder.
        multi_label: each row has a 0 or 1 for every class.
        folder: of the pictures, below the image folder.
        splits: which parts are written.
    """

    archive: str = Field(min_length=1)
    size: Literal[28, 64, 128, 224] = 224
    labels: tuple[str, ...] = Field(default=(), description="class texts by number")
    multi_label: bool = False
    folder: str = "output_images"
    splits: tuple[Split, ...] = Field(default=SPLITS, min_length=1)

    @field_validator("labels")
    @classmethod
    def _folder_names(cls, labels: tuple[str, ...]) -> tuple[str, ...]:
        for label in labels:
            if not label.strip() or label != label.strip() or label in {".", ".."} or set(label) & set("/\\:\0"):
                raise ValueError(f"class texts that can name a folder; {label!r} cannot")
        if len(set(labels)) != len(labels):
            raise ValueError("a different text for each class")
        return labels


def _names(archive: str, size: int) -> tuple[str, ...]:
    """Names under which an archive of one size is found; some clients keep the end of the address."""
    stems = (archive, f"{archive}_28") if size == 28 else (f"{archive}_{size}",)
    return tuple(f"{stem}.npz{ending}" for stem in stems for ending in ("", "?download=1"))


def _archive(source: Source, options: Options) -> tuple[Path, int]:
    """The archive and its size: the one that the manifest asks for, else the only one that is there.

    Raises:
        MedhebError: no archive of the set, or none of the wanted size and several others.
    """
    every = [(size, name) for size in SIZES for name in _names(options.archive, size)]
    folder = source.folder_with(*(name for _, name in every))
    found = {size: folder / name for size, name in reversed(every) if is_there(folder / name)}
    if options.size in found:
        return found[options.size], options.size
    if len(found) > 1:
        raise MedhebError(
            folder,
            f"holds {options.archive} in sizes {', '.join(map(str, sorted(found)))}, but not {options.size}",
            "Set recipe.options.size in the manifest to one of them",
        )
    [(size, path)] = found.items()
    return path, size


def _member(arrays: dict[str, StoredSlices], name: str, path: Path) -> StoredSlices:
    if name not in arrays:
        raise MedhebError(path, f"holds no array {name}; it holds {', '.join(sorted(arrays))}", GET_AGAIN)
    return arrays[name]


def _rows(arrays: dict[str, StoredSlices], split: str, path: Path) -> tuple[StoredSlices, StoredSlices]:
    """Pictures and labels of one part.

    Raises:
        MedhebError: one is missing, or their numbers differ.
    """
    images, labels = (_member(arrays, f"{split}_{what}", path) for what in ("images", "labels"))
    if images.count != labels.count:
        raise MedhebError(path, f"holds {images.count} pictures but {labels.count} labels of {split}", GET_AGAIN)
    return images, labels


def units(source: Source) -> Sequence[Unit]:
    """Blocks of rows of each split.

    Raises:
        MedhebError: an array is missing: the published script writes nothing then, and neither do we.
    """
    options = source.options(Options)
    path, size = _archive(source, options)
    arrays = open_npz(path)
    for split in SPLITS:
        _rows(arrays, split, path)
    found = []
    for split in options.splits:
        images = arrays[f"{split}_images"]
        row_bytes = int(np.prod(images.shape[1:], dtype=np.int64)) * images.dtype.itemsize
        step = max(1, UNIT_BYTES // row_bytes)
        for start in range(0, images.count, step):
            stop = min(start + step, images.count)
            found.append(Unit(f"{split} from {start:06d}", (os.fspath(path), size, split, start, stop)))
    return found


def _check_form(images: StoredSlices, release: bool) -> None:
    """Refuse what is no picture, once for all rows.

    Raises:
        MedhebError: it cannot be written.
    """
    shape = images.shape[1:]
    if not (len(shape) == 2 or (len(shape) == 3 and shape[2] in CHANNELS)):
        fault = f"has shape {images.shape}: no rows of grey, RGB or RGBA pictures"
        raise MedhebError(images.where, fault, "Take the archive of pictures, not of volumes")
    if images.dtype != np.uint8 and not release:
        raise MedhebError(images.where, f"holds {images.dtype} values, not 8 bit pictures", GET_AGAIN)


def _picture(values: Array) -> Array:
    """One row as uint8 (H, W), (H, W, 3) or (H, W, 4); larger values wrap at 256, as in the published script."""
    if values.dtype != np.uint8:
        with np.errstate(invalid="ignore"):
            values = values.astype(np.uint8)
    return values[..., 0] if values.ndim == 3 and values.shape[2] == 1 else values


def _class_numbers(labels: StoredSlices, options: Options) -> Iterator[tuple[int, ...]]:
    """Numbers of the classes of each row.

    Raises:
        MedhebError: another number of labels a row than the manifest says, or values that are no labels.
    """
    values = labels.array().reshape(labels.count, -1)
    width = len(options.labels) if options.multi_label else 1
    if values.shape[1] != width or values.dtype.kind not in "iub":
        fault = f"has {values.shape[1]} labels of {labels.dtype} a row where {width} whole numbers should be"
        raise MedhebError(labels.where, fault, "Check recipe.options of the manifest: labels, multi_label")
    if not options.multi_label:
        yield from ((int(number),) for number in values[:, 0])
        return
    if not np.isin(values, (0, 1)).all():
        raise MedhebError(labels.where, "holds labels other than 0 and 1", GET_AGAIN)
    yield from (tuple(int(number) for number in np.flatnonzero(row)) for row in values)


def _text(number: int, options: Options, release: bool, where: str) -> str:
    """Text of a class.

    Raises:
        MedhebError: it has none, and this is not a ``release`` build.
    """
    if 0 <= number < len(options.labels):
        return options.labels[number]
    if not release:
        fault = f"has label {number}, outside the {len(options.labels)} classes of the set"
        raise MedhebError(where, fault, "Mend the row or the manifest's labels; the other rows are built")
    return str(number)


def build(source: Source, unit: Unit, out: Output) -> None:
    """One block of rows.

    Raises:
        MedhebError: the arrays are not pictures with labels.
    """
    options = source.options(Options)
    archive, size, split, start, stop = unit.data
    path = Path(archive)
    images, labels = _rows(open_npz(path), split, path)
    if size != options.size:
        out.note(f"pictures of {size} pixels: the folder has no archive of {options.size}, the size of the manifest")
    _check_form(images, source.release)
    classes = list(_class_numbers(labels, options))
    wanted = [row for row in range(start, stop) if classes[row]]
    if len(wanted) < stop - start:
        out.count("rows without a finding, in selection/labels.csv only", stop - start - len(wanted))
    for row, values in images.slices(wanted):
        name = f"{split}_{row:06d}"
        member = f"{path.name}: {split}_images, row {row}"
        try:
            label = SEVERAL.join(_text(number, options, source.release, member) for number in classes[row])
        except MedhebError as error:
            out.refuse(error)
            continue
        if strange := [number for number in classes[row] if not 0 <= number < len(options.labels)]:
            oddity = f"has label {strange[0]}, outside the {len(options.labels)} classes of the set"
            out.remark(member, oddity, "Built in a folder of that number, as published")
        single = len(classes[row]) == 1
        out.picture(
            f"{options.folder}/{split}/{label}/{name}.png" if single else f"{SEVERAL_FOLDER}/{split}/{name}.png",
            _picture(values),
            kind="picture" if single else "several",
            case=name,
            group=name,
            label=label,
            split=split_word(split),
            member=member,
            transform="as stored" if values.dtype == np.uint8 else "wrapped at 256",
        )


def finish(source: Source, files: Sequence[BuiltFile], out: Output) -> None:
    """The pictures of each split, and all labels of a set with several a row."""
    write_selections(files, out, ["picture", "several"])
    options = source.options(Options)
    if not options.multi_label:
        return
    path, _ = _archive(source, options)
    arrays = open_npz(path)
    written = {str(file.facts.get("case")): file.path for file in files}
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["split", "row", "labels", "picture"])
    for split in options.splits:
        numbers = _class_numbers(_rows(arrays, split, path)[1], options)
        for row, found in enumerate(numbers):
            texts = SEVERAL.join(options.labels[number] for number in found)
            writer.writerow([split_word(split), row, texts, written.get(f"{split}_{row:06d}", "")])
    out.content("selection/labels.csv", stream.getvalue().encode(), kind="labels")


RECIPE = Recipe(build, units, finish)
