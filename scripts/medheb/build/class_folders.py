"""Recipe ``class_folders``: pictures that lie in one folder a class.

Serves Brain-Tumor-MRI, Kvasir and LC25000. No published script makes these; both protocols keep the files as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import Field

from medheb.build.inventory import BuiltFile
from medheb.build.kept_pictures import keep_file, pictures_below, read_kept
from medheb.build.output import Output
from medheb.build.recipe import Recipe, Unit
from medheb.build.source import Source
from medheb.build.splits import NOT_PUBLISHED, drawn_split, write_selections
from medheb.build.unusual import note_unusual
from medheb.core.errors import MedhebError
from medheb.manifest.base import RelativePath, Strict


class ClassFolders(Strict):
    """Settings of ``class_folders``."""

    inside: tuple[str, ...] = Field(
        default=(), description="names of the folder that holds the class folders, if the source has several parts"
    )
    labels: dict[str, str] = Field(min_length=2, description="folder name: label text")
    split: Literal["test", "drawn"] = Field(description="test: all of it is the test part; drawn: 7:3 by ourselves")
    folders: dict[Literal["train", "test"], RelativePath] = Field(description="where each split goes, below images")
    expected: tuple[int, ...] = Field(default=(), description="counts of known versions; another count is noted")


def _top(source: Source, options: ClassFolders) -> Path:
    """The folder under which the class folders lie."""
    if not options.inside:
        return source.folder_with(*options.labels)
    parent = source.folder_with(*options.inside)
    return next(parent / name for name in options.inside if (parent / name).exists())


def units(source: Source) -> Sequence[Unit]:
    """One unit a class folder, however deep; two folders of one class are refused."""
    options = source.options(ClassFolders)
    top = _top(source, options)
    found = []
    for folder in sorted(path for path in [top, *top.rglob("*")] if path.is_dir()):
        if folder.name in options.labels:
            found.append(Unit(folder.name, str(folder)))
        elif any(path.parent == folder for path in pictures_below(folder)):
            found.append(Unit(f"unknown class {folder.name}", str(folder)))
    missing = sorted(set(options.labels) - {unit.name for unit in found})
    if missing:
        raise MedhebError(top, f"has no class folder {', '.join(missing)}", "Fetch the source again, or mend unpack")
    return found


def build(source: Source, unit: Unit, out: Output) -> None:
    """Keep each picture of a class; a damaged one is refused.

    Raises:
        MedhebError: a folder whose name is no class.
    """
    options = source.options(ClassFolders)
    label = options.labels.get(unit.name)
    if label is None:
        fault = "holds pictures, but its name is no class"
        raise MedhebError(unit.data, fault, f"Classes are {', '.join(sorted(options.labels))}")
    for path in pictures_below(Path(unit.data)):
        try:
            kept = read_kept(path)
            # Equal pictures are one group, so that no picture is in both parts.
            group = kept.known.content
            split = drawn_split(source.seed, source.dataset.id, group) if options.split == "drawn" else "test"
            member = f"{unit.name}/{path.name}"
            place = f"{options.folders['test' if split == 'test' else 'train']}/{member}"
            keep_file(out, place, kept, kind="picture", label=label, split=split, group=group, member=member)
        except MedhebError as error:
            out.refuse(error)


def finish(source: Source, files: Sequence[BuiltFile], out: Output) -> None:
    """Selection lists, and a word on the count and the split."""
    options = source.options(ClassFolders)
    write_selections(files, out, ["picture"])
    note_unusual(files, out)
    if options.split == "drawn":
        out.note(NOT_PUBLISHED)
    if options.expected and len(files) not in options.expected:
        known = " or ".join(f"{count:,}" for count in options.expected)
        out.note(f"{len(files):,} pictures, where known versions have {known}")


RECIPE = Recipe(build, units, finish)
