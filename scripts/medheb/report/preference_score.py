"""Counts the choices of a preference page: which model was preferred, by whether each was right at place one."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from scipy.stats import binomtest

from medheb.core.errors import MedhebError
from medheb.manifest.base import Strict, read_json, validate
from medheb.manifest.load import Run
from medheb.report.preference import SCHEMA_VERSION, Key, key_files
from medheb.report.words import p_value, percent

STRATA = ("all", "both right", "only first right", "only second right", "neither right")


class Choices(Strict):
    """What the page saves."""

    schema_version: int
    key: str
    choices: dict[str, Literal["left", "tie", "right"]]


def score_choices(key: Key, choices: Choices) -> list[dict[str, Any]]:
    """One row a stratum: how many choices, shares preferred and tied, p of no preference (exact, ties left out).

    Raises:
        MedhebError: choices of another page, another version, or for a question that the key does not hold.
    """
    again = "Save the choices again from the page that belongs to this key"
    if choices.schema_version != SCHEMA_VERSION:
        raise MedhebError("the choices", f"have schema version {choices.schema_version}", again)
    if choices.key != key.digest:
        raise MedhebError("the choices", "belong to another page or key", again)
    questions = {question.id: question for question in key.questions}
    counts = {stratum: {"first": 0, "tie": 0, "second": 0} for stratum in STRATA}
    for name, choice in choices.choices.items():
        if name not in questions:
            raise MedhebError("the choices", f"name question {name!r}, which the key does not hold", again)
        question = questions[name]
        winner = "tie" if choice == "tie" else question.left if choice == "left" else question.right
        place = "tie" if winner == "tie" else "first" if winner == key.first else "second"
        right = (question.first_right, question.second_right)
        stratum = STRATA[1 + [(True, True), (True, False), (False, True), (False, False)].index(right)]
        for group in ("all", stratum):
            counts[group][place] += 1
    rows = []
    for stratum in STRATA:
        found = counts[stratum]
        total, decided = sum(found.values()), found["first"] + found["second"]
        rows.append(
            {
                "stratum": stratum,
                "choices": total,
                **{f"{place}_share": found[place] / total if total else None for place in found},
                "p": float(binomtest(found["first"], decided).pvalue) if decided else None,
            }
        )
    return rows


def score_command(run: Run, path: Path, console: Console, as_json: bool) -> None:
    """Find the key that a file of choices belongs to, and print the counts.

    Raises:
        MedhebError: no such file, or no key of this run that it belongs to.
    """
    choices = validate(Choices, read_json(path, "Save it again from the page"), path)
    keys = [validate(Key, read_json(file, "Write the page again"), file) for file in key_files(run)]
    key = next((key for key in keys if key.digest == choices.key), None)
    if key is None:
        raise MedhebError(path, "belongs to no preference page of this run", "Name the run's --config, or its own file")
    rows = score_choices(key, choices)
    if as_json:
        console.print_json(data={"first": key.first, "second": key.second, "asked": len(key.questions), "rows": rows})
        return
    console.print(f"{len(choices.choices)} of {len(key.questions)} comparisons made", highlight=False)
    table = Table(box=SIMPLE_HEAD, show_edge=False)
    for heading in ("At place one", "n", f"{key.first} %", "tie %", f"{key.second} %", "p"):
        table.add_column(heading, justify="left" if heading == "At place one" else "right")
    for row in rows:
        shares = [row[f"{place}_share"] for place in ("first", "tie", "second")]
        stratum = row["stratum"].replace("first", key.first).replace("second", key.second)
        table.add_row(
            stratum,
            str(row["choices"]),
            *("\u2013" if share is None else percent(share) for share in shares),
            "\u2013" if row["p"] is None else p_value(row["p"]).removeprefix("= "),
        )
    console.print(table)
