"""Imports never point upward (docs/architecture.md, "Rooms of the package")."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "scripts" / "medheb"
ROOMS = [
    "core",
    "manifest",
    "fetch",
    "imaging",
    "build",
    "index",
    "models",
    "embed",
    "train",
    "evaluate",
    "report",
    "audit",
    "cluster",
]
TOP = ["workflow", "driver", "cli", "__main__"]
# imaging knows no source, build no model, evaluate no source's recipe and no adapter's insides.
FORBIDDEN = {"imaging": {"fetch", "manifest"}, "build": {"models"}}


def imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("medheb."):
            found.add(node.module.split(".")[1])
        elif isinstance(node, ast.Import):
            found |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("medheb.")}
    return found


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_down(path: Path) -> None:
    parts = path.relative_to(PACKAGE).parts
    if len(parts) == 1:
        return
    room = parts[0]
    allowed = set(ROOMS[: ROOMS.index(room) + 1]) - FORBIDDEN.get(room, set())
    assert imports(path) <= allowed


def test_every_room_is_known() -> None:
    assert {path.name for path in PACKAGE.iterdir() if path.is_dir() and path.name != "__pycache__"} == set(ROOMS)
    assert {path.stem for path in PACKAGE.glob("*.py")} == {*TOP, "__init__"}
