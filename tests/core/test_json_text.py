"""Whatever a JSON text holds, reading it ends in a value or a ValueError."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import medheb
from medheb.core.json_text import DEEPEST, parse_json

PACKAGE = Path(medheb.__file__).parent
# They read back what they wrote themselves a moment before, or a file of the package.
OWN = {
    "build/inventory.py",
    "embed/ranks.py",
    "imaging/drr/beam.py",
    "imaging/drr/deepdrr_process.py",
    "imaging/drr/deepdrr_runner.py",
    "report/compare.py",
    "train/checkpoint.py",
}


def nested(levels: int) -> str:
    return "[" * levels + "]" * levels


def test_values_are_read_as_the_library_reads_them() -> None:
    text = '{"a": [1, 2.5, "[[[["], "b": {"c": null}}'
    value = {"a": [1, 2.5, "[[[["], "b": {"c": None}}
    assert parse_json(text) == parse_json(text.encode()) == parse_json(bytearray(text.encode())) == value
    assert parse_json(text.encode("utf-16")) == value
    assert parse_json("7") == 7
    assert parse_json('{"a": NaN}', parse_constant=str, object_pairs_hook=list) == [("a", "NaN")]


def test_brackets_are_counted_by_depth_not_by_number() -> None:
    assert len(parse_json("[" + "[[]]," * 5000 + "{}]")) == 5001
    assert parse_json(nested(DEEPEST))
    mixed = '{"a":[' * (DEEPEST // 2)
    assert parse_json(mixed + "]}" * (DEEPEST // 2))


@pytest.mark.parametrize(
    "text",
    [nested(DEEPEST + 1), nested(900), '{"a":' * 101 + "1" + "}" * 101, "[" * 100_000, '{"a":' * 100_000],
    ids=["one too many", "as deep as Python goes", "objects", "open lists", "open objects"],
)
def test_what_is_nested_too_deeply_is_a_value_error(text: str) -> None:
    for form in (text, text.encode(), text.encode("utf-16")):
        with pytest.raises(ValueError, match="nested too deeply"):
            parse_json(form)


def test_no_module_reads_json_of_others_in_another_way() -> None:
    found = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and node.attr in {"load", "loads"} and ast.unparse(node.value) == "json":
                found.add(path.relative_to(PACKAGE).as_posix())
    assert found - {"core/json_text.py"} == OWN
