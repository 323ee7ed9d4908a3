"""Slices of CT and MR volumes as pictures: what the recipes of NIfTI and NRRD sources share.

``release`` cuts slices as they are stored and takes MR slices from the informative ones only, as the published
scripts do. ``corrected`` turns every volume to the radiological display and spaces the slices evenly over the whole
of it, as the paper says; so registered volumes of a case show the same levels.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from medheb.build.faults import claimed_twice
from medheb.build.inventory import BuiltFile, Fact
from medheb.build.output import Output
from medheb.build.rights import children, is_there
from medheb.build.source import Source
from medheb.core.errors import MedhebError
from medheb.imaging.axial import AxialSlices, Each, is_sheared
from medheb.imaging.foreground import Foreground, normalised
from medheb.imaging.hounsfield import REMEDY, HounsfieldCheck
from medheb.imaging.nifti import open_nifti
from medheb.imaging.nrrd import open_nrrd
from medheb.imaging.sampling import listed_indices, range_indices, slots_of, uniform_indices
from medheb.imaging.stored import StoredVolume
from medheb.imaging.windows import Picture, to_uint8, window_range
from medheb.manifest.base import Strict

SLOTS = 64
NUMBERED = re.compile(r"(\d+)")
Facts = Mapping[str, Fact]


class Window(Strict):
    """A CT window in HU."""

    level: float
    width: float = Field(gt=0)

    def __str__(self) -> str:
        return f"{self.level:g}/{self.width:g}"


class MrRule(Strict):
    """How an MR volume becomes grey, and which slices ``release`` takes.

    Args:
        lower: percentile of the voxels above 0 that becomes black.
        upper: the one that becomes white.
        share: voxels above 0 in an informative slice, at least.
        sampling: ``listed`` or ``listed_floor``, evenly in the list of informative slices (a list shorter than the
            slots is rounded or cut off); ``range``, evenly from the first to the last of them.
    """

    lower: float = Field(ge=0, lt=100)
    upper: float = Field(gt=0, le=100)
    share: float = Field(gt=0, lt=1)
    sampling: Literal["listed", "listed_floor", "range"]

    def indices(self, informative: Sequence[int], total: int) -> list[int]:
        """The slices that the published scripts take."""
        if self.sampling == "range":
            return range_indices(informative, total, SLOTS)
        return listed_indices(informative, total, SLOTS, "round" if self.sampling == "listed" else "floor")


def file_with_ending(source: Source, case: Path, ending: str, out: Output) -> Path:
    """The one file of a case folder whose name ends so; ``release`` takes the first of several, as published.

    Raises:
        MedhebError: none, or several under ``corrected``; the folder cannot be listed.
    """
    found = [path for path in children(case) if path.name.endswith(ending)]
    if not found:
        raise MedhebError(case / f"{case.name}{ending}", "is missing", "Complete the copy; the other files are built")
    if len(found) > 1:
        fault = claimed_twice(f"{case.name}{ending}", found)
        if not source.release:
            raise MedhebError(fault.where, fault.fault, fault.remedy)
        out.remark(fault.where, fault.fault, "The first by name is taken, as published")
    return found[0]


def open_volume(path: Path) -> StoredVolume:
    """Open a NIfTI or NRRD volume by its name.

    Raises:
        MedhebError: see the readers.
    """
    if not is_there(path):
        raise MedhebError(path, "is missing", "Complete the copy; the other files are built")
    return open_nrrd(path) if path.name.endswith(".nrrd") else open_nifti(path)


def axial_slices(source: Source, volume: StoredVolume, assumed: str | None = None, keep: bool = False) -> AxialSlices:
    """The volume's slices under the protocol of the build; see :class:`AxialSlices`."""
    return AxialSlices(volume, displayed=not source.release, assumed=assumed, keep=keep)


def facts_of(slices: AxialSlices, path: Path, depth: int = 2) -> dict[str, Fact]:
    """What is recorded of every picture of a volume: member, axis codes, transform, and what is odd about it."""
    volume = slices.volume
    return {
        "member": "/".join(path.parts[-depth:]),
        "axis_codes": volume.axis_codes or ("damaged" if volume.affine is None else "not stated"),
        "sheared": True if volume.affine is not None and is_sheared(volume.affine) else None,
        "transform": slices.transform,
        "slices": slices.count,
    }


def remark_odd(out: Output, slices: AxialSlices) -> None:
    """List the volume if its header or its number of slices is odd, and what was made of it.

    What makes a volume of no use is refused where it is met; these are built, as the published scripts build them.
    """
    volume, as_stored = slices.volume, slices.transform.startswith("as stored")
    how = (
        "Its slices are cut as stored" if as_stored else "Its axes are taken to be those of the source's other volumes"
    )
    if volume.affine is None:
        out.remark(volume.where, volume.damage, how)
    elif not volume.oriented:
        out.remark(volume.where, "does not say how it lies", how)
    elif is_sheared(volume.affine):
        out.remark(
            volume.where, "has a sheared grid, as a tilted gantry leaves it", "Its slices are cut along the grid"
        )
    if slices.count < SLOTS:
        words = f"has fewer slices than pictures, {slices.count} for {SLOTS}"
        out.remark(volume.where, words, "Some pictures show the same slice")


def write_slices(
    out: Output,
    folder: str,
    slices: AxialSlices,
    indices: Sequence[int],
    shown: Callable[[Any], Picture],
    facts: Facts,
    each: Each | None = None,
) -> None:
    """Write ``slice_000.png`` and so on: slot ``i`` shows slice ``indices[i]``.

    Args:
        out: of the unit.
        folder: below the image folder.
        slices: of the volume.
        indices: slice of each slot; repeats allowed.
        shown: a slice as a picture.
        facts: of every picture.
        each: see :meth:`AxialSlices.planes`.
    """
    slots = slots_of(indices)
    for number, plane in slices.planes(slots, each):
        picture = shown(plane)
        for slot in slots[number]:
            out.picture(f"{folder}/slice_{slot:03d}.png", picture, kind="slice", slot=slot, slice=number, **facts)


def write_ct(
    source: Source,
    out: Output,
    folder: str,
    slices: AxialSlices,
    window: Window,
    intercepts: Sequence[int],
    facts: Facts,
    each: Each | None = None,
) -> None:
    """Slices of a CT, evenly over the whole volume, in one pass; the values are checked in the same pass.

    Args:
        source: of the build.
        out: of the unit.
        folder: below the image folder.
        slices: of the volume.
        window: of the pictures.
        intercepts: rescale intercepts of the source's scanners.
        facts: of every picture.
        each: is called with each stored slice too.

    Raises:
        MedhebError: the values are not HU. ``release`` refuses only a rescaling that is beyond doubt.
    """
    check = HounsfieldCheck()

    def checked(index: int, plane: Any) -> None:
        check.add(plane)
        if each:
            each(index, plane)

    low, high = window_range(window.level, window.width)
    indices = uniform_indices(0, slices.count - 1, SLOTS)
    own: Facts = {**facts, "window": str(window)}
    write_slices(out, folder, slices, indices, lambda plane: to_uint8(plane, low, high), own, checked)
    where, mistake, doubt = slices.volume.where, check.mistake(intercepts), check.fault()
    if mistake or (doubt and not source.release):
        raise MedhebError(where, str(mistake or doubt), REMEDY)
    if doubt:
        out.remark(where, doubt, "It is built as published")
    remark_odd(out, slices)


def write_mr(source: Source, out: Output, folder: str, slices: AxialSlices, rule: MrRule, facts: Facts) -> None:
    """Slices of an MR volume, with one grey range for all of them.

    Args:
        source: of the build.
        out: of the unit.
        folder: below the image folder.
        slices: of the volume; read twice.
        rule: of the source.
        facts: of every picture.

    Raises:
        MedhebError: no signal, or one value only as in a mask; ``release`` gives black slices then.
    """
    foreground, numbers = Foreground(), []
    for number, plane in slices.planes():
        foreground.add(plane)
        numbers.append(number)
    grey = foreground.grey_range(rule.lower, rule.upper)
    if grey is None:
        fault = "holds one value in all voxels above 0, as a mask does" if foreground.size else "holds no voxel above 0"
        if not source.release:
            raise MedhebError(slices.volume.where, fault, "Check the file; an MR volume has signal")
        out.remark(slices.volume.where, fault, "Its slices are black, as published")
    if source.release:
        informative = sorted(numbers[place] for place in foreground.informative(rule.share))
        indices = rule.indices(informative, slices.count)
    else:
        indices = uniform_indices(0, slices.count - 1, SLOTS)
    ends = f"{grey.low:g} to {grey.high:g}" if grey else "none"
    own: Facts = {**facts, "window": f"percentiles {rule.lower:g}-{rule.upper:g}: {ends}"}
    write_slices(out, folder, slices, indices, lambda plane: normalised(plane, grey), own)
    remark_odd(out, slices)


def finish(source: Source, files: Sequence[BuiltFile], out: Output, together: frozenset[str] = frozenset()) -> None:
    """Lists of the cases of each split, and counts of what is odd about the volumes.

    Args:
        source: of the build.
        files: of all units.
        out: of the source's last step.
        together: modalities that a case of a paired source needs: one that lacks any of them is in no list.
    """
    first = {file.facts["case"]: file.facts for file in files if file.facts.get("kind") == "slice"}
    modalities: dict[str, set[str]] = {}
    for facts in first.values():
        modalities.setdefault(_study(facts), set()).add(str(facts["modality"]))
    alone = {study for study, own in modalities.items() if not together <= own}
    if alone:
        out.note(f"{len(alone)} cases lack one of {', '.join(sorted(together))}, so no list has them")
    splits: dict[str, set[str]] = {}
    for facts in first.values():
        if _study(facts) not in alone:
            splits.setdefault(str(facts.get("split") or "all"), set()).add(_study(facts))
    for split, studies in sorted(splits.items()):
        listed = sorted(studies, key=_by_numbers)
        out.lines(f"selection/{split}.txt", listed, kind="selection", split=None if split == "all" else split)
    odd = Counter[str]()
    for facts in first.values():
        odd["fewer slices than pictures, so that some show the same slice"] += int(facts["slices"] or 0) < SLOTS
        odd["a header without usable orientation"] += facts["axis_codes"] in {"damaged", "not stated"}
        odd["a sheared grid"] += bool(facts.get("sheared"))
    for words, count in odd.items():
        if count:
            out.note(f"{count} of {len(first)} volumes have {words}")


def _study(facts: Facts) -> str:
    """Name that the volumes of one case share."""
    return str(facts.get("study") or facts["case"])


def _by_numbers(name: str) -> list[tuple[int, str]]:
    """``case_2`` before ``case_10``."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in NUMBERED.split(name)]
