"""File names that rules build, for repositories whose listing takes too long.

A rule is a path in which braces are replaced, in one of two forms:

* ``data/train-{00..04}-of-05.parquet``, ``labels/{train,valid}.csv``: a range (as wide as it is written) or a choice.
* ``valid/{VolumeName:2}/{VolumeName:3}/{VolumeName} <- metadata/valid.csv``: one path a row of a table of the same
  repository. ``{Column}`` is the row's value, ``{Column:2}`` its first two parts between underscores.
"""

from __future__ import annotations

import csv
import itertools
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from medheb.core.errors import MedhebError

BRACES = re.compile(r"\{([^{}]*)\}")
RANGE = re.compile(r"(\d+)\.\.(\d+)")
COLUMN = re.compile(r"([^:{}]+?)(?::(\d+))?")
FROM_TABLE = " <- "
MAX_NAMES = 1_000_000


def build_names(where: str, rules: tuple[str, ...], table: Callable[[str], Path]) -> list[str]:
    """All paths that the rules give, each once, sorted.

    Args:
        where: named in errors.
        rules: see above.
        table: fetches a table of the repository and returns where it lies.

    Raises:
        MedhebError: a rule that cannot be read, or a table without its column.
    """
    names: set[str] = set()
    for rule in rules:
        path, arrow, source = rule.partition(FROM_TABLE)
        for name in _rows(where, rule, path, table(source)) if arrow else _expanded(where, rule):
            names.add(name)
            if len(names) > MAX_NAMES:
                raise _bad(where, rule, f"gives more than {MAX_NAMES} names")
    return sorted(names)


def _expanded(where: str, rule: str) -> Iterator[str]:
    parts = BRACES.split(rule)
    choices = [[part] if number % 2 == 0 else _choices(where, rule, part) for number, part in enumerate(parts)]
    return ("".join(chosen) for chosen in itertools.product(*choices))


def _choices(where: str, rule: str, text: str) -> list[str]:
    if match := RANGE.fullmatch(text):
        first, last = match.groups()
        if not int(first) <= int(last) < int(first) + MAX_NAMES:
            raise _bad(where, rule, f"has the range {text}")
        return [f"{number:0{len(first)}d}" for number in range(int(first), int(last) + 1)]
    if "," in text:
        return text.split(",")
    raise _bad(where, rule, f"has {{{text}}}, which is neither a range nor a choice")


def _rows(where: str, rule: str, path: str, table: Path) -> Iterator[str]:
    with table.open(encoding="utf-8-sig", newline="") as stream:
        try:
            reader = csv.DictReader(stream)
            columns, rows = set(reader.fieldnames or ()), list(reader)
        except (csv.Error, UnicodeDecodeError):
            raise _bad(where, rule, "names a table that is not CSV in UTF-8") from None
    for text in BRACES.findall(path):
        match = COLUMN.fullmatch(text)
        if match is None or match.group(1) not in columns:
            raise _bad(where, rule, f"names the column {text!r}, which its table does not have")
    for row in rows:
        yield BRACES.sub(lambda braces, row=row: _value(braces.group(1), row), path)  # type: ignore[misc]


def _value(text: str, row: dict[str, str]) -> str:
    column, _, parts = text.partition(":")
    value = row[column] or ""
    return "_".join(value.split("_")[: int(parts)]) if parts else value


def _bad(where: str, rule: str, fault: str) -> MedhebError:
    return MedhebError(where, f"host.names rule {rule!r} {fault}", "Correct the rule in the manifest")
