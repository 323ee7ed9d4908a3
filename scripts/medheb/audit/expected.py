"""Expected roots: what a run or a test must make on every machine, and what may change it.

``manifests/expected/<set>.json`` holds L0 and L2 roots only. Bytes of images (L1) depend on the machine's zlib, vectors
and scores on its processor; docs/determinism.md says which is which. Pictures that declare a tolerance stand apart,
each with its mean grey level.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pydantic import Field

from medheb.audit.folder import AuditFolder
from medheb.audit.provenance import Artefact
from medheb.audit.schema import read_part
from medheb.audit.tolerance import LARGEST, read_grid
from medheb.audit.tree import something_at
from medheb.audit.verdicts import Verdict
from medheb.core.digests import merkle_root
from medheb.core.errors import MedhebError
from medheb.core.files import write_json
from medheb.manifest.base import Strict

FOLDER = Path("manifests/expected")
# In the words of a maintainer: why a root may change.
CAUSES = {
    "inputs": "what it is made from",
    "made": "the recipe or its version",
    "settings": "its settings",
}


class Item(Strict):
    """One source, task JSON or test input. ``inputs``, ``made`` and ``settings`` are what may change its root."""

    L2: str = Field(description="root over everything but tolerant pictures, or digest of a task JSON")
    tolerant: dict[str, float] = Field(default_factory=dict, description="mean grey level of each tolerant picture")
    count: int = Field(ge=0, description="files or records")
    inputs: str = Field(default="", description="L0 root of the archives; for a task, root over its sources")
    made: str = Field(description="recipe or builder, and its version")
    settings: str = Field(default="", description="digest of options and switches")


class Expected(Strict):
    """``manifests/expected/<set>.json``."""

    schema_version: int = 1
    reason: str = Field(description="why it was last updated, where nothing recorded explains it")
    items: dict[str, Item]


class Change(Strict):
    """One difference: what, why it may be, and whether anything explains it."""

    name: str
    verdict: Verdict
    what: str
    why: str = ""
    explained: bool = True


def expected_path(name: str, root: Path = Path()) -> Path:
    """The file of a set."""
    return root / FOLDER / f"{name}.json"


def read_expected(path: Path) -> Expected:
    """Read expected roots.

    Raises:
        MedhebError: missing, not JSON, a wrong value, or another schema version.
    """
    if not something_at(path):
        remedy = "Write it from a finished run that is known to be right: medheb audit expect --update"
        raise MedhebError(path, "is missing", remedy)
    return read_part(path, Expected)


def items_of(folder: AuditFolder) -> tuple[dict[str, Item], dict[str, str]]:
    """What an audit folder found, by name, and what was not built with its reason.

    Raises:
        MedhebError: the folder contradicts itself or says not how things were made.
    """
    if folder.faults:
        name, fault = next(iter(folder.faults.items()))
        raise MedhebError(folder.path / name, fault, "Record again: snakemake audit")
    if folder.provenance is None:
        raise MedhebError(folder.path / "provenance.json", "is missing", "Record again: snakemake audit")
    items: dict[str, Item] = {}
    absent: dict[str, str] = {}
    artefacts = folder.provenance.artefacts
    for dataset, source in folder.roots.sources.items():
        name = f"source/{dataset}"
        if source.state != "built":
            absent[name] = source.reason
            continue
        files = folder.records[dataset].files
        items[name] = Item(
            L2=merkle_root({path: file.L2 for path, file in files.items() if file.L3 is None})
            if files
            else source.roots["L2"],
            tolerant={path: grid_mean(file.L3) for path, file in files.items() if file.L3 is not None},
            count=source.file_count,
            inputs=source.roots["L0"],
            made=_made(artefacts[name], "recipe", "recipe_version"),
            settings=artefacts[name].settings,
        )
    for key, entry in folder.roots.index.entries.items():
        name = f"index/{key}"
        if entry.state != "built":
            absent[name] = entry.reason
            continue
        sources = {used: items[used].L2 for used in artefacts[name].inputs if used in items}
        items[name] = Item(
            L2=entry.digests["L2"],
            count=entry.count,
            inputs=merkle_root(sources),
            made=_made(artefacts[name], "builder", "task_index"),
            settings=artefacts[name].settings,
        )
    return items, absent


def _made(artefact: Artefact, *names: str) -> str:
    return " ".join(str(artefact.parameters[name]) for name in names)


def changes(expected: Mapping[str, Item], found: Mapping[str, Item], absent: Mapping[str, str]) -> list[Change]:
    """All differences by name. A root that changes while nothing that may change it does is not explained."""
    listed: list[Change] = []
    for name in sorted(expected.keys() | found.keys() | absent.keys()):
        if name in absent:
            listed.append(Change(name=name, verdict="NOT-BUILT", what=f"was not built: {absent[name]}"))
        elif name not in found:
            listed.append(Change(name=name, verdict="MISSING", what="is expected and not there"))
        elif name not in expected:
            listed.append(Change(name=name, verdict="EXTRA", what="is new"))
        elif not _same(expected[name], found[name]):
            listed.append(_change(name, expected[name], found[name]))
    return listed


def grid_mean(text: str) -> float:
    """Mean grey level of a picture from its L3 description."""
    return round(float(read_grid(text).means.mean()), 2)


def tolerant_apart(before: Item, after: Item) -> str:
    """The first tolerant picture that is missing, new or too bright or dark, in words; else an empty text."""
    for path in sorted(before.tolerant.keys() | after.tolerant.keys()):
        one, two = before.tolerant.get(path), after.tolerant.get(path)
        if one is None or two is None:
            return f"{path} is {'new' if one is None else 'missing'}"
        if abs(one - two) > LARGEST:
            return f"{path} has mean grey level {two}, expected {one}"
    return ""


def _same(before: Item, after: Item) -> bool:
    alike = before.model_copy(update={"tolerant": {}}) == after.model_copy(update={"tolerant": {}})
    return alike and not tolerant_apart(before, after)


def _change(name: str, before: Item, after: Item) -> Change:
    causes = [words for field, words in CAUSES.items() if getattr(before, field) != getattr(after, field)]
    if before.made != after.made:
        causes.append(f"{before.made} -> {after.made}")
    why = f"may change, since these did: {', '.join(causes)}" if causes else ""
    if before.L2 == after.L2 and not (apart := tolerant_apart(before, after)):
        return Change(name=name, verdict="EQUIVALENT", what="has the same root", why=why or "only the count differs")
    number = f", {before.count} -> {after.count} files or records" if before.count != after.count else ""
    unexplained = "nothing that may change it did: find the cause, or raise the recipe's version"
    what = f"has root {after.L2[:20]}, expected {before.L2[:20]}{number}"
    if before.L2 == after.L2:
        what = f"has other radiographs: {apart}"
    return Change(
        name=name,
        verdict="MISMATCH",
        what=what,
        why=why or unexplained,
        explained=bool(causes),
    )


def update(path: Path, found: Mapping[str, Item], absent: Mapping[str, str], reason: str = "") -> list[Change]:
    """Write what was found as the expectation, and return what changed.

    Raises:
        MedhebError: something was not built, or changed without an explanation while no ``reason`` is given.
    """
    before = read_expected(path).items if path.exists() else {}
    listed = changes(before, found, absent)
    if absent:
        name, why = next(iter(absent.items()))
        raise MedhebError(name, f"was not built ({why}), so nothing can be expected of it", "Run everything first")
    unexplained = [change.name for change in listed if not change.explained]
    if unexplained and not reason:
        raise MedhebError(
            path,
            f"would change without an explanation: {', '.join(unexplained)}",
            "Find the cause or raise the recipe's version; if it is as it should be, say why with --reason",
        )
    if listed:
        write_json(path, Expected(reason=reason, items=dict(found)).model_dump())
    return listed
