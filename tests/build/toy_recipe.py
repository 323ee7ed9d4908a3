"""A recipe for tests: each ``<case>.txt`` of the source holds a grey level and becomes one picture."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from medheb.build.inventory import BuiltFile
from medheb.build.output import Output
from medheb.build.recipe import Recipe, Unit
from medheb.build.source import Source
from medheb.core.errors import MedhebError


def units(source: Source) -> Sequence[Unit]:
    """One unit a text file, in the order of the file system."""
    folder = source.folder_with("cases")
    return [Unit(path.stem.split("-")[0], os.fspath(path)) for path in (folder / "cases").iterdir()]


def build(source: Source, unit: Unit, out: Output) -> None:
    """A picture of one level; ``release`` makes it one darker. Every call leaves a line in ``calls``."""
    with (source.files / "calls").open("a") as calls:
        calls.write(f"{unit.name}\n")
    path = Path(unit.data)
    text = path.read_text()
    level = int(text) if text.strip().isdecimal() else None
    out.picture(f"{unit.name}/first.png", np.zeros((2, 2), np.uint8), split="train")
    if level is None:
        raise MedhebError(path, "is not a number", "Write a number")
    level -= source.release
    out.picture(f"{unit.name}/level.png", np.full((2, 3), level, np.uint8), split="test", level=level)


def finish(source: Source, files: Sequence[BuiltFile], out: Output) -> None:
    """A list of all pictures."""
    out.lines("all.txt", (file.path for file in files))


RECIPE = Recipe(build, units, finish)
