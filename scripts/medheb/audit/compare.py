"""Two audit folders: of two sites, of two dates, or before and after an upstream change."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import Field

from medheb.audit.folder import AuditFolder, read_folder
from medheb.audit.judge import Verdicts
from medheb.audit.schema import Entry, FileDigests, SourceRecord, SourceRoots
from medheb.audit.tolerance import compare_grids
from medheb.audit.verdicts import EXIT_UNUSABLE, SCHEMA_VERSION, Area, Level, Unit, Verdict, exit_code, gravest, unit_of
from medheb.build.settings import other_settings
from medheb.core.errors import MedhebError
from medheb.manifest.base import Strict

LEVELS: tuple[Level, ...] = ("L0", "L1", "L2", "L3")
# What of the environment can change the bytes of a file while its content stays, or floating-point results.
BYTES = ("encoders",)
NUMBERS = ("cpu", "gpus", "platform", "python", "packages", "container")

SAME: tuple[Verdict, ...] = ("IDENTICAL", "EQUIVALENT", "NOT-BUILT")


class Comparison(Strict):
    """Result of a comparison: the JSON that ``medheb audit compare --json`` prints.

    ``levels`` say for each source at which levels the two differ. ``made`` names artefacts whose code or parameters
    differ, ``environment`` what differs between the two machines.
    """

    schema_version: int = SCHEMA_VERSION
    verdict: Verdict
    exit_code: int
    units: tuple[Unit, ...]
    levels: dict[str, tuple[Level, ...]] = Field(default_factory=dict)
    environment: dict[str, str] = Field(default_factory=dict)
    made: dict[str, str] = Field(default_factory=dict)
    explanation: tuple[str, ...] = ()


def compare(first: Path, second: Path) -> Comparison:
    """Compare two audit folders; the first one counts as the record, the second one as what is found.

    Neither the files nor the configuration are needed. Sources that are withheld in one of the two are compared by
    their roots.
    """
    folders: list[AuditFolder] = []
    broken: Verdicts = {}
    for label, path in (("first", first), ("second", second)):
        try:
            folders.append(read_folder(path))
            broken |= {f"{label}/{name}": ("MISMATCH", fault) for name, fault in folders[-1].faults.items()}
        except MedhebError as error:
            broken[f"{label}/roots.json"] = ("UNREADABLE", f"{error.fault}. {error.remedy}")
    record = unit_of("record", "audit folders", broken)
    if len(folders) < 2:
        return Comparison(verdict=record.verdict, exit_code=EXIT_UNUSABLE, units=(record,))
    one, two = folders
    names = list(dict.fromkeys((*one.roots.sources, *two.roots.sources)))
    units = [_source(one, two, name) for name in names]
    sections: tuple[tuple[Area, str, dict[str, Entry], dict[str, Entry]], ...] = (
        ("index", "task JSONs", one.roots.index.entries, two.roots.index.entries),
        ("scores", "scores", one.roots.scores.entries, two.roots.scores.entries),
        ("graded", "graded scores", one.roots.graded.entries, two.roots.graded.entries),
        ("embeddings", "embedded inputs", one.roots.embeddings.entries, two.roots.embeddings.entries),
    )
    units += [unit_of(area, title, _entries(before, after)) for area, title, before, after in sections]
    units.append(record)
    levels = {name: _levels(one.roots.sources.get(name), two.roots.sources.get(name)) for name in names}
    told = one.environment and two.environment
    environment = environment_differences(one.environment, two.environment) if told else {}
    return Comparison(
        verdict=gravest(unit.verdict for unit in units),
        exit_code=exit_code(units),
        units=tuple(units),
        levels={name: found for name, found in levels.items() if found},
        environment=environment,
        made=_made(one, two),
        explanation=(*_explain(units, levels, environment), *_untold(one, two)),
    )


def _levels(one: SourceRoots | None, two: SourceRoots | None) -> tuple[Level, ...]:
    if one is None or two is None:
        return ()
    return tuple(level for level in LEVELS if one.roots.get(level) != two.roots.get(level))


def _source(one: AuditFolder, two: AuditFolder, name: str) -> Unit:
    before, after = one.roots.sources.get(name), two.roots.sources.get(name)
    if before is None or after is None:
        verdict: Verdict = "EXTRA" if before is None else "MISSING"
        return unit_of("source", name, {name: (verdict, "is in one audit folder only")})
    if "built" not in (before.state, after.state):
        return unit_of("source", name, {name: ("NOT-BUILT", f"in both; {before.reason}")}, reason=before.reason)
    if before.state != after.state:
        where, reason = ("first", before.reason) if before.state != "built" else ("second", after.reason)
        return unit_of("source", name, {name: ("NOT-BUILT", f"in the {where}: {reason}")})
    first, second = one.records.get(name), two.records.get(name)
    made = _made_with(first, second) if first is not None and second is not None else ""
    upstream = "its archives differ (L0): upstream changed, or one of the two has another version"
    note = made or (upstream if before.roots.get("L0") != after.roots.get("L0") else "")
    if first is not None and second is not None and not first.withheld and not second.withheld:
        return unit_of("source", name, _files(first, second), reason=note)
    first, second = one.full_record(name), two.full_record(name)
    if first is not None and second is not None:
        reason = "; ".join(filter(None, ("by the full records that lie here; names are withheld", note)))
        return unit_of("source", name, _files(first, second), reason=reason, withheld=True)
    verdict, words = _by_roots(before, after)
    reason = "; ".join(filter(None, (words, note)))
    counts: dict[Verdict, int] = {verdict: max(after.file_count, 1)}
    return Unit(area="source", name=name, verdict=verdict, reason=reason, withheld=True, counts=counts)


def _by_roots(before: SourceRoots, after: SourceRoots) -> tuple[Verdict, str]:
    """Verdict over a source of which one of the two folders shows roots alone."""
    words = f"by roots alone; {before.file_count} files in the first, {after.file_count} in the second"
    same = {level: before.roots.get(level) == after.roots.get(level) for level in LEVELS}
    if same["L1"] or same["L2"]:
        return "IDENTICAL" if same["L1"] else "EQUIVALENT", words
    if before.exact is None or before.exact != after.exact:
        return "MISMATCH", words
    words += "; all without a declared tolerance are equal"
    if same["L3"]:
        return "WITHIN-TOLERANCE", f"{words}, and so are the block means of all radiographs"
    # Whether the grids are near one another cannot be told from roots, and grids would show the pictures.
    unknown = "their roots cannot tell whether within the tolerance"
    return "MISMATCH", f"{words}; radiographs differ, and {unknown}: compare where the full records (audit-private) lie"


def _made_with(first: SourceRecord, second: SourceRecord) -> str:
    recipes = [f"{record.recipe} {record.recipe_version}" for record in (first, second)]
    if recipes[0] != recipes[1]:
        return f"made with other recipes: {recipes[0]}, {recipes[1]}"
    others = other_settings(first.settings, second.settings)
    return f"made with other settings: {', '.join(others)}" if others else ""


def _files(first: SourceRecord, second: SourceRecord) -> Verdicts:
    verdicts: Verdicts = {}
    owners = {file.L2: path for path, file in sorted(first.files.items(), reverse=True)}
    for path in first.files.keys() | second.files.keys():
        before, after = first.files.get(path), second.files.get(path)
        if before is None or after is None:
            twin = owners.get(after.L2) if after is not None else None
            reason = f"is in the second only{f'; its content is that of {twin} in the first' if twin else ''}"
            verdicts[path] = ("EXTRA", reason) if before is None else ("MISSING", "is in the first only")
        else:
            verdicts[path] = _file(before, after, owners, path)
    return verdicts


def _file(before: FileDigests, after: FileDigests, owners: Mapping[str, str], path: str) -> tuple[Verdict, str]:
    if before.L1 == after.L1 and before.L2 == after.L2:
        return "IDENTICAL", ""
    if before.L2 == after.L2:
        return "EQUIVALENT", "bytes differ, content is equal"
    tolerance = ""
    if before.L3 is not None and after.L3 is not None:
        within, words = compare_grids(before.L3, after.L3)
        if within:
            return "WITHIN-TOLERANCE", f"pixels differ within the declared tolerance: {words}"
        tolerance = f"; out of the declared tolerance: {words}"
    twin = owners.get(after.L2)
    if twin is not None and twin != path:
        return "MISMATCH", f"holds in the second what {twin} holds in the first"
    return "MISMATCH", f"content differs{tolerance}"


def _entries(before: Mapping[str, Entry], after: Mapping[str, Entry]) -> Verdicts:
    verdicts: Verdicts = {}
    for name in before.keys() | after.keys():
        one, two = before.get(name), after.get(name)
        if one is None or two is None:
            verdicts[name] = ("EXTRA" if one is None else "MISSING", "is in one audit folder only")
        elif "built" not in (one.state, two.state):
            verdicts[name] = ("NOT-BUILT", f"in both; {one.reason}")
        elif one.state != two.state:
            where, reason = ("first", one.reason) if one.state != "built" else ("second", two.reason)
            verdicts[name] = ("NOT-BUILT", f"in the {where}: {reason}")
        elif one.digests == two.digests:
            verdicts[name] = ("IDENTICAL", "")
        elif one.digests.get("L2") == two.digests.get("L2"):
            verdicts[name] = ("EQUIVALENT", "image bytes or layout differ, contents are equal")
        else:
            more = f"; {one.count} records in the first, {two.count} in the second" if one.count != two.count else ""
            verdicts[name] = ("MISMATCH", f"content differs{more}")
    return verdicts


def environment_differences(one: Mapping[str, Any], two: Mapping[str, Any]) -> dict[str, str]:
    """What differs between two environments, by dotted name, in words."""
    flat = [_flat(environment) for environment in (one, two)]
    return {
        name: f"{flat[0].get(name, 'absent')} in the first, {flat[1].get(name, 'absent')} in the second"
        for name in sorted(flat[0].keys() | flat[1].keys())
        if flat[0].get(name) != flat[1].get(name)
    }


def _flat(content: Any, prefix: str = "") -> dict[str, str]:
    if isinstance(content, Mapping):
        found: dict[str, str] = {}
        for key, value in content.items():
            found |= _flat(value, f"{prefix}.{key}" if prefix else str(key))
        return found
    if isinstance(content, list):
        return {prefix: ", ".join(" ".join(_flat(item).values()) for item in content) or "none"}
    return {prefix: str(content)}


def _made(one: AuditFolder, two: AuditFolder) -> dict[str, str]:
    """Artefacts whose code or parameters differ."""
    if one.provenance is None or two.provenance is None:
        return {}
    before, after = one.provenance.artefacts, two.provenance.artefacts
    found: dict[str, str] = {}
    for name in sorted(before.keys() & after.keys()):
        differing = [
            field
            for field in ("rule", "inputs", "code", "settings")
            if getattr(before[name], field) != getattr(after[name], field)
        ]
        if differing:
            found[name] = f"other {' and '.join(differing)}"
    return found


def _untold(one: AuditFolder, two: AuditFolder) -> list[str]:
    """What cannot be compared, since a folder does not tell it."""
    return [
        f"The {label} folder has no {name}: {what} are not compared"
        for label, folder in (("first", one), ("second", two))
        for name, what, there in (
            ("provenance.json", "code and parameters", folder.provenance is not None),
            ("environment.json", "machines", bool(folder.environment)),
        )
        if not there and name not in folder.faults
    ]


def _explain(units: list[Unit], levels: Mapping[str, tuple[Level, ...]], environment: Mapping[str, str]) -> list[str]:
    """Sentences that connect differences of files with those of the machines."""
    lines: list[str] = []
    upstream = [name for name, found in levels.items() if "L0" in found]
    if upstream:
        lines.append(f"Archives differ (L0), so files may: {', '.join(upstream)}")
    if any("EQUIVALENT" in unit.counts for unit in units):
        encoders = [f"{name}: {text}" for name, text in environment.items() if name.startswith(BYTES)]
        known = "; ".join(encoders) or "none of the recorded image libraries differs"
        lines.append(f"Bytes differ where contents are equal (EQUIVALENT). Image libraries: {known}")
    if any("WITHIN-TOLERANCE" in unit.counts for unit in units):
        machines = [
            f"{name}: {text}" for name, text in environment.items() if name.startswith(("cpu", "gpus", "container"))
        ]
        lines.append(
            "Radiographs differ within their declared tolerance, so data roots differ, and with them digests of inputs "
            f"and scores. Processors: {'; '.join(machines) or 'as recorded'}"
        )
    scores = any("MISMATCH" in unit.counts for unit in units if unit.area in {"scores", "graded"})
    images = [unit for unit in units if unit.area in {"source", "index"}]
    if scores and all(unit.verdict in SAME for unit in images):
        numbers = [f"{name}: {text}" for name, text in environment.items() if name.startswith(NUMBERS)]
        shown = "; ".join(numbers[:8]) or "nothing that is recorded differs"
        lines.append(f"Scores differ though images and tasks are equal: a model's vectors differ. Machines: {shown}")
    return lines
