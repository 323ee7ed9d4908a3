"""Recipe ``mmdental``: sixty planes of each cone-beam CT, and the medical records visit by visit.

Twenty planes across each body axis, from the middle 90 % of it, with one grey range a volume: percentiles 0.5 to 99.5
of the voxels other than 0, its upper end moved out by a fifth. ``release`` leaves the planes transposed only, so that
heads stand upside down (discrepancy 48); ``corrected`` turns them as a radiologist looks at them, and refuses a volume
that does not say how it lies.

Which visit of a patient the benchmark took is unknown, so ``visits.jsonl`` has them all, in the table's order, and
``records.jsonl`` those with both a diagnosis and a treatment plan.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from medheb.build.inventory import BuiltFile, Fact
from medheb.build.output import Output
from medheb.build.recipe import Recipe, Unit
from medheb.build.rights import children, is_file, is_folder
from medheb.build.source import Source
from medheb.build.tables import Row, read_table
from medheb.core.errors import MedhebError
from medheb.imaging.axial import is_sheared
from medheb.imaging.foreground import Foreground, cleaned, nonzero, widened_range
from medheb.imaging.nifti import SUFFIXES, open_nifti
from medheb.imaging.planes import AXIAL, CORONAL, SAGITTAL, body_planes, turn_of
from medheb.imaging.sampling import middle_indices
from medheb.imaging.windows import unit_to_uint8
from medheb.manifest.base import Strict

VIEWS = {"axial": AXIAL, "coronal": CORONAL, "sagittal": SAGITTAL}
PLANES = 20
LOWER, UPPER, WIDER = 0.5, 99.5, 1.2
FOLDER = "cbct_png"
RECORDS = "records"


class Columns(Strict):
    """Columns of the table of visits that tasks need; the others are kept under their own names."""

    case: str
    diagnosis: str
    treatment_plan: str


class Options(Strict):
    """``recipe.options``.

    Args:
        folder: name of the folder with the volumes.
        records: name of the table beside them.
        columns: names in that table.
    """

    folder: str
    records: str
    columns: Columns


def _root(source: Source) -> Path:
    """The folder with the volumes: it holds the table or bears the publisher's name, or it is the one given."""
    options = source.options(Options)
    try:
        found = source.folder_with(f"{options.folder}/{options.records}", options.records, options.folder)
    except MedhebError:
        if _cases(source.files):
            return source.files
        raise
    inner = found / options.folder
    return inner if is_folder(inner) else found


def _cases(root: Path) -> dict[str, list[Path]]:
    """What claims each case: a folder of its name, or a volume of its name."""
    found: dict[str, list[Path]] = {}
    for path in children(root):
        if is_folder(path) and _holds_volumes(path):
            found.setdefault(path.name, []).append(path)
        elif _is_volume(path):
            found.setdefault(case_of(path.name), []).append(path)
    return found


def _holds_volumes(folder: Path) -> bool:
    try:
        return any(_is_volume(inner) for inner in children(folder))
    except MedhebError:
        return True  # an unreadable folder may hold one; its unit says what is wrong


def _is_volume(path: Path) -> bool:
    return path.name.endswith(SUFFIXES) and is_file(path)


def case_of(name: str) -> str:
    """The case that a file name or a cell names: ``492.nii.gz`` and ``492`` are one."""
    return name.strip().removesuffix(".gz").removesuffix(".nii")


def units(source: Source) -> Sequence[Unit]:
    """One volume a unit, and the table of visits."""
    root = _root(source)
    cases = _cases(root)
    for path in children(root):  # a folder without a volume is a case that failed
        if is_folder(path):
            cases.setdefault(path.name, [path])
    found = [Unit(f"case {case}", (case, [os.fspath(path) for path in paths])) for case, paths in cases.items()]
    return [Unit(RECORDS, (os.fspath(root), sorted(cases))), *found]


def _volume_of(case: str, claims: Sequence[Path]) -> Path:
    """The case's volume: ``<case>.nii.gz``, else ``<case>.nii``, else the only one there.

    Raises:
        MedhebError: none, or several.
    """
    if len(claims) > 1:
        raise MedhebError(claims[0].parent, f"holds both {claims[0].name} and {claims[1].name}", "Remove one of them")
    if is_file(claims[0]):
        return claims[0]
    for suffix in reversed(SUFFIXES):
        named = claims[0] / f"{case}{suffix}"
        if is_file(named):
            return named
    others = [path for path in children(claims[0]) if _is_volume(path)]
    if not others:
        raise MedhebError(claims[0], "holds no NIfTI volume", "Get the complete archive")
    if len(others) > 1:
        names = f"{others[0].name} and {others[1].name}"
        raise MedhebError(claims[0], f"holds several volumes, none named after it: {names}", "Remove all but one")
    return others[0]


def build(source: Source, unit: Unit, out: Output) -> None:
    """One volume, or the records.

    Raises:
        MedhebError: no volume or several, damaged, not three-dimensional, a table without the needed columns.
    """
    if unit.name == RECORDS:
        root, cases = unit.data
        _write_records(source.options(Options), Path(root), set(cases), out)
    else:
        case, claims = unit.data
        _write_planes(source, case, _volume_of(case, [Path(claim) for claim in claims]), out)


def _write_planes(source: Source, case: str, path: Path, out: Output) -> None:
    volume = open_nifti(path, trailing_one=True)
    turn = turn_of(volume, accept_assumed=source.release)
    lengths = turn.shape(volume)
    indices = {axis: middle_indices(lengths[axis], PLANES) for axis in VIEWS.values()}
    foreground = Foreground(nonzero)
    planes = body_planes(volume, turn, indices, foreground.add)
    grey = foreground.grey_range(LOWER, UPPER)
    if grey is None:
        fault = "holds one value in all voxels other than 0" if foreground.size else "holds no voxel other than 0"
        if not source.release:
            raise MedhebError(path, fault, "Check the file; a scan has more than one value")
        out.remark(str(path), fault, "Its planes are black, as published")
    low, high = widened_range(foreground, grey, WIDER)
    facts: dict[str, Fact] = {
        "kind": "slice",
        "case": case,
        "group": case,
        "member": f"{path.parent.name}/{path.name}",
        "modality": source.dataset.modality[0],
        "window": f"percentiles {LOWER:g}-{UPPER:g}, widened to {low:g} to {high:g}",
        "axis_codes": volume.axis_codes or "not stated",
        "sheared": True if volume.affine is not None and is_sheared(volume.affine) else None,
        "transform": "closest RAS, transposed" if source.release else "closest RAS, transposed and turned for display",
    }
    how = "It is taken to lie as files without a statement do by convention"
    if volume.affine is None or not volume.oriented:
        out.remark(str(path), "does not say how it lies", how)
    elif is_sheared(volume.affine):
        out.remark(str(path), "has a sheared grid", "Its planes are cut along the grid")
    if min(lengths) < PLANES:
        out.remark(
            str(path), f"has fewer planes than pictures, {min(lengths)} for {PLANES}", "Some show the same plane"
        )
    for view, axis in VIEWS.items():
        for slot, number in enumerate(indices[axis]):
            plane = planes[axis][number]
            # Rows from head to feet or from front to back, columns from the patient's right or from the front.
            shown = plane.T if source.release else plane[::-1, ::-1].T
            out.picture(
                f"{FOLDER}/{case}/{view}_slice_{slot:03d}.png",
                unit_to_uint8(cleaned(shown), low, high),
                view=view,
                slot=slot,
                slice=number,
                slices=lengths[axis],
                **facts,
            )


def _write_records(options: Options, root: Path, volumes: set[str], out: Output) -> None:
    """Visits with ``query`` (diagnosis), ``target`` (treatment plan) and all other cells: all, and those with both."""
    needed = options.columns
    path = root / options.records
    rows = read_table(path, [needed.case, needed.diagnosis, needed.treatment_plan])
    visits: dict[str, list[Row]] = {}
    for row in rows:
        case = case_of(row.cells[needed.case])
        if case:
            visits.setdefault(case, []).append(row)
        else:
            out.refuse(MedhebError(row.where, "names no case", "Get the publisher's own table"))
    written = [
        _record(needed, case, number, len(mine), row, case in volumes)
        for case, mine in visits.items()
        for number, row in enumerate(mine, start=1)
    ]
    out.records("visits.jsonl", written, kind="visits", language="en")
    whole = [row for row in written if row["query"] and row["target"]]
    out.records("records.jsonl", whole, kind="records", language="en")
    several = sum(len(mine) > 1 for mine in visits.values())
    out.note(f"{len(written)} visits of {len(visits)} patients; {several} patients have several visits")
    if len(whole) < len(written):
        out.note(f"visits without a diagnosis or without a treatment plan: {len(written) - len(whole)}")
    if volumes - visits.keys():
        out.note(f"volumes without a record: {len(volumes - visits.keys())}")


def _record(needed: Columns, case: str, number: int, visits: int, row: Row, volume: bool) -> Mapping[str, Any]:
    """Visits of one patient are a group: they are too alike to be each other's wrong answers."""
    taken = {needed.case, needed.diagnosis, needed.treatment_plan}
    return {
        "id": f"{case}/{number}",
        "group": case,
        "case": case,
        "visit": number,
        "visits": visits,
        "volume": volume,
        "query": row.cells[needed.diagnosis],
        "target": row.cells[needed.treatment_plan],
        "cells": {name: cell for name, cell in row.cells.items() if name not in taken},
    }


def finish(_: Source, files: Sequence[BuiltFile], out: Output) -> None:
    """The cases with pictures as a list, and what is odd about the volumes."""
    cases = {str(file.facts["case"]): file.facts for file in files if file.facts.get("kind") == "slice"}
    if cases:
        out.lines("selection/cases.txt", sorted(cases), kind="selection")
    short = {file.facts["case"] for file in files if int(file.facts.get("slices") or PLANES) < PLANES}
    unstated = sum(facts["axis_codes"] == "not stated" for facts in cases.values())
    sheared = sum(bool(facts.get("sheared")) for facts in cases.values())
    for count, words in (
        (len(short), f"an axis of fewer than {PLANES} planes, so that some show the same plane"),
        (unstated, "a header without usable orientation"),
        (sheared, "a sheared grid"),
    ):
        if count:
            out.note(f"{count} of {len(cases)} volumes have {words}")


RECIPE = Recipe(build, units, finish)
