"""Rules by which task rows are made: ``rules.yaml`` beside ``tasks.tsv``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field

from medheb.manifest.base import Identifier, Strict, read_yaml, validate

RULES_FILE = "rules.yaml"
# What holds where a rule says nothing else (docs/index.md).
TEST_ROWS = 1000  # cap of a test
LOCAL_IMAGES = 10  # candidates of a row
LOCAL_TEXTS = 30


class IndexRule(Strict):
    """One rule: a builder of ``medheb.index`` with its settings."""

    builder: Identifier = Field(description="function of medheb.index.builders that makes the rows")
    note: str = Field(default="", description="why it is so, where nothing was published")
    options: dict[str, Any] = Field(default_factory=dict, description="checked by the builder itself")


class Rules(Strict):
    """Content of ``rules.yaml``: rules by the name that the column ``builder`` of ``tasks.tsv`` has."""

    rules: dict[Identifier, IndexRule] = Field(min_length=1)


def load_rules(folder: Path) -> dict[str, IndexRule]:
    """The rules of a manifest set; none where it has no file of them.

    Raises:
        MedhebError: a wrong key or value.
    """
    path = folder / RULES_FILE
    return dict(validate(Rules, read_yaml(path), path).rules) if path.exists() else {}
