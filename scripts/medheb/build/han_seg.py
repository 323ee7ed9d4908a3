"""Recipe ``han_seg``: 64 slices of CT and of MR of every case, under ``CT_slides/<case>`` and ``MRI_slides/<case>``.

The two are not registered. There is no public test part, so the published split is unknown. Masks (``.seg.nrrd``) lie
beside the volumes and are told apart by name.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from pydantic import Field

from medheb.build.inventory import BuiltFile, Fact
from medheb.build.output import Output
from medheb.build.recipe import Recipe, Unit
from medheb.build.rights import folders_in
from medheb.build.slices import MrRule, Window, axial_slices, facts_of, open_volume, write_ct, write_mr
from medheb.build.slices import finish as finish_slices
from medheb.build.source import Source
from medheb.build.splits import NOT_PUBLISHED, drawn_split
from medheb.manifest.base import RelativePath, Strict


class Stack(Strict):
    """One modality: how its files end after the case's name, its image folder, and its CT window or MR rule."""

    ending: str
    slices: RelativePath
    ct: Window | None = None
    mr: MrRule | None = None


class Options(Strict):
    """``recipe.options``.

    Args:
        cases: folder of the download with a folder for each case.
        stacks: by modality.
        intercepts: rescale intercepts of the scanners.
    """

    cases: str
    stacks: dict[str, Stack] = Field(min_length=1)
    intercepts: tuple[int, ...]


def units(source: Source) -> Sequence[Unit]:
    """A modality of a case a unit; one that is missing or damaged does not keep back the other."""
    options = source.options(Options)
    folder = source.find(options.cases)
    return [
        Unit(f"{case.name} {modality}", (modality, os.fspath(case / f"{case.name}{stack.ending}")))
        for case in folders_in(folder)
        for modality, stack in options.stacks.items()
    ]


def build(source: Source, unit: Unit, out: Output) -> None:
    """Slices of one volume.

    Raises:
        MedhebError: missing or damaged; a CT that is not HU; an MR without signal under ``corrected``.
    """
    modality, name = unit.data
    options, path = source.options(Options), Path(name)
    stack, case = options.stacks[modality], path.parent.name
    slices = axial_slices(source, open_volume(path), keep=stack.mr is not None)
    facts: dict[str, Fact] = {
        "case": f"{case} {modality}",
        "study": case,
        "group": case,
        "split": drawn_split(source.seed, source.dataset.id, case),
        "modality": modality,
        **facts_of(slices, path),
    }
    folder = f"{stack.slices}/{case}"
    if stack.ct:
        write_ct(source, out, folder, slices, stack.ct, options.intercepts, facts)
    if stack.mr:
        write_mr(source, out, folder, slices, stack.mr, facts)


def finish(source: Source, files: Sequence[BuiltFile], out: Output) -> None:
    """Lists, counts, and that the split is ours."""
    finish_slices(source, files, out, frozenset(source.options(Options).stacks))
    out.note(NOT_PUBLISHED)


RECIPE = Recipe(build, units, finish)
