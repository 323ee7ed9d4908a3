"""Recipe ``synthrad2023``: 64 slices of CT and MR of every case, under ``images/ct/<case>`` and ``images/mri/<case>``.

``release`` takes CT slices from the whole volume and MR slices from the informative ones, as published, so that the
same number need not be the same level. ``corrected`` spaces both evenly over their common grid. The test part with
its CT is not public, so the published split is unknown.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from medheb.build.faults import claimed_twice, folders_or_faults, require_use
from medheb.build.inventory import BuiltFile, Fact
from medheb.build.output import Output
from medheb.build.recipe import Recipe, Unit
from medheb.build.slices import MrRule, Window, axial_slices, facts_of, open_volume, write_ct, write_mr
from medheb.build.slices import finish as finish_slices
from medheb.build.source import Source
from medheb.build.splits import NOT_PUBLISHED, drawn_split
from medheb.manifest.base import RelativePath, Strict

CT_FILE, MR_FILE = "ct.nii.gz", "mr.nii.gz"


class Region(Strict):
    """Grey values of one body region: CT window and MR rule."""

    ct: Window
    mr: MrRule


class Options(Strict):
    """``recipe.options``.

    Args:
        regions: by folder of the download.
        not_cases: folders among the cases that are none.
        ct: image folder of CT slices.
        mr: image folder of MR slices.
        intercepts: rescale intercepts of the scanners.
    """

    regions: dict[str, Region]
    not_cases: tuple[str, ...]
    ct: RelativePath
    mr: RelativePath
    intercepts: tuple[int, ...]


def units(source: Source) -> Sequence[Unit]:
    """A volume a unit; regions share their output folders, so one id in two of them is refused."""
    options = source.options(Options)
    faults: list[Unit] = []
    cases = [
        (region, case)
        for region, folder in sorted(source.parts(*options.regions).items())
        for case in folders_or_faults(folder, faults)
        if case.name not in options.not_cases
    ]
    claims: dict[str, list[Path]] = {}
    for _, case in cases:
        claims.setdefault(case.name, []).append(case)
    twice = {name: claimed_twice(f"the case {name}", paths) for name, paths in claims.items() if len(paths) > 1}
    return [
        *faults,
        *(
            Unit(f"{region} {case.name} {file}", twice.get(case.name, (region, os.fspath(case / file))))
            for region, case in cases
            for file in (CT_FILE, MR_FILE)
        ),
    ]


def build(source: Source, unit: Unit, out: Output) -> None:
    """Slices of one volume.

    Raises:
        MedhebError: missing or damaged; a CT that is not HU; an MR without signal under ``corrected``.
    """
    region, name = require_use(unit)
    options, path = source.options(Options), Path(name)
    modality = "CT" if path.name == CT_FILE else "MR"
    case = path.parent.name
    slices = axial_slices(source, open_volume(path), keep=modality == "MR")
    facts: dict[str, Fact] = {
        "case": f"{case} {modality}",
        "study": case,
        "group": case,
        "split": drawn_split(source.seed, source.dataset.id, case),
        "region": region,
        "modality": modality,
        **facts_of(slices, path, 3),
    }
    own = options.regions[region]
    if modality == "CT":
        write_ct(source, out, f"{options.ct}/{case}", slices, own.ct, options.intercepts, facts)
    else:
        write_mr(source, out, f"{options.mr}/{case}", slices, own.mr, facts)


def finish(source: Source, files: Sequence[BuiltFile], out: Output) -> None:
    """Lists, counts, and that the split is ours."""
    finish_slices(source, files, out, frozenset({"CT", "MR"}))
    out.note(NOT_PUBLISHED)


RECIPE = Recipe(build, units, finish)
