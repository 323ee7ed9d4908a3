"""Recipe ``usdata``: ultrasound pictures with Chinese reports, several pictures a report.

Written: the pictures where the download has them, unchanged, and ``reports.jsonl`` with one report a line. The split is
the source's own. No published script is known, so both protocols give the same.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field

from medheb.build.inventory import BuiltFile
from medheb.build.kept_pictures import facts_of
from medheb.build.output import Output
from medheb.build.recipe import Recipe, Unit
from medheb.build.source import Source
from medheb.build.splits import split_word, write_selections
from medheb.build.tables import read_json_file
from medheb.build.unusual import note_unusual
from medheb.core.errors import MedhebError
from medheb.imaging.picture_modes import Modes
from medheb.imaging.pictures import read_picture
from medheb.manifest.base import RelativePath, Strict, check_relative

REPORTS_A_UNIT = 200
MEND_ROW = "Mend the report or take it out; the others are built"


class Organ(Strict):
    """One part of the download.

    Args:
        table: JSON file with its reports.
        folder: of its pictures.
    """

    table: RelativePath
    folder: RelativePath


class Options(Strict):
    """``recipe.options``: the parts of the download by organ."""

    organs: dict[str, Organ] = Field(min_length=1)


def _root(source: Source, options: Options) -> Path:
    return source.folder_with(*(organ.table for organ in options.organs.values()))


def _reports(path: Path) -> dict[str, list[Any]]:
    """Lists of reports by split.

    Raises:
        MedhebError: not such a table.
    """
    content = read_json_file(path)
    if not isinstance(content, dict) or not all(isinstance(reports, list) for reports in content.values()):
        raise MedhebError(path, "is no table of report lists by split", "Get the publisher's own file")
    for word in content:
        if split_word(word) is None:
            raise MedhebError(path, "has a split that is none of train, val and test", "Get the publisher's own file")
    return content


def _picture_names(report: object) -> list[str]:
    """Pictures that a report lists, each once, with forward slashes."""
    listed = report.get("image_path") if isinstance(report, Mapping) else None
    names = [listed] if isinstance(listed, str) else listed if isinstance(listed, list) else []
    return list(dict.fromkeys(str(name).replace("\\", "/").removeprefix("./") for name in names))


def _uid(report: object) -> str:
    value = report.get("uid") if isinstance(report, Mapping) else None
    return "" if value is None else str(value).strip()  # a number may be 0


def _repeats(tables: Mapping[str, list[Any]]) -> Iterator[tuple[str, str]]:
    """For each report of an organ, in file order: its split's word, and what it repeats of an earlier one."""
    ids: set[str] = set()
    pictures: set[str] = set()
    for word, reports in tables.items():
        for report in reports:
            uid, names = _uid(report), set(_picture_names(report))
            if uid and uid in ids:
                yield word, "has the uid of an earlier report"
            elif names & pictures:
                yield word, "names a picture of an earlier report"
            else:
                yield word, ""
                ids.add(uid)
                pictures |= names


def units(source: Source) -> Sequence[Unit]:
    """Blocks of reports of each organ and split. An organ whose table is missing is a unit that says so.

    Raises:
        MedhebError: a table that is no table.
    """
    options = source.options(Options)
    root = _root(source, options)
    found = []
    for name, organ in options.organs.items():
        path = root / organ.table
        if not path.exists():
            found.append(Unit(name, (name, os.fspath(path), "", [], 0)))
            continue
        tables = _reports(path)
        repeats = list(_repeats(tables))
        for word, reports in tables.items():
            faults = [fault for other, fault in repeats if other == word]
            rows = list(zip(reports, faults, strict=True))
            for start in range(0, len(rows), REPORTS_A_UNIT):
                part = rows[start : start + REPORTS_A_UNIT]
                found.append(Unit(f"{name} {word} from {start:06d}", (name, os.fspath(path), word, part, start)))
    return found


def build(source: Source, unit: Unit, out: Output) -> None:
    """One block of reports.

    Raises:
        MedhebError: the table is missing.
    """
    options = source.options(Options)
    name, path, word, rows, start = unit.data
    if not word:
        raise MedhebError(path, f"is missing: no reports of the {name}", "Fetch the source again")
    folder = _root(source, options) / options.organs[name].folder
    for number, (report, repeat) in enumerate(rows, start=start):
        where = f"{path}, {word} report {number}"
        try:
            if repeat:
                raise MedhebError(where, repeat, "Remove one of them")
            _report(report, name, str(split_word(word)), folder, where, out)
        except MedhebError as error:
            out.refuse(error)


def _pictures(report: object, folder: Path, where: str) -> list[Path]:
    """The picture files of a report, looked for by their whole path and by their name.

    Raises:
        MedhebError: none is listed, or one is missing.
    """
    names = _picture_names(report)
    if not names:
        raise MedhebError(where, "lists no pictures", MEND_ROW)
    found = []
    for name in names:
        try:
            check_relative(name)
        except ValueError as error:
            raise MedhebError(where, f"names a picture whose path is not {error}", MEND_ROW) from error
        places = (folder / name, folder.parent / name, folder / Path(name).name)
        path = next((place for place in places if place.is_file()), None)
        if path is None:
            raise MedhebError(where, "names a picture that is not in the download", MEND_ROW)
        found.append(path)
    return found


def _report(report: Any, organ: str, split: str, folder: Path, where: str, out: Output) -> None:
    """The pictures of one report, and its facts.

    Raises:
        MedhebError: no id, text or picture, or a picture that cannot be read.
    """
    if not isinstance(report, Mapping):
        raise MedhebError(where, "is no report", MEND_ROW)
    uid, text = _uid(report), report.get("finding")
    if not uid:
        raise MedhebError(where, "has no uid", MEND_ROW)
    if not isinstance(text, str) or not text.strip():
        raise MedhebError(where, "has no finding", MEND_ROW)
    # The same uid may stand for another person in another organ's table.
    case = f"{organ}/{uid}"
    pictures = _pictures(report, folder, where)
    decoded = [read_picture(path, modes=Modes.AS_STORED, orientation="keep") for path in pictures]
    for index, path in enumerate(pictures):
        target = path.relative_to(folder.parent).as_posix()
        out.file(
            target,
            path,
            kind="picture",
            case=case,
            group=case,
            label=organ,
            split=split,
            slice=index,
            report=text,
            member=target,
            **facts_of(decoded[index]),
        )


def finish(source: Source, files: Sequence[BuiltFile], out: Output) -> None:
    """All reports with their pictures, and the pictures of each split."""
    reports: dict[str, list[BuiltFile]] = {}
    for file in files:
        reports.setdefault(str(file.facts["case"]), []).append(file)
    rows = []
    for case, pictures in sorted(reports.items()):
        ordered = sorted(pictures, key=lambda file: int(file.facts["slice"] or 0))
        facts = ordered[0].facts
        row = {"id": case, "organ": facts["label"], "split": facts["split"], "report": facts["report"]}
        rows.append({**row, "pictures": [file.path for file in ordered]})
    out.records("reports.jsonl", rows, kind="reports")
    write_selections(files, out, ["picture"])
    note_unusual(files, out)


RECIPE = Recipe(build, units, finish)
