"""Recipe ``mimic_cxr``: studies of the official test part with findings and impression, each with one frontal picture.

The fact ``findings`` of a picture holds the positive CheXpert labels of its study. Pictures are linked; reports become
records in the image folder, which stays with the user like the copy itself. No published program makes these tasks, so
both protocols give the same.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from medheb.build.closed_tables import Fault, refuse_rows, rows_of, unit_of_faults
from medheb.build.inventory import BuiltFile
from medheb.build.mimic import (
    FILES,
    MimicOptions,
    Study,
    frontal_pictures,
    jpg_root,
    link_folders,
    link_picture,
    report_root,
    table_of,
)
from medheb.build.output import Output
from medheb.build.recipe import Recipe, Unit
from medheb.build.report_sections import first_of, sections_of
from medheb.build.selection import in_keyed_order
from medheb.build.source import Source
from medheb.build.tables import read_text
from medheb.core.errors import MedhebError

BLOCK, TRAINING_BLOCK = 32, 1024
SEVERAL = " | "
NO_LABELS = "no table of CheXpert labels in the copy: graded retrieval has nothing to go by"


class Options(MimicOptions):
    """Settings of this source.

    Args:
        split: word of the split table for the test part.
        training: its word for the training part, whose reports are listed with their pictures, which stay in place
            and are not checked; null: none.
        findings: headings of the findings, the first that is there counts.
        impression: headings of the impression.
        labels: columns of the table of CheXpert labels; those that are there become the fact ``findings``.
        test_rows: cap of the test.
    """

    split: str
    training: str | None = None
    labels: tuple[str, ...] = ()
    findings: tuple[str, ...]
    impression: tuple[str, ...]
    test_rows: int = 1000


@dataclass(frozen=True)
class Block:
    """Some studies of the test or training part, and where their pictures and reports are."""

    part: Literal["test", "train"]
    pictures: Path
    reports: Path
    studies: tuple[Study, ...]
    findings: Mapping[str, str]


def units(source: Source) -> Sequence[Unit]:
    """One unit a block of studies that have a frontal picture, and one that counts the others."""
    options = source.options(Options)
    pictures, reports = jpg_root(source), report_root(source)
    if pictures is None or reports is None:
        raise MedhebError(source.dataset.id, "finds no copy of MIMIC-CXR-JPG", "Give the folder that holds it")
    faults: list[Fault] = []
    split = list(rows_of(table_of(pictures, "split"), ("study_id", "split"), faults))
    wanted = {row.cells["study_id"] for row in split if row.cells["split"] == options.split}
    studies = sorted(frontal_pictures(pictures, wanted, faults).values(), key=lambda study: study.picture)
    findings = _findings(pictures, options, wanted, faults)
    found = []
    for first in range(0, len(studies), BLOCK):
        block = tuple(studies[first : first + BLOCK])
        known = {study.study: findings[study.study] for study in block if findings and study.study in findings}
        found.append(Unit(f"studies {first // BLOCK:05d}", Block("test", pictures, reports, block, known)))
    if options.training is not None:
        trained = {row.cells["study_id"] for row in split if row.cells["split"] == options.training}
        listed = sorted(frontal_pictures(pictures, trained, faults).values(), key=lambda study: study.picture)
        found += [
            Unit(
                f"training {first // TRAINING_BLOCK:05d}",
                Block("train", pictures, reports, tuple(listed[first : first + TRAINING_BLOCK]), {}),
            )
            for first in range(0, len(listed), TRAINING_BLOCK)
        ]
    without = len(wanted) - len(studies)
    found += [Unit("no labels", NO_LABELS)] if findings is None else []
    return [*found, *([Unit("without a frontal picture", without)] if without else []), *unit_of_faults(faults)]


def _findings(root: Path, options: Options, wanted: Collection[str], faults: list[Fault]) -> dict[str, str] | None:
    """Positive CheXpert labels of each wanted study that has any; None if the copy lacks their table.

    Values are 1 (there), 0 (not there), -1 (unsure) and blank (not mentioned).
    """
    try:
        table = table_of(root, "chexpert")
    except MedhebError:
        return None
    found: dict[str, str] = {}
    for row in rows_of(table, ("study_id", *options.labels), faults):
        study = row.cells["study_id"]
        positive = [name for name in options.labels if row.cells[name] in {"1", "1.0"}]
        if study in wanted and positive:
            found[study] = SEVERAL.join(sorted(positive))
    return found


def _report(root: Path, study: Study, options: Options) -> tuple[str, str]:
    path = root / FILES / Path(study.picture).parent.with_suffix(".txt")
    sections = sections_of(read_text(path))
    return first_of(sections, options.findings), first_of(sections, options.impression)


def build(source: Source, unit: Unit, out: Output) -> None:
    """Link the pictures of a block and write its records."""
    if refuse_rows(unit, out):
        return
    if isinstance(unit.data, int):
        out.count("studies without a frontal picture", unit.data)
        return
    if isinstance(unit.data, str):
        out.note(unit.data)
        return
    options, trained = source.options(Options), unit.data.part == "train"
    rows = []
    for study in unit.data.studies:
        try:
            findings, impression = _report(unit.data.reports, study, options)
            if not (findings and impression):
                named = "training studies" if trained else "studies"
                out.count(f"{named} whose report has no findings or no impression")
                continue
            facts = {"case": study.study, "split": "test", "group": study.subject, "view": study.view}
            facts |= {"findings": unit.data.findings.get(study.study)}
            if not trained:
                link_picture(out, unit.data.pictures, study.picture, prefix=f"{FILES}/", **facts)
        except MedhebError as error:
            out.refuse(error)
            continue
        rows.append(
            {
                "id": study.study,
                "picture": f"{FILES}/{study.picture}",
                "group": study.subject,
                "findings": findings,
                "impression": impression,
            }
        )
    number = unit.name.split()[-1]
    if rows and trained:
        out.records(f"training/{number}.jsonl", rows, kind="training", split="train")
    elif rows:
        out.records(f"reports/{number}.jsonl", rows, kind="records", split="test")


def finish(source: Source, files: Sequence[BuiltFile], out: Output) -> None:
    """Write ``selection/test.jsonl``: study and picture of each test row."""
    pictures = [file for file in files if file.facts.get("kind") == "xray"]
    ordered = in_keyed_order(pictures, lambda file: file.path, source.seed, source.dataset.id)
    rows = (
        {"id": file.facts["case"], "picture": file.path, "group": file.facts["group"]}
        for file in ordered[: source.options(Options).test_rows]
    )
    out.records("selection/test.jsonl", rows, kind="selection", split="test")


def links(source: Source, benchmark: Path, staging: Path) -> None:
    """Show the pictures of MIMIC-CXR in the image folder."""
    link_folders(source, staging, source.options(Options).mimic_version)


RECIPE = Recipe(build, units, finish, links)
