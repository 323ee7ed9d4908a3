"""Recipe ``radgenome_chest_ct``: 64 slices of the first reconstruction of every scan.

The publisher resampled the volumes to 1 x 1 x 3 mm and lost their orientation: every header claims RAS and 1 mm. So
both protocols take slices as they are stored, and the values, HU already, as they are. Output folders mirror those of
the download (``valid_1/valid_1a``), as published.

Two first reconstructions in one folder share one output folder; the published script lets them overwrite each other
in any order, so both protocols refuse them.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from medheb.build.faults import claimed_twice, require_use, walk
from medheb.build.inventory import BuiltFile, Fact
from medheb.build.output import Output
from medheb.build.recipe import Recipe, Unit
from medheb.build.slices import Window, facts_of, open_volume, write_ct
from medheb.build.slices import finish as finish_slices
from medheb.build.source import Source
from medheb.build.volume_texts import built_volumes, region_reports, table_questions, write_records
from medheb.imaging.axial import AxialSlices
from medheb.manifest.base import RelativePath, Strict

SUFFIX = "_1.nii.gz"


class Part(Strict):
    """One split: ``volumes``, a folder of the download, ``slices``, the image folder, and how its tables begin."""

    volumes: str
    slices: RelativePath
    tables: RelativePath


class Question(Strict):
    """How a table becomes questions: end of its name, text with ``{Column}`` for a cell, column of the answer."""

    table: str
    question: str
    answer: str


class Options(Strict):
    """``recipe.options``.

    Args:
        parts: by split.
        window: of the slices.
        intercepts: rescale intercepts of the scanners.
        reports: end of the name of the table of sentences.
        questions: by kind.
    """

    parts: dict[str, Part]
    window: Window
    intercepts: tuple[int, ...]
    reports: str
    questions: dict[str, Question]


def _parts(source: Source, options: Options) -> list[tuple[str, Part, Path]]:
    """Splits that are there, each with the folder of its volumes."""
    there = source.parts(*(part.volumes for part in options.parts.values()))
    return [
        (split, part, there[part.volumes]) for split, part in sorted(options.parts.items()) if part.volumes in there
    ]


def units(source: Source) -> Sequence[Unit]:
    """A folder with a first reconstruction a unit."""
    found: list[Unit] = []
    for split, _, volumes in _parts(source, source.options(Options)):
        found += _folders(split, volumes)
    return found


def _folders(split: str, top: Path) -> list[Unit]:
    units: list[Unit] = []
    for folder, _, names in walk(top, units):
        paths = [folder / name for name in names if name.endswith(SUFFIX)]
        place = folder.relative_to(top).as_posix()
        if len(paths) > 1:
            units.append(Unit(f"{split} {place}", claimed_twice(f"the scan of {place}", paths)))
        elif paths:
            units.append(Unit(f"{split} {place}", (split, place, os.fspath(paths[0]))))
    return units


def build(source: Source, unit: Unit, out: Output) -> None:
    """Slices of one scan.

    Raises:
        MedhebError: a damaged volume, or values that are not HU.
    """
    split, place, name = require_use(unit)
    options, path = source.options(Options), Path(name)
    slices = AxialSlices(open_volume(path))
    scan = path.name.removesuffix(SUFFIX)
    facts: dict[str, Fact] = {
        "case": scan if place == "." else place,
        "study": scan,
        "group": place.split("/")[0] if "/" in place else scan,
        "split": split,
        "modality": "CT",
        **facts_of(slices, path, 3),
        "transform": f"{slices.transform}; the header's orientation is not the scanner's",
    }
    folder = options.parts[split].slices + ("" if place == "." else f"/{place}")
    write_ct(source, out, folder, slices, options.window, options.intercepts, facts)


def finish(source: Source, files: Sequence[BuiltFile], out: Output) -> None:
    """Lists, counts, reports and questions."""
    finish_slices(source, files, out)
    options, built = source.options(Options), built_volumes(files, "study")
    tables = [volumes.parent / part.tables for _, part, volumes in _parts(source, options)]
    reports = [table.with_name(table.name + options.reports) for table in tables]
    write_records(out, "reports.jsonl", "reports", reports, lambda path: region_reports(path, built))
    for kind, own in options.questions.items():
        asked = partial(table_questions, kind=kind, question=own.question, answer=own.answer, built=built)
        named = [table.with_name(table.name + own.table) for table in tables]
        write_records(out, f"questions/{kind}.jsonl", "questions", named, asked)


RECIPE = Recipe(build, units, finish)
