"""Graded relevance (paper 5.4 and 5.5): written rules that say how much a candidate is worth for a query."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, Self, get_args

from pydantic import Field, model_validator

from medheb.core.errors import MedhebError
from medheb.manifest.base import Identifier, Strict, TaskKey, read_yaml, validate
from medheb.manifest.task import Task

GRADED_FILE = "graded.yaml"
Aspect = Literal["severity", "laterality", "diagnosis", "cell-tissue", "cross-source"]
ASPECTS: tuple[Aspect, ...] = get_args(Aspect)
Gain = Annotated[float, Field(gt=0, lt=1)]


def plain(name: str) -> str:
    """A class name as names are compared: spelling of case, blanks and signs does not count."""
    return " ".join(re.findall(r"[a-z0-9]+", name.casefold()))


class Relation(Strict):
    """What all relations say.

    The gain of a candidate of the query's own class is 1, of an unrelated one 0.
    """

    fact: Identifier = Field(default="label", description="fact of the inventory that names the class of a picture")
    hit: Literal["full", "any"] = Field(
        default="full", description="what counts for Hit@k: a candidate with gain 1, or with any gain"
    )
    note: str = Field(min_length=3, description="why candidates of these classes are related")


class Steps(Relation):
    """Classes in an order, such as grades of a disease; the gain falls with the number of steps between two."""

    kind: Literal["steps"]
    classes: tuple[str, ...] = Field(min_length=3, description="all classes, from one end to the other")
    gains: tuple[Gain, ...] = Field(min_length=1, description="gain one step apart, two steps apart, ...; then 0")
    queries: tuple[str, ...] = Field(default=(), description="classes whose queries count; empty: all")

    @model_validator(mode="after")
    def _sound(self) -> Self:
        _require_distinct(self.classes)
        _require_known(self.queries, self.classes)
        if list(self.gains) != sorted(self.gains, reverse=True):
            raise ValueError("gains that do not rise with distance")
        return self


class Group(Strict):
    """Classes that are worth something for one another."""

    gain: Gain
    classes: tuple[str, ...] = Field(min_length=2)


class Groups(Relation):
    """Classes in groups, such as one organ's two sides; the gain is the largest of the groups that hold both."""

    kind: Literal["groups"]
    classes: tuple[str, ...] = Field(min_length=2, description="all classes")
    groups: tuple[Group, ...] = Field(min_length=1)
    queries: tuple[str, ...] = Field(default=(), description="classes whose queries count; empty: all")

    @model_validator(mode="after")
    def _sound(self) -> Self:
        _require_distinct(self.classes)
        _require_known(self.queries, self.classes)
        for group in self.groups:
            _require_distinct(group.classes)
            _require_known(group.classes, self.classes)
        return self


class Overlap(Relation):
    """Sets of labels; the gain is their Jaccard overlap."""

    kind: Literal["overlap"]
    classes: tuple[str, ...] = Field(min_length=2, description="the shared vocabulary")

    @model_validator(mode="after")
    def _sound(self) -> Self:
        _require_distinct(self.classes)
        return self


AnyRelation = Annotated[Steps | Groups | Overlap, Field(discriminator="kind")]


def _require_distinct(names: tuple[str, ...]) -> None:
    if len({plain(name) for name in names}) < len(names):
        raise ValueError("each class once")


def _require_known(names: tuple[str, ...], classes: tuple[str, ...]) -> None:
    known = {plain(name) for name in classes}
    for name in names:
        if plain(name) not in known:
            raise ValueError(f"classes of the list 'classes' ('{name}' is none)")


class GradedEntry(Strict):
    """One graded task: queries and pools of a task of ``tasks.tsv``, or of a row of its own, with gains."""

    key: TaskKey
    aspect: Aspect
    relation: Identifier
    task: TaskKey | None = Field(default=None, description="task of tasks.tsv whose queries and pools it takes")
    row: Task | None = Field(default=None, description="else a task of its own, as a row of tasks.tsv would have it")

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.task is None) == (self.row is None):
            raise ValueError("either 'task' or 'row'")
        if self.row is not None and self.row.task != self.key:
            raise ValueError("a row whose task is the key")
        return self


class Graded(Strict):
    """Content of ``graded.yaml``."""

    note: str = Field(min_length=3, description="where the gains come from")
    relations: dict[Identifier, AnyRelation] = Field(min_length=1)
    entries: tuple[GradedEntry, ...] = Field(min_length=1)


def load_graded(folder: Path, tasks: Mapping[str, Task]) -> Graded | None:
    """The graded tasks of a manifest set; None where it has none.

    Raises:
        MedhebError: a wrong key or value, an entry that occurs twice, or one that names something unknown.
    """
    path = folder / GRADED_FILE
    if not path.exists():
        return None
    graded = validate(Graded, read_yaml(path), path)
    seen: set[str] = set()
    for entry in graded.entries:
        if entry.relation not in graded.relations:
            known = ", ".join(sorted(graded.relations))
            raise MedhebError(path, f"entry {entry.key} names relation '{entry.relation}'", f"Allowed: {known}")
        if entry.task is not None and entry.task not in tasks:
            raise MedhebError(path, f"entry {entry.key} names task '{entry.task}'", "Take a task of tasks.tsv")
        index = entry.row.index if entry.row else None
        if entry.key in tasks or any(index == task.index for task in tasks.values()):
            raise MedhebError(path, f"entry {entry.key} has key or index of a task of tasks.tsv", "Give it its own")
        if entry.key in seen:
            raise MedhebError(path, f"holds entry '{entry.key}' twice", "Give each its own key")
        seen.add(entry.key)
    return graded
