"""The scene graphs of Chest ImaGenome: which regions of which pictures become training crops."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medheb.build.closed_tables import MEND_ROW, Fault, rows_of
from medheb.build.mimic import picture_path, sound_ids
from medheb.build.output import Output
from medheb.build.rights import children
from medheb.build.selection import PUBLISHED_SEED, in_keyed_order
from medheb.build.source import Source
from medheb.build.tables import read_json_file
from medheb.core.errors import MedhebError
from medheb.imaging.boxes import PixelBox, read_corners

SILVER_FOLDERS = ("silver_dataset", "silver")
GRAPHS = "scene_graph"
GRAPH_NAME = "_SceneGraph.json"
SPLIT_FOLDERS = ("splits", "split")
SPLITS = ("train", "valid", "test")
AVOID = "images_to_avoid.csv"
CORNERS = ("original_x1", "original_y1", "original_x2", "original_y2")


@dataclass(frozen=True)
class SceneGraph:
    """A training picture, and the names of the regions that were drawn; None if its file could not be read."""

    image: str
    picture: str
    patient: str
    split: str
    path: Path
    names: tuple[str, ...] | None


@dataclass(frozen=True)
class Silver:
    """All training pictures by name, and the number of each region name."""

    graphs: list[SceneGraph]
    numbers: dict[str, int]


def _objects(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Named regions of a scene graph that have a first corner; of repeated names the last one counts.

    Raises:
        MedhebError: the file is no scene graph.
    """
    content = read_json_file(path)
    objects = content.get("objects") if isinstance(content, dict) else None
    if not isinstance(objects, list):
        raise MedhebError(path.name, "is no scene graph: it has no list of objects", "Get the publisher's own file")
    for item in objects:
        if isinstance(item, dict) and isinstance(item.get("bbox_name"), str) and item.get(CORNERS[0]) is not None:
            yield item["bbox_name"], item


def _listed(folder: Path, release: bool, faults: list[Fault]) -> dict[str, tuple[str, str, str]]:
    """Patient, study and split of each listed picture. ``release`` makes all of them training data (finding 36)."""
    avoid: set[str] = set()
    if not release and (folder / AVOID).is_file():
        avoid = {row.cells["dicom_id"] for row in rows_of(folder / AVOID, ("dicom_id",), faults)}
    found: dict[str, tuple[str, str, str]] = {}
    for split in SPLITS:
        path = folder / f"{split}.csv"
        if not path.is_file() or (split == "test" and not release):
            continue
        for row in rows_of(path, ("subject_id", "study_id", "dicom_id"), faults):
            patient, study, image = row.cells["subject_id"], row.cells["study_id"], row.cells["dicom_id"]
            if image not in avoid and sound_ids(row, [patient, study], [image], faults):
                found[image] = (patient, study, "train" if release else split)
    return found


def read_silver(
    root: Path,
    rows: int,
    source: Source,
    gold_images: Collection[str],
    gold_patients: Collection[str],
    faults: list[Fault],
) -> Silver | None:
    """Training pictures with the regions that are drawn from them; None if there are no unpacked scene graphs.

    Args:
        root: of the project.
        rows: cap of all crops; each name gets ``rows // number of names``.
        source: for its protocol and seed.
        gold_images: pictures that must not be in the training.
        gold_patients: patients that must not be in the training.
        faults: receives rows that cannot be used.
    """
    folder = next((root / name for name in SILVER_FOLDERS if (root / name / GRAPHS).is_dir()), None)
    if folder is None:
        return None
    splits = next((folder / name for name in SPLIT_FOLDERS if (folder / name).is_dir()), folder)
    listed = _listed(splits, source.release, faults)
    graphs: dict[str, SceneGraph] = {}
    having: dict[str, list[str]] = {}
    for path in (entry for entry in children(folder / GRAPHS) if entry.name.endswith(GRAPH_NAME)):
        image = path.name.removesuffix(GRAPH_NAME)
        patient, study, split = listed.get(image, ("", "", ""))
        if not patient or image in gold_images or patient in gold_patients:
            continue
        names: tuple[str, ...] | None
        try:
            names = tuple(sorted({name for name, _ in _objects(path)}))
        except MedhebError:
            names = None  # refused, with its reason, when its unit is built
        graphs[image] = SceneGraph(image, picture_path(patient, study, image), patient, split, path, names)
        for name in names or ():
            having.setdefault(name, []).append(image)
    drawn = _drawn(having, rows // max(1, len(having)), source)
    kept = []
    for graph in graphs.values():
        names = None if graph.names is None else tuple(name for name in graph.names if graph.image in drawn[name])
        if names is None or names:
            kept.append(SceneGraph(graph.image, graph.picture, graph.patient, graph.split, graph.path, names))
    return Silver(kept, {name: number for number, name in enumerate(sorted(having))})


def _drawn(having: Mapping[str, list[str]], share: int, source: Source) -> dict[str, set[str]]:
    """Pictures drawn for each name: all, or ``share`` of them, with the published generator or the keyed hash."""
    generator = random.Random(PUBLISHED_SEED)  # noqa: S311 - the published draw
    drawn: dict[str, set[str]] = {}
    for name in sorted(having):
        images = having[name]
        if len(images) <= share:
            drawn[name] = set(images)
        elif source.release:
            drawn[name] = set(generator.sample(images, share))
        else:
            order = in_keyed_order(images, lambda image: image, source.seed, f"{source.dataset.id} {name}")
            drawn[name] = set(order[:share])
    return drawn


def boxes_of(graph: SceneGraph, release: bool, out: Output) -> dict[str, PixelBox]:
    """The drawn regions of a scene graph. Those that lack a corner are refused (``release``: dropped, as published).

    Raises:
        MedhebError: the file is no scene graph.
    """
    found: dict[str, PixelBox] = {}
    for name, item in _objects(graph.path):
        if graph.names is None or name not in graph.names:
            continue
        try:
            found[name] = read_corners([item.get(corner) for corner in CORNERS], graph.path.name)
        except MedhebError as error:
            if not release:
                out.refuse(MedhebError(error.where, error.fault, MEND_ROW))
    return found
