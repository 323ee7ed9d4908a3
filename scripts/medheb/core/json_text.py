"""JSON that somebody else may have written: reading it ends in a value or a ``ValueError``, whatever stands there."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

# No file of ours or of a source comes near it, and no reader that goes down into a value runs out of stack.
DEEPEST = 100
TOO_DEEP = "nested too deeply"


def parse_json(
    text: str | bytes | bytearray,
    object_pairs_hook: Callable[[list[tuple[str, Any]]], Any] | None = None,
    parse_constant: Callable[[str], Any] | None = None,
) -> Any:
    """The value of a JSON text; the other arguments are those of :func:`json.loads`.

    Raises:
        ValueError: it is no JSON, or is nested more than ``DEEPEST`` levels deep: Python's own limit ends in an
            error that no reader expects, and depends on the version and on who calls.
    """
    try:
        value = json.loads(text, object_pairs_hook=object_pairs_hook, parse_constant=parse_constant)
    except RecursionError:
        raise ValueError(TOO_DEEP) from None
    # Most texts have too few brackets for it, and counting them is quick.
    opened = text.count("[") + text.count("{") if isinstance(text, str) else text.count(b"[") + text.count(b"{")
    if opened > DEEPEST and too_deep(value):
        raise ValueError(TOO_DEEP)
    return value


def too_deep(value: Any) -> bool:
    """True if lists and objects stand in one another more than ``DEEPEST`` levels deep."""
    level = _containers([value])
    for _ in range(DEEPEST):
        if not level:
            return False
        level = [part for node in level for part in _containers(node.values() if isinstance(node, dict) else node)]
    return bool(level)


def _containers(values: Any) -> list[Any]:
    return [value for value in values if isinstance(value, (dict, list))]
