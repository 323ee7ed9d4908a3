"""Recipe ``brats_men``: 64 slices of T1 without contrast of every test case.

The test cases are those of the reports' published split that have an impression; without these files in the copy, all
cases are built. A later archive of the publisher (FIX-V4) replaces volumes of some cases under the same names; whether
the benchmark used it is unknown. ``corrected`` takes them, ``release`` does not, and every picture says which it was.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field

from medheb.build.faults import Fault, claimed_twice, fault_unit, require_use, walk
from medheb.build.inventory import BuiltFile, Fact
from medheb.build.output import Output
from medheb.build.recipe import Recipe, Unit
from medheb.build.rights import children, is_file, is_folder
from medheb.build.slices import MrRule, axial_slices, facts_of, file_with_ending, open_volume, write_mr
from medheb.build.slices import finish as finish_slices
from medheb.build.source import SEARCH_DEPTH, Source
from medheb.build.tables import read_json_file, read_text
from medheb.build.volume_texts import built_volumes, texts_of_cases, write_records
from medheb.core.errors import MedhebError
from medheb.manifest.base import RelativePath, Strict

# The published script leaves folders with the names of the cases beside the volumes.
FIRST_SLICE = "slice_000.png"


class Options(Strict):
    """``recipe.options``.

    Args:
        cases: pattern of the names of case folders.
        ending: of the volumes' names.
        slices: image folder.
        fix: part of the name of the folder with replaced volumes.
        split: JSON of the reports' split; its lists of test ids carry a modality at the end.
        impressions: JSON of the impressions.
        rule: for grey values and slices.
    """

    cases: str = Field(min_length=1)
    ending: str
    slices: RelativePath
    fix: str
    split: str
    impressions: RelativePath
    rule: MrRule


def units(source: Source) -> Sequence[Unit]:
    """A test case a unit."""
    options = source.options(Options)
    folders: dict[str, list[Path]] = {}
    replaced: dict[str, list[Path]] = {}
    found: list[Unit] = []
    for path in _claims(source, re.compile(options.cases), found):
        inside = path.relative_to(source.files).parts
        if any(options.fix.lower() in part.lower() for part in inside):
            try:
                volumes = [path] if is_file(path) else children(path)
            except MedhebError as error:
                found.append(fault_unit(f"replacement {path.relative_to(source.files)}", error))
                continue
            for volume in volumes:
                if volume.name.endswith(options.ending):
                    replaced.setdefault(volume.name.removesuffix(options.ending), []).append(volume)
        elif is_folder(path) and not os.path.lexists(path / FIRST_SLICE):
            folders.setdefault(path.name, []).append(path)
    wanted = _test_cases(source, options)
    for case, paths in folders.items():
        if wanted is not None and case not in wanted:
            continue
        fixes = replaced.get(case, [])
        if len(paths) > 1 or len(fixes) > 1:
            found.append(Unit(case, claimed_twice(case, paths if len(paths) > 1 else fixes)))
        else:
            found.append(Unit(case, (os.fspath(paths[0]), os.fspath(fixes[0]) if fixes else None)))
    for case in sorted((wanted or set()) - folders.keys()):
        fault = f"has no case {case}, though the reports' split lists it for the test"
        found.append(Unit(case, Fault(str(source.files), fault, "Complete the copy; the other cases are built")))
    return found


def _claims(source: Source, cases: re.Pattern[str], faults: list[Unit]) -> Iterator[Path]:
    """Case folders, and single volumes of a case that lie in other folders; not what a build left there."""
    top = source.files
    for folder, names, files in walk(top, faults):
        if folder != top and source.is_built(folder):
            names.clear()
            continue
        yield from (folder / name for name in names if cases.fullmatch(name))
        yield from (folder / name for name in files if cases.match(name))
        deep = len(folder.relative_to(top).parts) >= SEARCH_DEPTH
        names[:] = [] if deep else [name for name in names if not cases.fullmatch(name)]


def _test_cases(source: Source, options: Options) -> set[str] | None:
    """Cases of the reports' test list that have an impression; ``None`` where the copy lacks the split."""
    try:
        root = source.folder_with(options.split)
    except MedhebError:
        return None
    case = re.compile(options.cases)
    listed = {match[0] for text in _test_ids(read_json_file(root / options.split)) if (match := case.match(text))}
    if not listed:
        fault = "lists no test case of this source"
        raise MedhebError(root / options.split, fault, "Get the publisher's own file, or remove it to build all cases")
    impressions = root / options.impressions
    if not is_file(impressions):
        return listed
    return listed & set(case.findall(read_text(impressions)))


def _test_ids(node: Any, within: bool = False) -> Iterator[str]:
    """All texts below a key ``test``, at whatever depth."""
    if isinstance(node, str) and within:
        yield node
    elif isinstance(node, dict):
        for key, value in node.items():
            yield from _test_ids(value, within or str(key).lower() == "test")
    elif isinstance(node, list):
        for value in node:
            yield from _test_ids(value, within)


def build(source: Source, unit: Unit, out: Output) -> None:
    """Slices of one case.

    Raises:
        MedhebError: missing, damaged, or, under ``corrected``, claimed by two files or without signal.
    """
    folder, replacement = require_use(unit)
    options, case = source.options(Options), unit.name
    fixed = replacement is not None and not source.release
    path = Path(replacement) if fixed else file_with_ending(source, Path(folder), options.ending, out)
    slices = axial_slices(source, open_volume(path), keep=True)
    facts: dict[str, Fact] = {
        "case": case,
        "group": case.rpartition("-")[0],  # the last number counts the visits of a patient
        "split": "test",
        "modality": "T1n",
        "fix_v4": "none" if replacement is None else "applied" if fixed else "not applied",
        **facts_of(slices, path, 3),
    }
    write_mr(source, out, f"{options.slices}/{case}", slices, options.rule, facts)


def finish(source: Source, files: Sequence[BuiltFile], out: Output) -> None:
    """Lists and counts."""
    finish_slices(source, files, out)
    fixes = Counter({str(file.facts["case"]): str(file.facts["fix_v4"]) for file in files}.values())
    counts = ", ".join(f"{word} {count}" for word, count in sorted(fixes.items()))
    out.note(f"replacements of the archive FIX-V4, by cases: {counts}")
    options = source.options(Options)
    cases, built = re.compile(options.cases), built_volumes(files)
    impressions = [folder / options.impressions for folder in source.folders_with(options.impressions)[:1]]
    write_records(out, "reports.jsonl", "reports", impressions, lambda path: texts_of_cases(path, cases, built))
    if _test_cases(source, options) is None:
        out.note("the copy lacks the reports' split, so all cases are built and count as test")


RECIPE = Recipe(build, units, finish)
