"""Recipe ``m3d``: the picture files of M3D-Cap's ``ct_quizze`` cases, their reports, and the questions of M3D-VQA.

No published script prepares them, so task files most likely name the source's own pictures, which are taken over
unchanged at ``ct_quizze/<case>/<series>/<number>.<ending>``. ``release`` places every frame, whichever the task files
name, and marks those of the paper's rule; ``corrected`` places only these: at most 64 frames of the series' common
size, evenly spaced in the order of their numbers (10 comes after 9).

``reports.jsonl`` has the report of each case by the publisher's own rule, ``questions/<name>.jsonl`` the questions
about its series, ``selection/<list>.txt`` the publisher's lists. Names are compared as the publisher does it, without
diacritics and with ``_`` for blanks.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from PIL import Image
from pydantic import Field

from medheb.build.faults import claimed_twice, fault_unit, folders_or_faults, require_use
from medheb.build.inventory import BuiltFile
from medheb.build.output import Output, why_not
from medheb.build.recipe import Recipe, Unit
from medheb.build.rights import children, folders_in
from medheb.build.source import SEARCH_DEPTH, Source
from medheb.build.tables import read_json_file, read_table, read_text
from medheb.core.errors import MedhebError
from medheb.imaging.sampling import up_to_indices
from medheb.manifest.base import Strict

FRAMES = 64
ENDINGS = (".jpeg", ".jpg", ".png")
BLANKS = re.compile(r"[\s_]+")
CASE = re.compile(r"\d{5,6}")
REPORT = "text.txt"
SPLITS = ("test", "validation", "train")  # lists that decide a series' part, the first that names it
FINDINGS, DISCUSSION = "study_findings:", "discussion:"
SHORTEST_REPORT = 5
# Letters that no decomposition makes plain.
WHOLE_LETTERS = str.maketrans(
    {"ß": "ss", "ø": "o", "Ø": "O", "æ": "ae", "Æ": "AE", "œ": "oe", "Œ": "OE", "ł": "l", "Ł": "L", "đ": "d"}
)
COLUMNS = ("Image Path", "Question Type", "Question", "Choice A", "Choice B", "Choice C", "Choice D", "Answer")
DAMAGE = (OSError, ValueError, SyntaxError, Image.DecompressionBombError)


class Options(Strict):
    """``recipe.options``.

    Args:
        part: folder of the wanted cases.
        other: folder of the cases that are not wanted.
        lists: name of the publisher's file of training and test lists.
        questions: tables of questions by the name of their output.
        training: such tables of the training part, which a copy may lack.
        kinds: kinds of question by their number in the tables.
    """

    part: str
    other: str
    lists: str
    questions: dict[str, str]
    training: dict[str, str] = Field(default={"train": "M3D_VQA_train.csv"})
    kinds: dict[int, str]


def plain(name: str) -> str:
    """A name as lists and tables may have it: no diacritics, ``_`` for blanks: ``Axial Pöschl`` is ``Axial_Poschl``."""
    letters = unicodedata.normalize("NFD", name.translate(WHOLE_LETTERS))
    bare = "".join(sign for sign in letters if unicodedata.category(sign) != "Mn")
    return BLANKS.sub("_", bare).strip("_")


def report_of(text: str) -> str:
    """The publisher's rule, on one line.

    What follows ``study_findings:`` to the end of the text; if that is nearly empty, what follows ``discussion:``;
    else the whole text.
    """
    for mark in (FINDINGS, DISCUSSION):
        _, found, rest = text.partition(mark)
        part = (rest if found else text).replace("\n", " ").strip()
        if len(part.replace(" ", "")) >= SHORTEST_REPORT:
            return part
    return text.replace("\n", " ").strip()


def _case_folders(source: Source, faults: list[Unit]) -> dict[str, list[Path]]:
    """Folders of the wanted part's cases; archives differ in how deep they put them.

    Args:
        source: of the build.
        faults: receives a unit for each folder that cannot be listed.
    """
    options = source.options(Options)
    found: dict[str, list[Path]] = {}
    level = [source.files]
    for _ in range(SEARCH_DEPTH + 1):
        below: list[Path] = []
        for folder in level:
            if folder != source.files and source.is_built(folder):
                continue
            for inner in folders_or_faults(folder, faults):
                if CASE.fullmatch(inner.name):
                    found.setdefault(inner.name, []).append(inner)
                elif not inner.name.startswith(options.other):
                    below.append(inner)
        level = below
    if not found and not faults:
        raise MedhebError(
            source.files, f"holds no case folders of {options.part}", "Give the folder of the unpacked archives"
        )
    return found


def _read_lists(source: Source) -> dict[str, list[str]]:
    """The publisher's lists; none where the source comes without their file."""
    options = source.options(Options)
    try:
        path = source.find(options.lists)
    except MedhebError:
        return {}
    return _lists(path, options.part)


def _key(path: str, part: str) -> str | None:
    """``case/series`` of a volume in the publisher's lists, ``None`` for one of another part."""
    parts = path.replace("\\", "/").split("/")
    if len(parts) < 3 or parts[-3] != part:
        return None
    return f"{parts[-2]}/{plain(parts[-1].removesuffix('.npy'))}"


def _lists(path: Path, part: str) -> dict[str, list[str]]:
    """The publisher's lists by name, as keys of the wanted part's series.

    Raises:
        MedhebError: not a file of lists of volumes.
    """
    content = read_json_file(path)
    try:
        return {
            str(name): [key for entry in entries if (key := _key(str(entry["image"]), part))]
            for name, entries in content.items()
        }
    except (AttributeError, TypeError, KeyError) as error:
        raise MedhebError(path, "is not a file of lists of volumes", "Get the publisher's own file") from error


def units(source: Source) -> Sequence[Unit]:
    """One case a unit; reports, lists and tables of questions are units too."""
    options = source.options(Options)
    faults: list[Unit] = []
    folders = _case_folders(source, faults)
    lists = _read_lists(source)
    split_of: dict[str, str] = {}
    for split in SPLITS:
        for key in lists.get(split, []):
            split_of.setdefault(key, split)
    found = [
        *faults,
        Unit("reports", {case: os.fspath(paths[0]) for case, paths in folders.items() if len(paths) == 1}),
    ]
    series: dict[str, str] = {}
    alike: list[str] = []
    for case, paths in folders.items():
        if len(paths) > 1:
            found.append(Unit(f"case {case}", claimed_twice(case, paths)))
            continue
        try:
            inner = folders_in(paths[0])
        except MedhebError as error:
            found.append(fault_unit(f"case {case}", error))
            continue
        times = Counter(plain(folder.name) for folder in inner)
        twins = {folder.name for folder in inner if times[plain(folder.name)] > 1}  # a list cannot mean both
        single = {folder.name: f"{case}/{plain(folder.name)}" for folder in inner if folder.name not in twins}
        series |= {key: f"{options.part}/{case}/{name}" for name, key in single.items()}
        mine = dict.fromkeys(sorted(twins)) | {name: split_of.get(key) for name, key in single.items()}
        alike += [os.fspath(paths[0] / name) for name in sorted(twins)]
        found.append(Unit(f"case {case}", (case, os.fspath(paths[0]), mine)))
    found.append(Unit("lists", (lists, series, alike)))
    tables = options.questions | {name: table for name, table in options.training.items() if source.folders_with(table)}
    found += [Unit(f"questions {name}", (name, table, series)) for name, table in tables.items()]
    return found


def build(source: Source, unit: Unit, out: Output) -> None:
    """One case, or one of the tables.

    Raises:
        MedhebError: a case that two folders claim, one without pictures, a damaged table.
    """
    data = require_use(unit)
    if unit.name == "reports":
        _write_reports(source.options(Options).part, data, out)
    elif unit.name == "lists":
        lists, series, alike = data
        _write_lists(lists, series, out)
        for folder in alike:
            fault = "differs from another series in blanks or diacritics only, which lists and tables do not have"
            out.refuse(MedhebError(folder, fault, "Nothing to do: its pictures are built"), "split and questions")
    elif unit.name.startswith("questions "):
        name, table, series = data
        _write_questions(source, name, table, series, out)
    else:
        case, folder, series = data
        _write_case(source, case, folder, series, out)


def _write_case(source: Source, case: str, folder: str, series: Mapping[str, str | None], out: Output) -> None:
    for name, split in series.items():
        try:
            _write_series(source, case, Path(folder) / name, split, out)
        except MedhebError as error:
            out.refuse(error)
    if not out.files and not out.refusals:
        raise MedhebError(folder, "holds no series of pictures", "Get the complete archive")


def _frames(folder: Path, out: Output) -> list[tuple[int, Path]]:
    """Number and file of every frame, by number.

    Raises:
        MedhebError: no frame, or two of one number.
    """
    found: dict[int, Path] = {}
    for path in children(folder):
        if path.suffix.lower() not in ENDINGS:
            continue
        if not (path.stem.isascii() and path.stem.isdecimal()):
            out.refuse(MedhebError(path, "is not named by its number in the series", "Remove it, or get it again"))
            continue
        other = found.setdefault(int(path.stem), path)
        if other != path:
            raise MedhebError(folder, f"holds frame {int(path.stem)} twice: {other.name} and {path.name}", "Remove one")
    if not found:
        raise MedhebError(folder, "holds no pictures", "Get the complete archive")
    return sorted(found.items())


def _common_size(frames: Sequence[tuple[int, Path]], out: Output) -> list[tuple[int, Path]]:
    """Frames of the size that most have (the first such size if several); the others are refused."""
    sizes: dict[Path, tuple[int, int]] = {}
    for _, path in frames:
        try:
            with Image.open(path) as image:
                sizes[path] = image.size
        except DAMAGE as error:
            out.refuse(MedhebError(path, f"cannot be decoded ({why_not(error)})", "Get an undamaged copy"))
    if not sizes:
        return []
    common = Counter(sizes.values()).most_common(1)[0][0]
    for path, size in sizes.items():
        if size != common:
            fault = f"is {size[0]} x {size[1]} in a series of {common[0]} x {common[1]}"
            out.refuse(MedhebError(path, fault, "Nothing to do: the other frames are used"))
    return [(number, path) for number, path in frames if sizes.get(path) == common]


def _write_series(source: Source, case: str, folder: Path, split: str | None, out: Output) -> None:
    all_frames = _frames(folder, out)
    usable = all_frames if source.release else _common_size(all_frames, out)
    if not usable:
        raise MedhebError(folder, "holds no picture that can be decoded", "Get an undamaged copy")
    slots = {usable[place][0]: slot for slot, place in enumerate(up_to_indices(len(usable), FRAMES))}
    part = source.options(Options).part
    for number, path in usable:
        if not source.release and number not in slots:
            continue
        try:
            out.file(
                f"{part}/{case}/{folder.name}/{path.name}",
                path,
                kind="slice",
                case=f"{case}/{folder.name}",
                group=case,
                split=split,
                member=f"{case}/{folder.name}/{path.name}",
                modality=source.dataset.modality[0],
                slice=number,
                slot=slots.get(number),
                slices=len(usable),
                window="as published",
                transform="picture file, unchanged",
            )
        except MedhebError as error:
            out.refuse(error)


def _write_reports(part: str, folders: Mapping[str, str], out: Output) -> None:
    rows = []
    for case, folder in folders.items():
        try:
            text = report_of(read_text(Path(folder) / REPORT))
            series = [f"{part}/{case}/{inner.name}" for inner in folders_in(Path(folder))]
        except MedhebError as error:
            out.refuse(error)
            continue
        rows.append({"id": case, "case": case, "group": case, "series": series, "text": text})
    out.records("reports.jsonl", sorted(rows, key=lambda row: str(row["case"])), kind="reports", language="en")
    texts = Counter(str(row["text"]) for row in rows)
    if len(texts) < len(rows):
        out.note(f"cases whose report is that of another case: {len(rows) - len(texts)}")
    several = sum(len(row["series"]) > 1 for row in rows)
    if several:
        out.note(f"cases whose one report belongs to several series: {several}")


def _write_lists(lists: Mapping[str, Sequence[str]], series: Mapping[str, str], out: Output) -> None:
    if not lists:
        out.note("no single file of training and test lists below the source, so no series is marked as either")
    for name, keys in lists.items():
        out.lines(f"selection/{name}.txt", (series[key] for key in keys if key in series), kind="selection")
        missing = sum(key not in series for key in keys)
        if missing:
            out.note(f"series in the publisher's list {name} that are not there: {missing}")
    both = set(lists.get("train", ())) & set(lists.get("test", ()))
    if both:
        out.note(f"series in both the training and the test list, taken as test: {len(both)}")
    cases = [{key.split("/")[0] for key in lists.get(name, ())} for name in ("train", "test")]
    if cases[0] & cases[1]:
        out.note(f"cases with series in both the training and the test list: {len(cases[0] & cases[1])}")


def _write_questions(source: Source, name: str, table: str, series: Mapping[str, str], out: Output) -> None:
    """Questions about series that are there, with the choices and the right one."""
    options = source.options(Options)
    rows = list(_questions(options, source.find(table), series, out))
    out.records(f"questions/{name}.jsonl", rows, kind="questions", language="en")


def _questions(options: Options, path: Path, series: Mapping[str, str], out: Output) -> Iterator[dict[str, Any]]:
    elsewhere = absent = 0
    for number, row in enumerate(read_table(path, COLUMNS)):
        cells = row.cells
        key = _key(cells["Image Path"], options.part)
        if key is None or key not in series:
            elsewhere += key is None
            absent += key is not None
            continue
        choices = [cells[f"Choice {letter}"] for letter in "ABCD"]
        kind = options.kinds.get(int(cells["Question Type"])) if cells["Question Type"].isdecimal() else None
        if not cells["Question"] or cells["Answer"] not in choices or kind is None:
            fault = "has no question, an answer that is no choice, or an unknown kind of question"
            out.refuse(MedhebError(row.where, fault, "Nothing to do: the other rows are used"))
            continue
        case = key.split("/")[0]
        yield {
            "id": str(number),
            "case": case,
            "group": case,
            "series": series[key],
            "kind": kind,
            "query": cells["Question"],
            "target": cells["Answer"],
            "choices": choices,
        }
    for count, words in ((elsewhere, f"of other parts than {options.part}"), (absent, "of series that are not there")):
        if count:
            out.note(f"questions in {path.name} {words}: {count}")


def finish(_: Source, files: Sequence[BuiltFile], out: Output) -> None:
    """Counts of what is thin."""
    series = {str(file.facts["case"]): file.facts for file in files if file.facts.get("kind") == "slice"}
    short = sum(int(facts["slices"] or 0) < FRAMES for facts in series.values())
    if short:
        out.note(f"{short} of {len(series)} series have fewer than {FRAMES} frames and are given whole")


RECIPE = Recipe(build, units, finish)
