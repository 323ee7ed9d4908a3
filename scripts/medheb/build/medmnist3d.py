"""Recipe ``medmnist3d``: every slice of the 64-voxel volumes of Organ-, Nodule- and SynapseMNIST3D.

Written: ``{train,test}_slides/sample_00000/slice_00.png`` and ``{train,val,test}_labels.csv``, as the published script
does; validation volumes are not sliced. Real archives hold 8-bit values, so both protocols give the same pictures of
them; they differ for other types and for blank volumes (see :mod:`medheb.build.stacks`).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from pydantic import Field

from medheb.build.inventory import BuiltFile
from medheb.build.output import Output
from medheb.build.recipe import Recipe, Unit
from medheb.build.source import Source
from medheb.build.stacks import NO_TURN, grey_stack, in_slots
from medheb.core.errors import MedhebError
from medheb.imaging.arrays import open_npz
from medheb.imaging.sampling import up_to_indices
from medheb.imaging.stored import StoredSlices
from medheb.imaging.volume import Array
from medheb.manifest.base import Strict

MOST_SLICES = 64
SAMPLES_A_UNIT = 100
ALL_SPLITS = ("train", "val", "test")
DOWNLOAD_ENDING = "?download=1"  # browsers and plain clients keep it in the name
LABELS = "labels"


class Options(Strict):
    """``recipe.options``.

    Args:
        archive: name of the NumPy archive.
        labels: text of each class, by number.
        splits: which parts are sliced.
    """

    archive: str
    labels: tuple[str, ...] = Field(min_length=2)
    splits: tuple[str, ...] = ("train", "test")


def _archive(source: Source) -> Path:
    name = source.options(Options).archive
    return source.find(name, name + DOWNLOAD_ENDING)


def _volumes(arrays: dict[str, StoredSlices], split: str, path: Path) -> StoredSlices | None:
    """The volumes of one part, ``None`` where the archive has none.

    Raises:
        MedhebError: they are not volumes, or there are labels for another number of them.
    """
    images, labels = arrays.get(f"{split}_images"), arrays.get(f"{split}_labels")
    if images is None:
        return None
    if len(images.shape) != 4:
        raise MedhebError(
            images.where, f"has shape {images.shape}, not volumes x slices x rows x columns", "Take the 3D archive"
        )
    if labels is not None and labels.count != images.count:
        raise MedhebError(
            path, f"holds {images.count} volumes but {labels.count} labels of {split}", "Get an undamaged copy"
        )
    return images


def units(source: Source) -> Sequence[Unit]:
    """Blocks of volumes, and the label tables."""
    path = _archive(source)
    arrays = open_npz(path)
    found = [Unit(LABELS, os.fspath(path))]
    for split in source.options(Options).splits:
        images = _volumes(arrays, split, path)
        for start in range(0, images.count if images else 0, SAMPLES_A_UNIT):
            found.append(Unit(f"{split} from {start:05d}", (os.fspath(path), split, start)))
    return found


def _numbers(labels: StoredSlices | None) -> list[int]:
    """Class numbers of one part; one-dimensional arrays and those of one column are alike."""
    if labels is None:
        return []
    values = np.asarray(labels.array())
    if values.size != labels.count or values.dtype.kind not in "iu":
        raise MedhebError(
            labels.where,
            f"has shape {values.shape} of {values.dtype}, not one class number a volume",
            "Get an undamaged copy",
        )
    return [int(value) for value in values.reshape(-1)]


def build(source: Source, unit: Unit, out: Output) -> None:
    """One block of volumes, or the label tables.

    Raises:
        MedhebError: the archive is damaged from its first wanted volume on.
    """
    if unit.name == LABELS:
        _write_labels(open_npz(Path(unit.data)), out)
        return
    path, split, start = Path(unit.data[0]), str(unit.data[1]), int(unit.data[2])
    arrays = open_npz(path)
    images = arrays[f"{split}_images"]
    numbers = _numbers(arrays.get(f"{split}_labels"))
    texts = source.options(Options).labels
    wanted = range(start, min(start + SAMPLES_A_UNIT, images.count))
    try:
        for index, volume in images.slices(wanted):
            member = f"{split}_images[{index}]"
            label = texts[numbers[index]] if numbers and 0 <= numbers[index] < len(texts) else None
            if numbers and label is None:
                fault = f"has class {numbers[index]}, which has no name"
                # The published script asks for no name.
                lost = "label" if source.release else None
                out.refuse(MedhebError(f"{path}: {member}", fault, "Mend recipe.options.labels"), lost)
                if lost is None:
                    continue
            _write_volume(source, out, volume, f"{path}: {member}", (split, index, label))
    except MedhebError as error:  # the volumes before the damage are whole
        out.refuse(error)


def _write_volume(source: Source, out: Output, volume: Array, where: str, what: tuple[str, int, str | None]) -> None:
    split, index, label = what
    case = f"{split}_slides/sample_{index:05d}"
    indices = up_to_indices(len(volume), MOST_SLICES)
    try:
        grey = grey_stack(volume, indices, source.release, where)
    except MedhebError as error:
        out.refuse(error)
        return
    for slot, number, picture in in_slots(grey, indices):
        out.picture(
            f"{case}/slice_{slot:02d}.png",
            picture,
            kind="slice",
            case=case,
            group=case,
            label=label,
            split=split,
            member=f"{split}_images[{index}]",
            modality=source.dataset.modality[0],
            slice=number,
            slices=len(volume),
            window=grey.window,
            transform=NO_TURN,
        )


def _write_labels(arrays: dict[str, StoredSlices], out: Output) -> None:
    """``<split>_labels.csv`` as the published script writes them, validation included."""
    for split in ALL_SPLITS:
        labels = arrays.get(f"{split}_labels")
        if labels is not None:
            rows = (f"{index},{number}" for index, number in enumerate(_numbers(labels)))
            out.lines(f"{split}_labels.csv", ("sample_index,label_index", *rows), kind="labels", split=split)


def finish(_: Source, files: Sequence[BuiltFile], out: Output) -> None:
    """The cases of each part as a list, and what is thin."""
    cases = {str(file.facts["case"]): file.facts for file in files if file.facts.get("kind") == "slice"}
    for split in sorted({str(facts["split"]) for facts in cases.values()}):
        names = [case.split("/")[1] for case, facts in cases.items() if facts["split"] == split]
        out.lines(f"selection/{split}.txt", names, kind="selection", split=split)
    for few in sorted({int(facts["slices"] or 0) for facts in cases.values()} - {MOST_SLICES}):
        count = sum(facts["slices"] == few for facts in cases.values())
        out.note(f"volumes with {few} slices instead of {MOST_SLICES}: {count}")


RECIPE = Recipe(build, units, finish)
