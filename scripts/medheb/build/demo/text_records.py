"""Recipes ``icd10cm``, ``phenotypes`` and ``openi_reports``: text sources become ``records.jsonl``.

Each row has ``id``, ``query``, ``target`` and ``group``; rows of one group are too alike to be each other's
wrong answers.
"""

from __future__ import annotations

from pathlib import Path

from medheb.build.demo.obo import exact_synonyms
from medheb.build.demo.texts import icd10cm_pairs, openi_reports
from medheb.build.output import Output
from medheb.build.recipe import Recipe, Unit
from medheb.build.source import Source
from medheb.core.errors import MedhebError
from medheb.manifest.base import Strict

RECORDS = "records.jsonl"
NORMAL = "normal"


class NoOptions(Strict):
    """The text recipes have no settings."""


def _only(source: Source, pattern: str) -> Path:
    """The one file of the source that matches ``pattern``."""
    found = sorted(source.files.rglob(pattern))
    if len(found) != 1:
        raise MedhebError(source.files, f"holds {len(found)} files {pattern}, not one", "Mend unpack.include")
    return found[0]


def icd10cm(source: Source, _: Unit, out: Output) -> None:
    """Inclusion terms (query) and the title of their code (target). Rows of one code are a group.

    Raises:
        MedhebError: the file is missing or not a tabular list.
    """
    source.options(NoOptions)
    rows = [
        {"id": f"{pair['code']}/{number}", "query": pair["term"], "target": pair["title"], "group": pair["code"]}
        for number, pair in enumerate(icd10cm_pairs(_only(source, "*.xml")))
    ]
    out.records(RECORDS, rows, kind="records", language="en")


def phenotypes(source: Source, _: Unit, out: Output) -> None:
    """Exact synonyms (query) and the name of their term (target). Rows of one term are a group.

    Raises:
        MedhebError: the file is missing or not an ontology in OBO format.
    """
    source.options(NoOptions)
    numbers: dict[str, int] = {}
    rows = []
    for pair in exact_synonyms(_only(source, "*.obo")):
        number = numbers[pair["id"]] = numbers.get(pair["id"], -1) + 1
        rows.append(
            {"id": f"{pair['id']}/{number}", "query": pair["synonym"], "target": pair["name"], "group": pair["id"]}
        )
    out.records(RECORDS, rows, kind="records", language="en")


def openi(source: Source, _: Unit, out: Output) -> None:
    """Findings (query) and impressions (target) of abnormal reports. Rows with the same major terms are a group.

    Normal reports are left out: most share one impression, so that none of them has one right answer.

    Raises:
        MedhebError: the file is missing, not the report archive, or holds normal reports only.
    """
    source.options(NoOptions)
    path = _only(source, "*.tgz")
    reports = openi_reports(path)
    abnormal = [report for report in reports if report["mesh"].lower() != NORMAL]
    if not abnormal:
        raise MedhebError(path, "holds no abnormal report", "Get the complete archive")
    rows = [
        {
            "id": report["id"],
            "query": report["findings"],
            "target": report["impression"],
            "group": report["mesh"].lower(),
        }
        for report in abnormal
    ]
    out.records(RECORDS, rows, kind="records", language="en")
    out.note(f"{len(reports) - len(abnormal)} normal reports were left out: their impressions are interchangeable")


ICD10CM = Recipe(icd10cm)
PHENOTYPES = Recipe(phenotypes)
OPENI = Recipe(openi)
