"""Recipe ``chest_imagenome_crops``: anatomy boxes on MIMIC-CXR as crops, the gold ones for the test.

The gold pictures are the test. The scene graphs (silver) are training data and are built where the user has unpacked
them; benchmark runs do not need them.

``release``: a picture whose region fails is left out whole, of repeated boxes the last one counts, boxes are cut as
they are, and all silver pictures become training data, gold ones and those of the official test included (finding
36). ``corrected``: boxes put in order or refused one by one, and training pictures come from the official train and
valid lists without ``images_to_avoid``, gold pictures and gold patients.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from medheb.build.closed_tables import Fault, Row, refuse_rows, rows_of, unit_of_faults
from medheb.build.imagenome_silver import SceneGraph, Silver, boxes_of, read_silver
from medheb.build.inventory import BuiltFile
from medheb.build.mimic import MimicOptions, jpg_root, link_folders, link_picture, picture_path, sound_ids
from medheb.build.output import Output
from medheb.build.recipe import Recipe, Unit
from medheb.build.selection import in_keyed_order, published_round_robin, regions_of, round_robin
from medheb.build.source import Source
from medheb.build.xrays import ReaderBox, write_crop
from medheb.core.errors import MedhebError
from medheb.imaging.boxes import not_negative, read_corners, sound_box

GOLD_FOLDERS = ("gold_dataset", "gold")
BOXES = "gold_bbox_coordinate_annotations_1000images.csv"
SENTENCES = "gold_all_sentences_500pts_1000studies.txt"
CORNERS = ("original_x1", "original_y1", "original_x2", "original_y2")
BLOCK = 64


class Options(MimicOptions):
    """Settings of this source.

    Args:
        gold: folder of the test crops.
        silver: folder of the training crops.
        test_rows: cap of the test.
        training_rows: cap of all training crops; each name gets an equal part.
    """

    gold: str = "gold_crop"
    silver: str = "silver_sample_crop"
    test_rows: int = 1000
    training_rows: int = 1_000_000


@dataclass(frozen=True)
class Gold:
    """A gold picture: the copy, its path there below ``files``, its patient, and its regions in table order.

    A region is a name, the number of the name, and a box.
    """

    root: Path
    image: str
    picture: str
    patient: str
    regions: tuple[tuple[str, int, ReaderBox], ...]


@dataclass(frozen=True)
class Block:
    """Some training pictures of the copy."""

    root: Path
    graphs: tuple[SceneGraph, ...]
    numbers: dict[str, int]


def _gold_folder(source: Source) -> Path:
    found = source.folder_with(*(f"{folder}/{BOXES}" for folder in GOLD_FOLDERS))
    return next(found / folder for folder in GOLD_FOLDERS if (found / folder / BOXES).is_file())


def _image_id(text: str) -> str:
    return text.removesuffix(".dcm")


def _studies(path: Path, faults: list[Fault]) -> dict[str, tuple[str, str]]:
    """Patient and study of each gold picture: its first sentence counts."""
    found: dict[str, tuple[str, str]] = {}
    for row in rows_of(path, ("image_id", "patient_id", "study_id"), faults, quoted=False):
        image = _image_id(row.cells["image_id"])
        if image not in found:
            found[image] = (row.cells["patient_id"], row.cells["study_id"])
    return found


def _gold(source: Source, root: Path, faults: list[Fault]) -> list[Gold]:
    folder = _gold_folder(source)
    studies = _studies(folder / SENTENCES, faults)
    rows: dict[str, list[Row]] = {}
    for row in rows_of(folder / BOXES, ("image_id", "bbox_name", *CORNERS), faults):
        rows.setdefault(_image_id(row.cells["image_id"]), []).append(row)
    names = sorted({row.cells["bbox_name"] for found in rows.values() for row in found})
    numbers = {name: number for number, name in enumerate(names)}
    gold = []
    for image, found in rows.items():
        if image not in studies:
            faults.append(found[0].fault("has a picture that the table of sentences does not place"))
            continue
        patient, study = studies[image]
        if not sound_ids(found[0], [patient, study], [image], faults):
            continue
        regions = tuple(
            (name := row.cells["bbox_name"], numbers[name], ReaderBox(row.where, tuple(row.cells[c] for c in CORNERS)))
            for row in found
        )
        gold.append(Gold(root, image, picture_path(patient, study, image), patient, regions))
    return gold


def units(source: Source) -> Sequence[Unit]:
    """One unit a gold picture, and one a block of training pictures where the scene graphs are there."""
    options = source.options(Options)
    faults: list[Fault] = []
    copy = jpg_root(source)
    if copy is None:
        raise MedhebError(source.dataset.id, "finds no copy of MIMIC-CXR-JPG", "Give a folder that holds both")
    gold = _gold(source, copy, faults)
    found = [Unit(f"gold {picture.image}", picture) for picture in gold]
    root = _gold_folder(source).parent
    avoid = set() if source.release else {picture.image for picture in gold}
    patients = set() if source.release else {picture.patient for picture in gold}
    silver = read_silver(root, options.training_rows, source, avoid, patients, faults)
    if silver is not None:
        found += _blocks(copy, silver)
    return [*found, *unit_of_faults(faults)]


def _blocks(root: Path, silver: Silver) -> Iterable[Unit]:
    for first in range(0, len(silver.graphs), BLOCK):
        block = Block(root, tuple(silver.graphs[first : first + BLOCK]), silver.numbers)
        yield Unit(f"silver {first // BLOCK:05d}", block)


def build(source: Source, unit: Unit, out: Output) -> None:
    """The crops of one gold picture, or of a block of training pictures."""
    if refuse_rows(unit, out):
        return
    if isinstance(unit.data, Gold):
        _build_gold(source, unit.data, out)
    else:
        for graph in unit.data.graphs:
            _build_silver(source, unit.data, graph, out)


def _build_gold(source: Source, gold: Gold, out: Output) -> None:
    options = source.options(Options)
    regions: dict[str, tuple[int, ReaderBox]] = {}
    for name, number, box in gold.regions:
        if name in regions and not source.release:
            if box.corners != regions[name][1].corners:
                out.refuse(
                    MedhebError(box.where, "names a region for the second time, with another box", "Take one out")
                )
            continue
        regions[name] = (number, box)
    facts = {"case": gold.image, "split": "test", "group": gold.patient, "picture": gold.picture}
    labels = " | ".join(sorted(regions))
    image = link_picture(out, gold.root, gold.picture, source.release, label=labels, **facts)
    for name, (number, box) in regions.items():
        try:
            found = read_corners(box.corners, box.where)
            found = not_negative(found) if source.release else sound_box(found, image.size, box.where)
        except MedhebError as error:
            if source.release:
                raise
            out.refuse(error)
            continue
        path = f"{options.gold}/{gold.image}_{number}_0.png"
        write_crop(out, path, image, found, label=name, class_id=number, number=0, member=box.where, **facts)


def _build_silver(source: Source, block: Block, graph: SceneGraph, out: Output) -> None:
    options = source.options(Options)
    facts = {"case": graph.image, "split": graph.split, "group": graph.patient, "picture": graph.picture}
    origin = graph.path.name
    try:
        boxes = boxes_of(graph, source.release, out)
        labels = " | ".join(sorted(boxes))
        image = link_picture(out, block.root, graph.picture, source.release, label=labels, **facts)
    except MedhebError as error:
        out.refuse(error)
        return
    for name, box in sorted(boxes.items()):
        try:
            found = not_negative(box) if source.release else sound_box(box, image.size, origin)
        except MedhebError as error:
            out.refuse(error)
            continue
        number = block.numbers[name]
        path = f"{options.silver}/{graph.image}_{number}_0.png"
        write_crop(out, path, image, found, label=name, class_id=number, number=0, member=origin, **facts)


def finish(source: Source, files: Sequence[BuiltFile], out: Output) -> None:
    """Write ``selection/{train,valid,test}.jsonl``: a picture, text and crop a line.

    The published draw starts from an order that a pool's timing decides (finding 35, errata 13), so ``release``
    repeats the draw from the order of the names: the same rule, not the same rows.
    """
    options = source.options(Options)
    test = regions_of(files, "test")
    if source.release:
        test = published_round_robin(test, len(regions_of(files, "train")), options.test_rows)
        out.note(
            "the published draw of test rows depends on the timing of a pool; its rule is repeated in a fixed order"
        )
    else:
        ordered = in_keyed_order(test, lambda region: region.name, source.seed, source.dataset.id)
        test = round_robin(ordered, options.test_rows)
    for split in ("train", "valid", "test"):
        regions = test if split == "test" else regions_of(files, split)
        if regions:
            out.records(f"selection/{split}.jsonl", (region.row() for region in regions), kind="selection", split=split)
    if not any(file.facts.get("split") == "train" for file in files):
        out.note("no training crops: there are no unpacked scene graphs")


def links(source: Source, benchmark: Path, staging: Path) -> None:
    """Show the pictures of MIMIC-CXR in the image folder."""
    link_folders(source, staging, source.options(Options).mimic_version)


RECIPE = Recipe(build, units, finish, links)
