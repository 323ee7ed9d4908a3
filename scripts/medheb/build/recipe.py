"""What a build recipe is: how a source falls into units of work, and how one unit becomes pictures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medheb.build.inventory import BuiltFile
from medheb.build.output import Output
from medheb.build.source import Source


@dataclass(frozen=True)
class Unit:
    """A part of a source that is built on its own: a case, a table, a block of rows.

    A unit that fails is left out with its reason; a unit that is done is not done again after a crash.

    Args:
        name: unique within the source, the same on every machine.
        data: what the builder needs; it crosses process borders, so plain values and paths.
    """

    name: str
    data: Any = None


WHOLE = (Unit("whole source"),)


def one_unit(_: Source) -> Sequence[Unit]:
    """For small sources: everything at once."""
    return WHOLE


@dataclass(frozen=True)
class Recipe:
    """Functions of module level, so that worker processes find them.

    Args:
        build: make one unit's files.
        units: list the units; cheap, and in the same order everywhere (it is sorted by name again).
        finish: called once with all files in path order; writes lists and tables over the whole source.
        links: called with the benchmark folder and the staging folder before the rename, for sources whose files
            stay where they are.
        ready: called once before units are built in this process; refuses what no unit of the build could do here.
    """

    build: Callable[[Source, Unit, Output], None]
    units: Callable[[Source], Sequence[Unit]] = one_unit
    finish: Callable[[Source, Sequence[BuiltFile], Output], None] | None = None
    links: Callable[[Source, Path, Path], None] | None = None
    ready: Callable[[Source], None] | None = None
