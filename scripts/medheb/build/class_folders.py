"""Recipe ``class_folders``: pictures that lie in one folder a class.

Serves Brain-Tumor-MRI, Kvasir and LC25000. No published script makes these; both protocols keep the files as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import Field

from medheb.build.faults import require_use, walk
from medheb.build.inventory import BuiltFile
from medheb.build.kept_pictures import SUFFIXES, keep_file, pictures_below, read_kept
from medheb.build.output import Output
from medheb.build.recipe import Recipe, Unit
from medheb.build.source import Source
from medheb.build.splits import NOT_PUBLISHED, drawn_split, write_selections
from medheb.build.unusual import note_unusual
from medheb.core.errors import MedhebError
from medheb.manifest.base import RelativePath, Strict

TRAIN = "train "  # before the names of units of a training part


class ClassFolders(Strict):
    """Settings of ``class_folders``."""

    inside: tuple[str, ...] = Field(
        default=(), description="names of the folder that holds the class folders, if the source has several parts"
    )
    labels: dict[str, str] = Field(min_length=2, description="folder name: label text")
    training: tuple[str, ...] = Field(
        default=(), description="names of the folder that holds the class folders of the training part, if it is there"
    )
    split: Literal["test", "drawn"] = Field(description="test: all of it is the test part; drawn: 7:3 by ourselves")
    folders: dict[Literal["train", "test"], RelativePath] = Field(description="where each split goes, below images")
    groups_note: str | None = Field(default=None, description="what cannot be known of patients or source pictures")
    expected: tuple[int, ...] = Field(default=(), description="counts of known versions; another count is noted")


def _top(source: Source, options: ClassFolders) -> Path:
    """The folder under which the class folders lie."""
    if not options.inside:
        return source.folder_with(*options.labels)
    return source.find(*options.inside)


def units(source: Source) -> Sequence[Unit]:
    """One unit a class folder, however deep; two folders of one class are refused."""
    options = source.options(ClassFolders)
    found = _classes(_top(source, options), options, "")
    if options.training and source.folders_with(*options.training):
        found += _classes(source.find(*options.training), options, TRAIN)
    return found


def _classes(top: Path, options: ClassFolders, part: str) -> list[Unit]:
    """Class folders below ``top``; ``part`` stands before the names of their units.

    Raises:
        MedhebError: a class has none. A training part without one is no fault of the test.
    """
    found: list[Unit] = []
    faults: list[Unit] = []
    for folder, inner, names in walk(top, faults):
        found += [Unit(f"{part}{name}", str(folder / name)) for name in inner if name in options.labels]
        named = folder.name in options.labels
        if not named and any(Path(name).suffix.lower() in SUFFIXES for name in names):
            found.append(Unit(f"{part}unknown class {folder.name}", str(folder)))
    missing = sorted(set(options.labels) - {unit.name.removeprefix(part) for unit in found})
    if missing and not part:
        raise MedhebError(top, f"has no class folder {', '.join(missing)}", "Fetch the source again, or mend unpack")
    listed = {unit.data for unit in found}  # a class folder that cannot be listed is refused under its own name
    return [*found, *(fault for fault in faults if fault.data.where not in listed)]


def build(source: Source, unit: Unit, out: Output) -> None:
    """Keep each picture of a class; a damaged one is refused.

    Raises:
        MedhebError: a folder whose name is no class.
    """
    folder, options = require_use(unit), source.options(ClassFolders)
    name = unit.name.removeprefix(TRAIN)
    label = options.labels.get(name)
    if label is None:
        fault = "holds pictures, but its name is no class"
        raise MedhebError(folder, fault, f"Classes are {', '.join(sorted(options.labels))}")
    for path in pictures_below(Path(folder)):
        try:
            kept = read_kept(path)
            # Equal pictures are one group, so that no picture is in both parts.
            group = kept.known.content
            split = "train" if unit.name.startswith(TRAIN) else "test"
            if options.split == "drawn":
                split = drawn_split(source.seed, source.dataset.id, group)
            member = f"{name}/{path.name}"
            place = f"{options.folders['test' if split == 'test' else 'train']}/{member}"
            keep_file(out, place, kept, kind="picture", label=label, split=split, group=group, member=member)
        except MedhebError as error:
            out.refuse(error)


def finish(source: Source, files: Sequence[BuiltFile], out: Output) -> None:
    """Selection lists, and a word on the count and the split."""
    options = source.options(ClassFolders)
    write_selections(files, out, ["picture"])
    note_unusual(files, out)
    if options.groups_note:
        out.note(options.groups_note)
    if options.split == "drawn":
        out.note(NOT_PUBLISHED)
    count = sum(options.split == "drawn" or file.facts.get("split") == "test" for file in files)
    if options.expected and count not in options.expected:
        known = " or ".join(f"{number:,}" for number in options.expected)
        out.note(f"number of pictures: {count:,}, where known versions have {known}")


RECIPE = Recipe(build, units, finish)
