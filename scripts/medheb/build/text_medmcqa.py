"""Recipe ``medmcqa``: exam questions with the text of the right option.

The publisher withholds the answers of its own test part, so the development part is the test. Options are numbered
from 1 here; a copy that numbers them from 0 is another edition and is refused, as every answer would be wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from medheb.build.output import Output
from medheb.build.recipe import Recipe, Unit
from medheb.build.source import Source
from medheb.build.text_pairs import RECORDS, TRAINING, Row, collected, plain, rows_of_json, text_of, write_pairs
from medheb.core.errors import MedhebError
from medheb.manifest.base import Strict

CHOICES = ("opa", "opb", "opc", "opd")


class Options(Strict):
    """``recipe.options``.

    Args:
        test: file of the rows for tasks.
        train: file of the rows for training.
    """

    test: str
    train: str


def units(source: Source) -> list[Unit]:
    """The two parts."""
    options = source.options(Options)
    folder = source.folder_with(options.test)
    return [Unit(RECORDS, str(folder / options.test)), Unit(TRAINING, str(folder / options.train))]


def build(_: Source, unit: Unit, out: Output) -> None:
    """One part.

    Raises:
        MedhebError: missing, not JSON lines, or an edition that numbers options from 0.
    """
    path = Path(unit.data)
    if any(row.get("cop") in (0, "0") for _, row in rows_of_json(path)):
        raise MedhebError(
            unit.data, "numbers its options from 0, not from 1", "Get the publisher's own file, not the hub's copy"
        )
    made = collected(rows_of_json(path), _row, out)  # read again: with its explanations the part is large
    seen: dict[str, str] = {}
    for row in made:
        row["group"] = seen.setdefault(plain(row["query"]), row["id"])
    write_pairs(out, made, unit.name)
    doubtful = sum(sum(plain(choice) == plain(row["target"]) for choice in row["choices"]) > 1 for row in made)
    if doubtful:
        out.note(f"{unit.name}: rows that have the right answer twice among their options: {doubtful}")


def _row(where: str, row: Mapping[str, Any]) -> Row:
    number = str(row.get("cop"))
    if number not in {"1", "2", "3", "4"}:
        raise MedhebError(where, f"has the answer number {number}, not 1 to 4", "Nothing to do: the others are used")
    choices = [text_of(row, [name], where) for name in CHOICES]
    return {
        "id": text_of(row, ["id"], where),
        "query": text_of(row, ["question"], where),
        "target": choices[int(number) - 1],
        "choices": choices,
        "subject": str(row.get("subject_name") or ""),
        "topic": str(row.get("topic_name") or ""),
        "kind": str(row.get("choice_type") or ""),
    }


RECIPE = Recipe(build, units)
