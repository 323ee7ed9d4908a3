"""Recipe ``ct_rate``: 64 slices and one X-ray of the first reconstruction of every scan, from one read of its volume.

Only the ``*_fixed`` folders are read: their values are Hounsfield units already, so the tables' slope and intercept
are never applied. As published, output folders are flat: ``valid_fixed_sliced/valid_1_a/slice_000.png`` and
``valid_fixed_drr/valid_1_a/drr_ap.png``.

``release`` slices and projects every volume as it is stored. ``corrected`` turns slices to the radiological display,
leaves out what the publisher lists as no chest, and refuses whatever is no CT of a body in HU.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

from pydantic import Field

from medheb.build.faults import Fault, claimed_twice, fault_unit, require_use
from medheb.build.inventory import BuiltFile, Fact
from medheb.build.output import Output
from medheb.build.recipe import Recipe, Unit
from medheb.build.rights import folders_in, is_file, is_there
from medheb.build.slices import Window, axial_slices, facts_of, open_volume, write_ct
from medheb.build.slices import finish as finish_slices
from medheb.build.source import Source
from medheb.build.tables import read_table, read_text
from medheb.build.volume_texts import built_volumes, ct_questions, ct_reports, write_records
from medheb.core.errors import MedhebError
from medheb.imaging.axial import Each
from medheb.imaging.drr.geometry import Geometry, View
from medheb.imaging.drr.parity import require_usable
from medheb.imaging.drr.release import ReleaseProjection
from medheb.imaging.drr.xray import Xray, XraySettings, project, release_sidecar
from medheb.imaging.gathered import GatheredVolume
from medheb.imaging.stored import StoredVolume
from medheb.imaging.volume import size_fault
from medheb.manifest.base import RelativePath, Strict

VOLUME = "VolumeName"
SUFFIX = ".nii.gz"
FIRST = "_1"


class Part(Strict):
    """One split. Tables lie beside its folder and may be absent from a copy.

    Args:
        volumes: folder of the download.
        slices: image folder of the slices.
        xrays: image folder of the X-rays.
        scans: table of all volumes: what it lists and the copy lacks is reported.
        labels: table of labels, one column each.
        no_chest: list of volumes that show no chest.
        reports: table of reports.
        questions: JSON of questions and answers.
    """

    volumes: str
    slices: RelativePath
    xrays: RelativePath
    scans: RelativePath
    labels: RelativePath
    no_chest: RelativePath
    reports: RelativePath
    questions: RelativePath


class Options(Strict):
    """``recipe.options``.

    Args:
        parts: by split.
        window: of the slices.
        intercepts: rescale intercepts of the scanners.
        assumed_axes: of a volume whose header does not say how it lies.
        view: of the X-ray, for the projectors that have one.
        no_text: what stands in a report's cell without a text.
    """

    parts: dict[str, Part]
    window: Window
    intercepts: tuple[int, ...]
    assumed_axes: str = Field(pattern="^[LRAPIS]{3}$")
    view: View
    no_text: str


def _parts(source: Source, options: Options) -> list[tuple[str, Part, Path]]:
    """Splits that are there, each with the folder of its volumes; tables lie beside that."""
    there = source.parts(*(part.volumes for part in options.parts.values()))
    return [
        (split, part, there[part.volumes]) for split, part in sorted(options.parts.items()) if part.volumes in there
    ]


def units(source: Source) -> Sequence[Unit]:
    """A scan's first reconstruction a unit."""
    options = source.options(Options)
    found: list[Unit] = []
    for split, part, volumes in _parts(source, options):
        root = volumes.parent
        # Read here first: a damaged table is the source's fault, not that of every scan.
        _labels(root / part.labels)
        _no_chest(root / part.no_chest)
        found += _scans(split, volumes, _listed_scans(root / part.scans))
    return found


def _scans(split: str, folder: Path, listed: Sequence[str]) -> list[Unit]:
    scans: dict[str, list[Path]] = {}
    units: list[Unit] = []
    for case in folders_in(folder):
        try:
            for scan in folders_in(case):
                scans.setdefault(scan.name, []).append(scan / f"{scan.name}{FIRST}{SUFFIX}")
        except MedhebError as error:
            units.append(fault_unit(f"{split} {case.name}", error))
    for name, paths in scans.items():
        try:
            there = [path for path in paths if is_there(path)] or paths[:1]
        except MedhebError as error:
            units.append(fault_unit(f"{split} {name}", error))
            continue
        data = (split, os.fspath(there[0])) if len(there) == 1 else claimed_twice(name, there)
        units.append(Unit(f"{split} {name}", data))
    missing = "is missing, though the table of volumes lists it"
    remedy = "Complete the copy; the other scans are built"
    units += [
        Unit(f"{split} {name}", Fault(os.fspath(_place(folder, name)), missing, remedy))
        for name in listed
        if name not in scans
    ]
    return units


def _place(folder: Path, scan: str) -> Path:
    """Where the first reconstruction of a scan belongs: ``valid_8/valid_8_a/valid_8_a_1.nii.gz`` of ``valid_8_a``."""
    return folder / scan.rpartition("_")[0] / scan / f"{scan}{FIRST}{SUFFIX}"


def _listed_scans(table: Path) -> list[str]:
    """Scans whose first reconstruction a table lists; none if there is no table."""
    rows = read_table(table, [VOLUME]) if is_file(table) else []
    names = {row.cells[VOLUME].removesuffix(SUFFIX) for row in rows}
    return sorted(name.removesuffix(FIRST) for name in names if name.endswith(FIRST))


@cache
def _labels(table: Path) -> dict[str, str]:
    """Labels of each volume, joined; the empty text for a volume without a finding."""
    rows = read_table(table, [VOLUME]) if is_file(table) else []
    return {
        row.cells[VOLUME].removesuffix(SUFFIX): " | ".join(
            name for name, cell in row.cells.items() if name != VOLUME and cell in {"1", "1.0"}
        )
        for row in rows
    }


@cache
def _no_chest(path: Path) -> frozenset[str]:
    """Volumes of a list, one a line, with or without folder and suffix."""
    lines = read_text(path).split("\n") if is_file(path) else []
    return frozenset(Path(line.strip()).name.removesuffix(SUFFIX) for line in lines if line.strip())


def build(source: Source, unit: Unit, out: Output) -> None:
    """Slices and X-ray of one scan.

    Raises:
        MedhebError: a damaged volume, values that are not HU, or, under ``corrected``, no chest.
    """
    split, name = require_use(unit)
    options, path = source.options(Options), Path(name)
    part, scan, volume_name = options.parts[split], path.parent.name, path.name.removesuffix(SUFFIX)
    tables = path.parents[3]
    chest = volume_name not in _no_chest(tables / part.no_chest)
    if not chest and not source.release:
        fault = f"shows no chest, says {part.no_chest}"
        raise MedhebError(path, fault, "Nothing; protocol release keeps it, as published")
    volume = open_volume(path)
    slices = axial_slices(source, volume, options.assumed_axes)
    facts: dict[str, Fact] = {
        "case": scan,
        "group": path.parents[1].name,
        "split": split,
        "label": _labels(tables / part.labels).get(volume_name) or None,
        "modality": "CT",
        "chest": chest,
        **facts_of(slices, path, 4),
    }
    if source.release and source.projector == "release" and 0 in volume.spacing:
        out.remark(volume.where, str(size_fault(volume.spacing)), "Its X-ray takes 0 for 1 mm, as published")
    projection: tuple[Each, Callable[[], Xray]] | MedhebError
    try:
        projection = _projection(source, volume, options)
    except MedhebError as error:
        projection = error  # of the X-ray alone
    each = None if isinstance(projection, MedhebError) else projection[0]
    write_ct(source, out, f"{part.slices}/{scan}", slices, options.window, options.intercepts, facts, each)
    try:
        if isinstance(projection, MedhebError):
            raise projection
        _write_xray(out, f"{part.xrays}/{scan}/drr_ap.png", projection[1](), facts)
    except MedhebError as error:
        out.refuse(error, lost="X-ray")


def _projection(source: Source, volume: StoredVolume, options: Options) -> tuple[Each, Callable[[], Xray]]:
    """What takes in the stored slices, and what makes the X-ray of them.

    The published script sums along the second stored axis, whatever that is; ``corrected`` turns other orders first.
    """
    if source.projector == "release" and (source.release or volume.axis_codes in {"LPS", None}):
        x, y, z = volume.shape
        # nibabel, by which the published script reads the header, makes 1 mm of 0.
        zooms = tuple(1.0 if source.release and length == 0 else length for length in volume.spacing)
        published = ReleaseProjection((x, y, z), (zooms[0], zooms[1], zooms[2]), volume.where)
        return published.add, lambda: Xray(published.picture(), release_sidecar())
    gathered = GatheredVolume(volume, options.assumed_axes)
    settings = XraySettings(Geometry(view=options.view), deepdrr_python=source.deepdrr_python)
    return gathered.add, lambda: project(gathered.volume(), source.projector, settings)


def _write_xray(out: Output, path: str, made: Xray, facts: dict[str, Fact]) -> None:
    own = {name: facts[name] for name in ("case", "group", "split", "label", "chest", "member", "axis_codes")}
    sidecar = made.sidecar
    out.picture(
        path,
        made.picture,
        kind="xray",
        modality="X-ray (simulated)",
        projector=str(sidecar["projector"]),
        projector_version=int(sidecar["projector_version"]),
        projection=json.dumps(sidecar, sort_keys=True),
        **own,
    )


def finish(source: Source, files: Sequence[BuiltFile], out: Output) -> None:
    """Lists, counts, reports and questions."""
    finish_slices(source, files, out)
    options = source.options(Options)
    parts, built = _parts(source, options), built_volumes(files)
    reports = [volumes.parent / part.reports for _, part, volumes in parts]
    write_records(out, "reports.jsonl", "reports", reports, lambda path: ct_reports(path, built, options.no_text))
    questions = [volumes.parent / part.questions for _, part, volumes in parts]
    write_records(out, "questions.jsonl", "questions", questions, lambda path: ct_questions(path, built))


def ready(source: Source) -> None:
    """Refuse the projector DeepDRR where it does not run: every X-ray would be refused, one by one.

    Raises:
        DeepdrrError: why it does not run here.
    """
    if source.projector == "deepdrr":
        require_usable(source.deepdrr_python)


RECIPE = Recipe(build, units, finish, ready=ready)
