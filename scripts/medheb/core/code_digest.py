"""Digest of the code behind a step, so that changed code reruns exactly the steps that use it.

Comments, docstrings and layout do not count: a comment must never rerun a GPU job. Snakemake itself
does not notice a changed library module.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from medheb.core.digests import json_digest, sha256_bytes
from medheb.core.known_code import KnownCode, user_file

PACKAGE = "medheb"
KNOWN = KnownCode(user_file())
ROOT = Path(__file__).resolve().parent.parent  # the package's folder


@cache
def module_path(module: str) -> Path | None:
    """File of a module of this package, None if it is no module (an imported name, say)."""
    stem = ROOT.joinpath(*module.split(".")[1:])
    for path in (stem / "__init__.py", stem.with_name(f"{stem.name}.py")):
        if path.is_file():
            return path
    return None


@cache
def _parse(module: str) -> tuple[str, tuple[str, ...]]:
    """Digest of a module's code, and the modules of this package that it imports."""
    path = module_path(module)
    if path is None:
        raise ModuleNotFoundError(module)
    text = path.read_bytes()
    found = KNOWN.get(text)
    if found is None:
        found = _look(text)
        KNOWN.put(text, found)
    digest, imported = found
    return digest, tuple(name for name in imported if module_path(name))


def _look(text: bytes) -> tuple[str, tuple[str, ...]]:
    """Digest of a module's code, and all names of this package in its imports, modules or not."""
    tree = ast.parse(text)
    imported: set[str] = set()
    for node in _statements(tree):
        if isinstance(node, ast.Import):
            imported.update(alias.name for alias in node.names if alias.name.split(".")[0] == PACKAGE)
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == PACKAGE:
            imported.add(node.module)
            imported.update(f"{node.module}.{alias.name}" for alias in node.names)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            match node.body:
                case [ast.Expr(value=ast.Constant(value=str()) as docstring), *_]:
                    docstring.value = ""
    digest = sha256_bytes(ast.dump(tree, annotate_fields=False).encode())
    return digest, tuple(sorted(imported))


def _statements(tree: ast.Module) -> Iterator[ast.AST]:
    """The module, and every statement and clause in it: imports and docstrings stand nowhere else."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            # An expression has a body too (lambda, x if y else z), but that is no list.
            if isinstance(inside := getattr(node, field, None), list):
                waiting.extend(inside)


@cache
def code_digest(module: str, without: str = "") -> str:
    """Short digest over ``module`` and every module of this package that it imports, directly or not.

    Args:
        module: where to start.
        without: a module that does not count, because what matters of it counts elsewhere (a table of names, say).
    """
    seen: dict[str, str] = {}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name in seen or name == without:
            continue
        seen[name], imported = _parse(name)
        waiting.extend(imported)
    return json_digest(seen)[:16]
