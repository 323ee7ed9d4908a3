"""Generate what is derived from the typed models: JSON Schemas and the commented default configuration.

A test fails when the files in the repository differ; ``medheb schema --fix`` mends them.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping
from pathlib import Path

import yaml
from pydantic import BaseModel

from medheb.core.files import write_text
from medheb.manifest.cluster import Cluster
from medheb.manifest.config import Config
from medheb.manifest.dataset import Dataset
from medheb.manifest.graded import Graded
from medheb.manifest.model import ModelList
from medheb.manifest.protocol import Protocol
from medheb.manifest.released import ReleasedIndex
from medheb.manifest.rules import Rules
from medheb.manifest.task import Task

SCHEMAS: dict[str, type[BaseModel]] = {
    "config": Config,
    "cluster": Cluster,
    "dataset": Dataset,
    "task": Task,
    "index": ReleasedIndex,
    "models": ModelList,
    "protocol": Protocol,
    "rules": Rules,
    "graded": Graded,
}
NOTHING_MORE: Mapping[str, type[BaseModel]] = {}
HEAD = """\
# All options of a run, with their defaults. Generated from the typed model by `medheb schema --fix`;
# edit values freely, or keep your own in a second file: `snakemake all --configfile my.yaml`.
"""


def json_schema(model: type[BaseModel]) -> str:
    """JSON Schema (2020-12) of one kind of file, as text."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **model.model_json_schema()}
    return json.dumps(schema, indent=2, sort_keys=True) + "\n"


def default_config() -> str:
    """``config/config.yaml``: every option with its description and default."""
    return HEAD + "\n" + "\n".join(_lines(Config, 0)) + "\n"


def _lines(model: type[BaseModel], depth: int) -> list[str]:
    indent = "  " * depth
    lines: list[str] = []
    for name, field in model.model_fields.items():
        default = field.default
        if isinstance(default, BaseModel):
            lines += [f"{indent}# {type(default).__doc__}", f"{indent}{name}:", *_lines(type(default), depth + 1)]
        else:
            lines += textwrap.wrap(
                field.description or "", 110, initial_indent=f"{indent}# ", subsequent_indent=f"{indent}# "
            )
            value = yaml.safe_dump(default, default_flow_style=True, explicit_end=False).removesuffix("...\n").strip()
            lines.append(f"{indent}{name}: {value}")
        if depth == 0:
            lines.append("")
    return lines[:-1] if depth == 0 else lines


def generated_files(root: Path, outputs: Mapping[str, type[BaseModel]] = NOTHING_MORE) -> dict[Path, str]:
    """All generated files below the repository root, with the content that they should have.

    Args:
        root: of the repository.
        outputs: further models by name: those of what commands print, which lie in higher rooms.
    """
    models = {**SCHEMAS, **outputs}
    files = {
        root / "workflow" / "schemas" / f"{name}.schema.json": json_schema(model) for name, model in models.items()
    }
    return {root / "config" / "config.yaml": default_config(), **files}


def drifted(root: Path, outputs: Mapping[str, type[BaseModel]] = NOTHING_MORE) -> list[Path]:
    """Generated files that are missing or differ from the models."""
    return [
        path
        for path, content in generated_files(root, outputs).items()
        if not path.exists() or path.read_text(encoding="utf-8") != content
    ]


def regenerate(root: Path, outputs: Mapping[str, type[BaseModel]] = NOTHING_MORE) -> list[Path]:
    """Write the files that differ; returns them."""
    changed = drifted(root, outputs)
    content = generated_files(root, outputs)
    for path in changed:
        write_text(path, content[path])
    return changed
