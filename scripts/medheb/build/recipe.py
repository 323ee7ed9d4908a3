"""What a build recipe is given and what it hands back."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from medheb.build.inventory import Fact
from medheb.core.errors import MedhebError
from medheb.core.files import write_text
from medheb.imaging.png import write_png
from medheb.imaging.windows import Picture
from medheb.manifest.base import ModelT, describe_faults
from medheb.manifest.dataset import Dataset


@dataclass(frozen=True)
class RecipeResult:
    """Files that a recipe wrote, path below the image folder to facts, and what it has to say."""

    files: Mapping[str, Mapping[str, Fact]]
    notes: Sequence[str] = ()


@dataclass
class RecipeContext:
    """One run of a recipe.

    Args:
        dataset: the source's access manifest.
        files: folder of its unpacked files; read only.
        out: empty folder that becomes the image folder.
    """

    dataset: Dataset
    files: Path
    out: Path
    _written: dict[str, dict[str, Fact]] = field(default_factory=dict, init=False)
    _notes: list[str] = field(default_factory=list, init=False)

    def options(self, model: type[ModelT]) -> ModelT:
        """The manifest's ``recipe.options`` as ``model``.

        Raises:
            MedhebError: a wrong key or value.
        """
        try:
            return model.model_validate(self.dataset.recipe.options)
        except ValidationError as error:
            raise describe_faults(error, f"manifest of {self.dataset.id}, recipe.options") from error

    def source(self, relative: str) -> Path:
        """A file or folder of the source.

        Raises:
            MedhebError: it is not there.
        """
        path = self.files / relative
        if not path.exists():
            raise MedhebError(path, "is missing from the unpacked source", "Fetch the source again, or mend unpack")
        return path

    def _claim(self, path: str, facts: Mapping[str, Fact]) -> Path:
        if path in self._written:
            raise MedhebError(f"{self.dataset.id}: {path}", "would be written twice", "Give each picture its own name")
        self._written[path] = dict(facts)
        return self.out / path

    def picture(self, path: str, pixels: Picture, **facts: Fact) -> None:
        """Write a grey picture (H, W) as PNG and note its facts."""
        write_png(self._claim(path, facts), pixels)

    def records(self, path: str, rows: Sequence[Mapping[str, Any]], **facts: Fact) -> None:
        """Write rows as JSON lines (sorted keys, UTF-8) and note the file's facts."""
        lines = (json.dumps(row, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n" for row in rows)
        write_text(self._claim(path, facts), "".join(lines))

    def note(self, text: str) -> None:
        """Say what was skipped or is thin, in words for the report."""
        self._notes.append(text)

    def result(self) -> RecipeResult:
        """Everything written so far."""
        return RecipeResult(self._written, tuple(self._notes))


RecipeFunction = Callable[[RecipeContext], RecipeResult]


@dataclass(frozen=True)
class RegisteredRecipe:
    """A recipe function and the version of what it makes; manifests pin the version they were checked with."""

    function: RecipeFunction
    version: int
