"""Recipe ``mrnet``: ten slices of each of a knee's three stacks, and the label of the case.

The three planes are separate sequences in separate files, not one volume. The official validation part is the
benchmark's test. The published script writes ``valid_slides`` where card and task files have ``valid_images``; names
below that folder are the script's: ``<plane>/<case>/slice_00_orig_000.png``. Stored values are 8-bit, so both
protocols give the same pictures of sound files; they differ for other types (see :mod:`medheb.build.stacks`), and
``corrected`` refuses a case without all three stacks.
"""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from medheb.build.faults import fault_unit, require_use
from medheb.build.inventory import BuiltFile, Fact
from medheb.build.output import Output
from medheb.build.recipe import Recipe, Unit
from medheb.build.rights import children, is_file, is_folder
from medheb.build.source import Source
from medheb.build.stacks import NO_TURN, grey_stack, in_slots
from medheb.core.errors import MedhebError
from medheb.imaging.arrays import open_npy
from medheb.imaging.sampling import up_to_indices
from medheb.manifest.base import Strict

PLANES = ("axial", "coronal", "sagittal")
FINDINGS = ("abnormal", "acl", "meniscus")
SLICES = 10
ID_DIGITS = 4
SUFFIX = ".npy"


class Labels(Strict):
    """Texts of the classes; ``None`` leaves a case without a label, and so out of tasks that need one."""

    healthy: str
    other: str
    acl: str | None
    meniscus: str | None
    both: str | None


class Options(Strict):
    """``recipe.options``.

    Args:
        folders: image folder of each part of the source.
        splits: what each part is to the benchmark.
        labels: texts of the classes.
    """

    folders: dict[str, str]
    splits: dict[str, str]
    labels: Labels


def _root(source: Source) -> Path:
    """The folder that holds ``train`` and ``valid``."""
    return source.folder_with(*(f"valid/{plane}" for plane in PLANES), *(f"train/{plane}" for plane in PLANES))


def units(source: Source) -> Sequence[Unit]:
    """One case with its stacks a unit."""
    root = _root(source)
    found: list[Unit] = []
    for part in sorted(source.options(Options).folders):
        cases: dict[str, dict[str, str]] = {}
        for plane in PLANES:
            folder = root / part / plane
            try:
                stacks = [path for path in children(folder) if path.suffix == SUFFIX] if is_folder(folder) else []
            except MedhebError as error:
                found.append(fault_unit(f"{part} {plane}", error))
                continue
            for path in stacks:
                cases.setdefault(path.stem, {})[plane] = os.fspath(path)
        marks = _read_tables(root, part)
        found += [Unit(f"{part} {case}", (part, case, stacks, marks.get(case))) for case, stacks in cases.items()]
    return found


def _table(root: Path, part: str, finding: str) -> Path | None:
    """A label table under the publisher's name or that of a Redivis export."""
    names = (f"{part}-{finding}.csv", f"{part}_{finding}.csv")
    found = [root / name for name in names if is_file(root / name)]
    if len(found) > 1:
        raise MedhebError(root, f"holds both {names[0]} and {names[1]}", "Remove one of them")
    return found[0] if found else None


def _read_tables(root: Path, part: str) -> dict[str, dict[str, int]]:
    """Marks 0 or 1 by case and finding; empty where the source has no tables."""
    marks: dict[str, dict[str, int]] = {}
    for finding in FINDINGS:
        path = _table(root, part, finding)
        for case, mark in _read_table(path).items() if path else ():
            marks.setdefault(case, {})[finding] = mark
    return marks


def _read_table(path: Path) -> dict[str, int]:
    """Rows ``0000,1`` without a header. Redivis makes the first row one and puts ``_`` before each cell.

    Raises:
        MedhebError: anything else, or a case that occurs twice.
    """
    marks: dict[str, int] = {}
    try:
        rows = list(csv.reader(path.read_text(encoding="utf-8-sig").splitlines()))
    except (UnicodeDecodeError, csv.Error) as error:
        raise MedhebError(path, f"is not a UTF-8 table ({error})", "Get an undamaged copy") from error
    for number, row in enumerate(rows, start=1):
        cells = [re.sub(r"^_", "", cell.strip()) if number == 1 else cell.strip() for cell in row]
        if len(cells) != 2 or not cells[0].isdecimal() or cells[1] not in {"0", "1"}:
            raise MedhebError(f"{path}, row {number}", "is not a case number and 0 or 1", "Get the publisher's table")
        case = cells[0].zfill(ID_DIGITS)  # spreadsheets cut leading zeros
        if case in marks:
            raise MedhebError(f"{path}, row {number}", "names a case again", "Get the publisher's table")
        marks[case] = int(cells[1])
    return marks


def label_of(marks: Mapping[str, int], labels: Labels, where: str) -> str | None:
    """Text of a case's class, ``None`` where it has none.

    Args:
        marks: 0 or 1 for ``abnormal``, ``acl`` and ``meniscus``.
        labels: texts of the classes.
        where: the case, for messages.

    Raises:
        MedhebError: a finding is missing, or a tear in a knee that is not abnormal.
    """
    missing = [finding for finding in FINDINGS if finding not in marks]
    if missing:
        raise MedhebError(where, f"has no row in the table of {', '.join(missing)}", "Get the complete tables")
    abnormal, acl, meniscus = (bool(marks[finding]) for finding in FINDINGS)
    if not abnormal:
        if acl or meniscus:
            raise MedhebError(where, "has a tear but is not abnormal", "Get the publisher's tables")
        return labels.healthy
    if acl and meniscus:
        return labels.both
    return labels.acl if acl else labels.meniscus if meniscus else labels.other


def build(source: Source, unit: Unit, out: Output) -> None:
    """The stacks of one case.

    Raises:
        MedhebError: a damaged stack; under ``corrected`` also one that is missing or blank.
    """
    part, case, stacks, marks = require_use(unit)
    options = source.options(Options)
    where = stacks[min(stacks)]  # any of its stacks names the case; a unit has at least one
    absent: dict[str, MedhebError] = {}
    for plane in PLANES:
        if plane not in stacks:
            fault = "is missing, though other stacks of the case are there"
            error = MedhebError(Path(where).parents[1] / plane / f"{case}{SUFFIX}", fault, "Get the complete archive")
            if not source.release:  # a third of a case is no case
                raise error
            absent[plane] = error
    facts: dict[str, Fact] = {"case": case, "group": case, "split": options.splits[part], **(marks or {})}
    try:
        facts["label"] = label_of(marks, options.labels, where) if marks else None
    except MedhebError as error:
        out.refuse(error, lost="label")
    for plane, name in sorted(stacks.items()):
        try:
            _write_stack(source, out, Path(name), f"{options.folders[part]}/{plane}/{case}", facts | {"view": plane})
        except MedhebError as error:
            if not source.release:
                raise
            out.refuse(error)
    for plane, lack in absent.items():
        out.refuse(lack, lost=f"{plane} stack" if out.files else None)


def _write_stack(source: Source, out: Output, path: Path, folder: str, facts: Mapping[str, Fact]) -> None:
    stored = open_npy(path)
    if len(stored.shape) != 3:
        raise MedhebError(path, f"has shape {stored.shape}, not slices x rows x columns", "Get the publisher's file")
    indices = up_to_indices(stored.count, SLICES)
    # Whole and as stored: at most some 60 small slices, and the range of a stack needs all of them.
    stack = np.stack([plane for _, plane in stored.slices()])
    grey = grey_stack(stack, indices, source.release, str(path))
    for slot, index, picture in in_slots(grey, indices):
        out.picture(
            f"{folder}/slice_{slot:02d}_orig_{index:03d}.png",
            picture,
            kind="slice",
            member="/".join(path.parts[-3:]),
            modality=source.dataset.modality[0],
            slice=index,
            slices=stored.count,
            window=grey.window,
            transform=NO_TURN,
            **facts,
        )


def finish(source: Source, files: Sequence[BuiltFile], out: Output) -> None:
    """The cases of each part with their labels as lists, and what is thin."""
    cases = {(str(file.facts["split"]), str(file.facts["case"])): file.facts for file in files}
    for split in sorted({split for split, _ in cases}):
        mine = {case: facts.get("label") for (own, case), facts in cases.items() if own == split}
        rows = (f"{case},{label or ''}" for case, label in sorted(mine.items()))
        out.lines(f"selection/{split}.csv", ("case,label", *rows), kind="selection", split=split)
        bare = sum(label is None for label in mine.values())
        if bare:
            out.note(f"{split} cases without a label, which no label task can use: {bare}")
    stacks = {(file.facts["case"], file.facts["view"]): int(file.facts["slices"] or 0) for file in files}
    short = sum(count < SLICES for count in stacks.values())
    if short:
        out.note(f"stacks with fewer than {SLICES} slices, given whole: {short}")
    partial = len(cases) * len(PLANES) - len(stacks)
    if partial:
        out.note(f"stacks that cases lack: {partial}")


RECIPE = Recipe(build, units, finish)
