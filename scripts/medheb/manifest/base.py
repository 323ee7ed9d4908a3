"""Shared parts of the typed models, and errors that name file, key, value and what is allowed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, TypeVar

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, StringConstraints, ValidationError

from medheb.core.errors import MedhebError
from medheb.core.json_text import parse_json

ID_PATTERN = r"^[a-z0-9][a-z0-9_]*$"
TASK_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_-]*$"


def check_relative(path: str) -> str:
    """``path`` itself, if it stays inside its folder.

    Raises:
        ValueError: it does not; the message says what is allowed.
    """
    # Asked several times for each of millions of files, hence without a loop.
    up = ".." in path and ".." in path.split("/")
    if up or not path or path[0] == "/" or "\\" in path or ":" in path or "\0" in path:
        raise ValueError("a path inside its folder: no leading /, no .., no backslash or colon")
    return path


Identifier = Annotated[str, StringConstraints(pattern=ID_PATTERN)]
TaskKey = Annotated[str, StringConstraints(pattern=TASK_PATTERN)]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Md5 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")]
RelativePath = Annotated[str, AfterValidator(check_relative)]


class Strict(BaseModel):
    """Base of all typed models: unknown keys are errors and values do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True)


ModelT = TypeVar("ModelT", bound=BaseModel)


def describe_faults(error: ValidationError, where: str | Path) -> MedhebError:
    """One line for the first fault: file, key, what stands there, what is allowed."""
    faults = error.errors(include_url=False)
    fault = faults[0]
    key = ".".join(str(part) for part in fault["loc"]) or "(whole file)"
    context: dict[str, Any] = fault.get("ctx", {})
    if fault["loc"] and str(fault["loc"][-1]).startswith("literal["):
        # One word or a list: pydantic reports each alternative as a key of its own.
        key = ".".join(str(part) for part in fault["loc"][:-1])
        context = {"expected": f"{context['expected']}, or a list such as [{fault['input']}]"}
        faults = faults[:1]
    if fault["type"] == "extra_forbidden":
        problem, remedy = f"key '{key}' is not known", "Remove it or correct its spelling"
    elif fault["type"] == "missing":
        problem, remedy = f"key '{key}' is missing", "Add it; the schema in workflow/schemas says what it holds"
    else:
        value = repr(fault["input"])
        shown = value if len(value) <= 80 else value[:77] + "..."
        problem = f"key '{key}' is {shown}"
        if "expected" in context:
            remedy = f"Allowed: {context['expected']}"
        elif "expected_tags" in context:
            remedy = f"Allowed for its key {context['discriminator']}: {context['expected_tags']}"
        elif "pattern" in context:
            remedy = f"Allowed: text that matches {context['pattern']}"
        else:
            allowed = fault["msg"].removeprefix("Input should be ").removeprefix("Value error, ")
            remedy = f"Allowed: {allowed.split(' or instance of ')[0].replace('dictionary', 'set of keys and values')}"
    more = f" (and {len(faults) - 1} more faults in this file)" if len(faults) > 1 else ""
    return MedhebError(where, problem, remedy + more)


# The same loader over libyaml, where PyYAML was built with it: every job reads all manifests.
_SafeLoader: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _UniqueKeys(_SafeLoader):  # type: ignore[misc, valid-type]
    """The safe loader, but a key that stands twice is an error: which of the two was meant?"""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """A mapping without repeated keys (merged ones, ``<<``, may be overridden)."""
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                raise yaml.MarkedYAMLError(problem=f"key '{key}' stands twice", problem_mark=key_node.start_mark)
            seen.add(key)
        return dict(super().construct_mapping(node, deep))


def read_yaml(path: Path) -> Any:
    """Parse a YAML file.

    Raises:
        MedhebError: missing or not YAML; names the line.
    """
    try:
        return yaml.load(path.read_text(encoding="utf-8"), Loader=_UniqueKeys)  # noqa: S506 - a SafeLoader
    except FileNotFoundError:
        raise MedhebError(path, "does not exist", "Check the path; it is relative to the folder you run in") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f" at line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or "it is not UTF-8 text"
        raise MedhebError(path, f"is not valid YAML{line}: {problem}", "Correct it there") from error


def read_json(path: Path, remedy: str) -> Any:
    """Parse a JSON file that one of our own steps wrote.

    Raises:
        MedhebError: missing or not JSON; ``remedy`` says which step makes it again.
    """
    try:
        return parse_json(path.read_bytes())
    except FileNotFoundError:
        raise MedhebError(path, "is missing", remedy) from None
    except ValueError as error:
        raise MedhebError(path, f"is not JSON ({error})", f"Delete it. {remedy}") from error


def validate(model: type[ModelT], content: Any, where: str | Path) -> ModelT:
    """Check ``content`` against ``model``.

    Raises:
        MedhebError: the first fault, in one line.
    """
    try:
        return model.model_validate(content)
    except ValidationError as error:
        raise describe_faults(error, where) from error
