"""Recipe ``chexpert_plus``: held-out chest X-rays with labels and report sections, from PNG or DICOM files.

The test is drawn from the official valid part first and, where that is not enough, from train; one frontal picture a
study. The fact ``findings`` of a picture holds all its positive labels. Rows are joined by path: numbers of rows differ
between the published tables. No published program makes these tasks, so both protocols give the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from medheb.build.closed_tables import Fault, Row, refuse_rows, rows_of, unit_of_faults
from medheb.build.mimic import NAME
from medheb.build.output import Output
from medheb.build.recipe import Recipe, Unit
from medheb.build.selection import in_keyed_order
from medheb.build.source import Source
from medheb.build.tables import read_text
from medheb.build.xrays import read_xray, write_xray
from medheb.core.errors import MedhebError
from medheb.core.json_text import parse_json
from medheb.manifest.base import RelativePath, Strict

PATH, PATIENT, SPLIT, VIEW = "path_to_image", "deid_patient_id", "split", "frontal_lateral"
FINDINGS, IMPRESSION = "section_findings", "section_impression"
DICOM_PATH = "path_to_dcm"
FRONTAL = "frontal"
TEST = "test"
SEVERAL = " | "
NO_TEXT = frozenset({"", "nan", "None"})


class Options(Strict):
    """Settings of this source.

    Args:
        table: all rows.
        label_table: labels as JSON lines, one object a picture.
        labels: names of labels; null takes every key but the path.
        png: folders where the PNG files may lie, in the source.
        dicom: folders where the DICOM files may lie.
        pictures: folder of the layout.
        splits: parts to draw from, in this order.
        test_rows: cap of each list.
    """

    table: str
    label_table: RelativePath
    labels: tuple[str, ...] | None
    png: tuple[str, ...]
    dicom: tuple[str, ...]
    pictures: RelativePath
    splits: tuple[str, ...]
    test_rows: int = 1000


@dataclass(frozen=True)
class View:
    """A frontal picture of a study."""

    where: str
    path: str
    dicom: str
    patient: str
    split: str
    reported: bool

    @property
    def study(self) -> str:
        """Folder of the picture, which is the study."""
        return self.path.rpartition("/")[0]

    def target(self, options: Options) -> str:
        """Place in the layout. The table says .jpg where the files are PNG."""
        return f"{options.pictures}/{PurePosixPath(self.path).with_suffix('.png')}"


@dataclass(frozen=True)
class Picture:
    """A picture to build."""

    view: View
    original: Path
    label: str | None
    findings: str | None


@dataclass(frozen=True)
class Labels:
    """What the label table says of a picture: labels that are there, and whether any is unsure."""

    positive: tuple[str, ...]
    unsure: bool

    @property
    def single(self) -> str | None:
        """The label of a picture that has exactly one, and none that is unsure."""
        return self.positive[0] if len(self.positive) == 1 and not self.unsure else None

    @property
    def findings(self) -> str | None:
        """All labels that are there, as the inventory holds them; None if there is none."""
        return SEVERAL.join(sorted(self.positive)) or None


@dataclass(frozen=True)
class Lists:
    """The selection lists and the table of the texts."""

    table: Path
    labelled: tuple[tuple[View, str], ...]
    reported: tuple[View, ...]


def _views(path: Path, options: Options, faults: list[Fault]) -> list[View]:
    """The first frontal picture of each study of the wanted parts, by path."""
    columns = (PATH, PATIENT, SPLIT, VIEW, FINDINGS, IMPRESSION)
    first: dict[str, View] = {}
    for row in rows_of(path, columns, faults, optional=[DICOM_PATH]):
        if row.cells[SPLIT] not in options.splits or row.cells[VIEW].lower() != FRONTAL:
            continue
        if not _sound(row, faults):
            continue
        reported = not {row.cells[FINDINGS], row.cells[IMPRESSION]} & NO_TEXT
        dicom = row.cells.get(DICOM_PATH, "")
        view = View(row.where, row.cells[PATH], dicom, row.cells[PATIENT], row.cells[SPLIT], reported)
        if view.study not in first or view.path < first[view.study].path:
            first[view.study] = view
    return sorted(first.values(), key=lambda view: view.path)


def _sound(row: Row, faults: list[Fault]) -> bool:
    parts = row.cells[PATH].split("/")
    dicom = [part for part in row.cells.get(DICOM_PATH, "").split("/") if part]
    if len(parts) > 1 and all(NAME.fullmatch(part) for part in (*parts, *dicom)):
        return True
    faults.append(row.fault("has a path that cannot be one of this source"))
    return False


def _labels(path: Path, options: Options, faults: list[Fault]) -> dict[str, Labels]:
    """The labels of each picture.

    Values are 1 (there), 0 (not there), -1 (unsure) and null (not mentioned).
    """
    found: dict[str, Labels] = {}
    try:
        text = read_text(path)
    except MedhebError as error:
        raise MedhebError(path.name, error.fault, error.remedy) from error
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        where = f"{path.name}, line {number}"
        try:
            row = parse_json(line)
        except ValueError:
            row = None
        picture = row.get(PATH) if isinstance(row, dict) else None
        if not isinstance(picture, str):
            faults.append((where, f"is no object with {PATH}", "Mend the line; the other lines are read"))
            continue
        names = options.labels or tuple(sorted(name for name in row if name != PATH))
        values = {name: row.get(name) for name in names}
        if any(value not in (1, 0, -1, None) or isinstance(value, bool) for value in values.values()):
            faults.append((where, "has a value that is none of 1, 0, -1 and null", "Mend the line"))
            continue
        positive = tuple(name for name, value in values.items() if value == 1)
        found[picture] = Labels(positive, -1 in values.values())
    return found


def _original(root: Path, view: View, options: Options) -> Path | None:
    """The picture's file: PNG, else as the table names it, else DICOM; None if it is not there."""
    plain = PurePosixPath(view.path)
    dicom = view.dicom or str(plain.with_suffix(".dcm"))
    places = [(folder, str(name)) for folder in options.png for name in (plain.with_suffix(".png"), plain)]
    places += [(folder, dicom) for folder in options.dicom]
    return next((root / folder / name for folder, name in places if (root / folder / name).is_file()), None)


def _parts(root: Path, options: Options) -> list[str]:
    """Parts of the source whose pictures are in the folder."""
    folders = [root / folder for folder in (*options.png, *options.dicom)]
    return [split for split in options.splits if any((folder / split).is_dir() for folder in folders)]


def units(source: Source) -> Sequence[Unit]:
    """A unit a picture, and one for the lists."""
    options = source.options(Options)
    root = source.folder_with(options.table)
    faults: list[Fault] = []
    parts = _parts(root, options)
    if not parts:
        raise MedhebError(source.dataset.id, "has its table, but no pictures", "Give the folder that holds both")
    views = [view for view in _views(root / options.table, options, faults) if view.split in parts]
    ordered = in_keyed_order(views, lambda view: view.path, source.seed, source.dataset.id)
    ordered.sort(key=lambda view: options.splits.index(view.split))  # stable: the hash decides within a part
    labels = _labels(root / options.label_table, options, faults)
    nothing = Labels((), False)
    single = [(view, labels.get(view.path, nothing).single) for view in ordered]
    labelled = [(view, label) for view, label in single if label is not None][: options.test_rows]
    reported = [view for view in ordered if view.reported][: options.test_rows]
    chosen: dict[str, tuple[View, str | None]] = {view.path: (view, None) for view in reported}
    chosen |= {view.path: (view, label) for view, label in labelled}
    found = [Unit("lists", Lists(root / options.table, tuple(labelled), tuple(reported)))]
    for path, (view, label) in chosen.items():
        original = _original(root, view, options)
        if original is None:
            faults.append((view.where, "has a picture that is not in the folder", "Download it again"))
        else:
            found.append(Unit(path, Picture(view, original, label, labels.get(path, nothing).findings)))
    missing = [split for split in options.splits if split not in parts]
    return [*found, *([Unit("missing parts", tuple(missing))] if missing else []), *unit_of_faults(faults)]


def build(source: Source, unit: Unit, out: Output) -> None:
    """A picture, or the lists."""
    options = source.options(Options)
    if refuse_rows(unit, out):
        return
    if isinstance(unit.data, Lists):
        _write_lists(unit.data, options, out)
    elif isinstance(unit.data, tuple):
        out.note(f"no pictures of {' and '.join(unit.data)} in the folder: the test is drawn from the rest")
    else:
        view = unit.data.view
        xray = read_xray(unit.data.original, release=False)
        facts = {"case": view.study, "group": view.patient, "member": view.where}
        facts |= {"label": unit.data.label, "findings": unit.data.findings}
        write_xray(out, view.target(options), xray, kind="xray", split=TEST, part=view.split, **facts)
        for note in xray.notes:
            out.count(f"pictures: {note}")


def _write_lists(lists: Lists, options: Options, out: Output) -> None:
    """``selection/labels.jsonl`` and ``reports/test.jsonl``, each in the order of the draw."""
    rows = [
        {"picture": view.target(options), "label": label, "group": view.patient, "part": view.split}
        for view, label in lists.labelled
    ]
    out.records("selection/labels.jsonl", rows, kind="selection", split=TEST)
    wanted = {view.path for view in lists.reported}
    texts = {
        row.cells[PATH]: {"findings": row.cells[FINDINGS], "impression": row.cells[IMPRESSION]}
        for row in rows_of(lists.table, (PATH, FINDINGS, IMPRESSION), [])
        if row.cells[PATH] in wanted
    }
    records = [
        {
            "id": view.path,
            "picture": view.target(options),
            "group": view.patient,
            "part": view.split,
            **texts[view.path],
        }
        for view in lists.reported
    ]
    out.records("reports/test.jsonl", records, kind="records", split=TEST)


RECIPE = Recipe(build, units)
