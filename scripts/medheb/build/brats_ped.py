"""Recipe ``brats_ped``: 64 slices of T1 and of T2 of every case, under ``train/t1n/<case>`` and so on.

``release`` chooses slices of the two modalities separately, as published, so that the same number need not be the
same level. ``corrected`` spaces them evenly over the common grid: equal numbers are equal levels.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from medheb.build.faults import folders_or_faults, require_use
from medheb.build.inventory import BuiltFile, Fact
from medheb.build.output import Output
from medheb.build.recipe import Recipe, Unit
from medheb.build.slices import MrRule, axial_slices, facts_of, file_with_ending, open_volume, write_mr
from medheb.build.slices import finish as finish_slices
from medheb.build.source import Source
from medheb.manifest.base import RelativePath, Strict


class Part(Strict):
    """One part of the source: ``volumes``, a folder of the download, ``slices``, the image folder, and its split."""

    volumes: str
    slices: RelativePath
    split: str


class Options(Strict):
    """``recipe.options``.

    Args:
        parts: the published parts.
        modalities: image folder of each, and how its file names end.
        rule: for grey values and slices.
    """

    parts: tuple[Part, ...]
    modalities: dict[str, str]
    rule: MrRule


def units(source: Source) -> Sequence[Unit]:
    """A modality of a case a unit; one that is missing or damaged does not keep back the other."""
    options = source.options(Options)
    there = source.parts(*(part.volumes for part in options.parts))
    found: list[Unit] = []
    for number, part in enumerate(options.parts):
        folder = there.get(part.volumes)
        if folder is None:
            continue
        cases = folders_or_faults(folder, found)
        if folder / part.volumes in cases:  # the training archive nests its folder
            cases = folders_or_faults(folder / part.volumes, found)
        found += [
            Unit(f"{part.slices} {case.name} {modality}", (number, modality, os.fspath(case)))
            for case in cases
            for modality in options.modalities
        ]
    return found


def build(source: Source, unit: Unit, out: Output) -> None:
    """Slices of one modality of one case.

    Raises:
        MedhebError: missing, damaged, or, under ``corrected``, claimed by two files or without signal.
    """
    number, modality, name = require_use(unit)
    options, case = source.options(Options), Path(name)
    part = options.parts[number]
    path = file_with_ending(source, case, options.modalities[modality], out)
    slices = axial_slices(source, open_volume(path), keep=True)
    facts: dict[str, Fact] = {
        "case": f"{case.name} {modality}",
        "study": case.name,
        "group": case.name.rpartition("-")[0],  # the last number counts the visits of a patient
        "split": part.split,
        "modality": modality,
        **facts_of(slices, path),
    }
    write_mr(source, out, f"{part.slices}/{modality}/{case.name}", slices, options.rule, facts)


def finish(source: Source, files: Sequence[BuiltFile], out: Output) -> None:
    """Lists of cases with both modalities, and counts."""
    finish_slices(source, files, out, frozenset(source.options(Options).modalities))


RECIPE = Recipe(build, units, finish)
