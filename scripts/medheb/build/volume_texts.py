"""Reports of and questions about the volumes of a source, as records beside its pictures.

Records name the fact ``case`` of the pictures that they belong to. What the tables say about volumes that were not
built is left out and counted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medheb.build.inventory import BuiltFile
from medheb.build.output import Output
from medheb.build.rights import is_file
from medheb.build.tables import read_json_file, read_table
from medheb.core.errors import MedhebError

SUFFIX = ".nii.gz"
TAG = re.compile(r"<[A-Za-z_]+>\s*")
HUMAN, MACHINE = ("human", "user"), ("gpt", "assistant")
Record = dict[str, Any]


@dataclass(frozen=True)
class Built:
    """A volume whose slices are there."""

    case: str
    group: str
    split: str | None

    def row(self, number: str, **cells: Any) -> Record:
        """A record about it."""
        return {"id": number, "case": self.case, "group": self.group, "split": self.split, **cells}


def built_volumes(files: Iterable[BuiltFile], name: str = "case") -> dict[str, Built]:
    """Volumes by a fact of their slices."""
    found: dict[str, Built] = {}
    for file in files:
        facts = file.facts
        if facts.get("kind") == "slice":
            split = facts.get("split")
            found[str(facts[name])] = Built(
                str(facts["case"]), str(facts["group"]), None if split is None else str(split)
            )
    return found


def scan_of(volume: str, reconstruction: str = "_1") -> str | None:
    """Scan of a volume's file name if it is the first reconstruction."""
    stem = volume.strip().removesuffix(SUFFIX)
    return stem.removesuffix(reconstruction) if stem.endswith(reconstruction) else None


def write_records(
    out: Output, path: str, kind: str, tables: Sequence[Path], read: Callable[[Path], Iterable[Record]]
) -> None:
    """Write the records of all tables that are there; one that cannot be read is refused.

    Args:
        out: of the source's last step.
        path: of the file of records.
        kind: of the records.
        tables: what is read.
        read: the records of a table.
    """
    rows: list[Record] = []
    there = []
    for table in tables:
        try:
            if is_file(table):
                there.append(table)
                rows += read(table)
        except MedhebError as error:
            out.refuse(error)
    if rows:
        out.records(path, rows, kind=kind, language="en")
    note = f"the copy has no table of {kind}, so there are no records of them"
    if not there and not out.refusals and note not in out.notes:
        out.note(note)


def ct_reports(table: Path, built: Mapping[str, Built], empty: str) -> Iterator[Record]:
    """Findings and impression of first reconstructions; ``empty`` stands in the table where there is none."""
    for row in read_table(table, ["VolumeName", "Findings_EN", "Impressions_EN"]):
        volume = built.get(scan_of(row.cells["VolumeName"]) or "")
        findings, impression = (
            "" if row.cells[name] == empty else row.cells[name] for name in ("Findings_EN", "Impressions_EN")
        )
        if volume and (findings or impression):
            yield volume.row(row.cells["VolumeName"], findings=findings, impression=impression)


def ct_questions(path: Path, built: Mapping[str, Built]) -> Iterator[Record]:
    """Each question of a conversation with the answer that follows it; tags such as ``<image>`` are taken out.

    Raises:
        MedhebError: another structure than a list of conversations.
    """
    content = read_json_file(path)
    if not isinstance(content, list) or not all(isinstance(entry, dict) for entry in content):
        raise MedhebError(path, "is no list of conversations", "Get the publisher's own file")
    for number, entry in enumerate(content):
        volume = built.get(scan_of(str(entry.get("image", ""))) or "")
        turns = entry.get("conversations")
        if volume is None or not isinstance(turns, list):
            continue
        where, name = f"{path}, entry {number}", str(entry.get("id", number))
        for place, (question, answer) in enumerate(zip(turns[::2], turns[1::2], strict=False)):
            query, target = _said(question, HUMAN, where), _said(answer, MACHINE, where)
            yield volume.row(f"{name} {place}", kind=re.sub(r"[_\d]+$", "", name), query=query, target=target)


def _said(turn: Any, speakers: Sequence[str], where: str) -> str:
    if not isinstance(turn, dict) or turn.get("from") not in speakers or not isinstance(turn.get("value"), str):
        raise MedhebError(where, "is no conversation of questions and answers in turn", "Get the publisher's own file")
    return TAG.sub("", str(turn["value"])).strip()


def region_reports(table: Path, built: Mapping[str, Built]) -> Iterator[Record]:
    """All sentences of a volume, in table order, as its report; sentences that stand there twice count once."""
    sentences: dict[str, dict[str, None]] = {}
    for row in read_table(table, ["Volumename", "Sentence"]):
        scan = scan_of(row.cells["Volumename"])
        if scan in built and row.cells["Sentence"]:
            sentences.setdefault(str(scan), {})[row.cells["Sentence"]] = None
    for scan, own in sentences.items():
        yield built[scan].row(scan, text=" ".join(own))


def table_questions(table: Path, kind: str, question: str, answer: str, built: Mapping[str, Built]) -> Iterator[Record]:
    """A question made of each row of a table.

    Args:
        table: with a column ``Volumename``.
        kind: of the questions.
        question: text with ``{Column}`` for a cell; of a path only the last part is taken.
        answer: column of the answer.
        built: volumes by scan.
    """
    columns = re.findall(r"\{(\w+)\}", question)
    for number, row in enumerate(read_table(table, ["Volumename", answer, *columns])):
        volume = built.get(scan_of(row.cells["Volumename"]) or "")
        cells = {name: row.cells[name].rpartition("/")[2] for name in (*columns, answer)}
        if volume and all(cells.values()):
            query = question.format_map({name: cells[name] for name in columns})
            yield volume.row(f"{kind} {number}", kind=kind, query=query, target=cells[answer])


def texts_of_cases(path: Path, cases: re.Pattern[str], built: Mapping[str, Built]) -> Iterator[Record]:
    """Texts of a JSON file by the case that their key begins with, at whatever depth; the first of a case counts."""
    found: dict[str, str] = {}
    _collect(read_json_file(path), cases, found)
    for case, text in sorted(found.items()):
        if case in built and text:
            yield built[case].row(case, text=text)


def _collect(node: Any, cases: re.Pattern[str], found: dict[str, str]) -> None:
    if isinstance(node, list):
        for value in node:
            _collect(value, cases, found)
    if isinstance(node, dict):
        for key, value in node.items():
            match = cases.match(str(key))
            if match:
                found.setdefault(match[0], " ".join(_texts(value)))
            else:
                _collect(value, cases, found)


def _texts(node: Any) -> Iterator[str]:
    if isinstance(node, str):
        yield node.strip()
    elif isinstance(node, (list, dict)):
        for value in node.values() if isinstance(node, dict) else node:
            yield from _texts(value)
