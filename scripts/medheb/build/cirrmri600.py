"""Recipe ``cirrmri600``: 64 slices of every T1 and T2 volume, under ``Cirrhosis_T1_slide/<split>/<id>`` and so on.

Two tables of the benchmark (one a sequence) say which volumes belong to which split, healthy persons included. What
they do not list is left out, as published; so all T2 volumes of healthy persons are. ``corrected`` takes these by
the T1 table, and where the tables put one person into two splits, the fact ``split`` is the stricter one for both
sequences (the folder stays the table's, so that published paths hold).

The publisher keeps masks under the same names in folders beside the volumes. The published script writes both into
one output folder; here masks are never read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from pydantic import Field

from medheb.build.faults import Fault, claimed_twice, require_use, walk
from medheb.build.inventory import BuiltFile, Fact
from medheb.build.output import Output
from medheb.build.recipe import Recipe, Unit
from medheb.build.rights import is_file
from medheb.build.slices import MrRule, axial_slices, facts_of, open_volume, write_mr
from medheb.build.slices import finish as finish_slices
from medheb.build.source import Source
from medheb.build.splits import split_word
from medheb.build.tables import read_table
from medheb.core.errors import MedhebError
from medheb.manifest.base import RelativePath, Strict

SUFFIX = ".nii.gz"
NAME, SPLIT = "folder_name", "split"
STRICTEST_FIRST = ("test", "valid", "train")


class SequenceOptions(Strict):
    """One sequence.

    Args:
        patients: folder of the patients' volumes, searched with all below it.
        healthy: the same of healthy persons.
        slices: image folder.
        table: which volume belongs to which split; beside ``patients`` or further up.
    """

    patients: RelativePath
    healthy: RelativePath
    slices: RelativePath
    table: str


class Labels(Strict):
    """Texts of the classes and where a patient's is found.

    Args:
        tables: pattern of the names of tables.
        id: start of the name of the column with the patient's number.
        grade: start of the name of the column with the degree.
        texts: label of each degree.
        healthy: label of healthy persons.
    """

    tables: str
    id: str
    grade: str
    texts: dict[str, str]
    healthy: str


@dataclass(frozen=True)
class Volume:
    """One volume: its place among the image folders, and what is known of its person."""

    sequence: str
    name: str
    folder: str
    split: str
    label: str | None
    path: str


class Options(Strict):
    """``recipe.options``.

    Args:
        sequences: T1 and T2.
        healthy_prefix: put before the numbers of healthy persons, which repeat those of patients.
        not_volumes: pattern of names of folders and files that hold masks.
        rule: for grey values and slices.
        labels: of the classes.
    """

    sequences: dict[str, SequenceOptions]
    healthy_prefix: str = Field(min_length=1)
    not_volumes: str
    rule: MrRule
    labels: Labels


def _root(source: Source, options: Options) -> Path:
    """The folder that holds the sequences' folders."""
    return source.folder_with(*(sequence.patients for sequence in options.sequences.values()))


def _table(source: Source, root: Path, name: str) -> Path:
    """The table beside the volumes, or where the source's other files lie.

    Raises:
        MedhebError: it is in neither place; the volumes' host does not have it.
    """
    if is_file(root / name):
        return root / name
    try:
        return source.find(name)
    except MedhebError as error:
        address = next((file.url for file in source.dataset.files if file.path == name), None)
        remedy = (
            "It comes from the benchmark's own script repository, not with the volumes: "
            f"`medheb fetch {source.dataset.id}` gets it as the manifest names it"
            + (f" ({address}), or put it beside the folders of volumes" if address else "")
        )
        raise MedhebError(error.where, error.fault, remedy) from error


def _read_splits(path: Path) -> dict[str, str]:
    """Split of each volume of a table.

    Raises:
        MedhebError: no such table, an unknown split, or a volume that is listed twice.
    """
    found: dict[str, str] = {}
    for row in read_table(path, [NAME, SPLIT]):
        name, split = row.cells[NAME], split_word(row.cells[SPLIT])
        if not split:
            raise MedhebError(row.where, f"names the split '{row.cells[SPLIT]}'", "Get the benchmark's own table")
        if found.setdefault(name, split) != split:
            raise MedhebError(row.where, f"puts {name} into a second split", "Get the benchmark's own table")
    return found


def units(source: Source) -> Sequence[Unit]:
    """A listed volume a unit."""
    options = source.options(Options)
    root = _root(source, options)
    splits = {name: _read_splits(_table(source, root, own.table)) for name, own in options.sequences.items()}
    found: list[Unit] = []
    grades = _read_grades(source, root, options.labels, found)
    unread = {unit.data.where for unit in found}
    for sequence, own in sorted(options.sequences.items()):
        faults: list[Unit] = []
        paths = _volumes(root, own, options, faults)
        found += [unit for unit in faults if unit.data.where not in unread]
        for name, split in _listed(source, options, splits, sequence).items():
            claims = paths.get(name, [])
            healthy = name.startswith(options.healthy_prefix)
            volume = Volume(
                sequence,
                name,
                folder=split,
                split=split if source.release else _strictest(name, split, splits),
                label=options.labels.healthy if healthy else grades.get(name),
                path=os.fspath(claims[0]) if claims else "",
            )
            if len(claims) > 1:
                found.append(Unit(f"{sequence} {name}", claimed_twice(name, claims)))
            elif claims:
                found.append(Unit(f"{sequence} {name}", volume))
            elif name in splits[sequence]:
                fault = Fault(own.table, f"lists {name}, which the copy does not hold", "Complete the copy")
                found.append(Unit(f"{sequence} {name}", fault))
    return found


def _listed(source: Source, options: Options, splits: Mapping[str, Mapping[str, str]], sequence: str) -> dict[str, str]:
    """Split of each wanted volume of a sequence: its own table's, and healthy persons by another's."""
    others = {name: split for other in splits.values() for name, split in other.items()}
    healthy = {name: split for name, split in others.items() if name.startswith(options.healthy_prefix)}
    return ({} if source.release else healthy) | dict(splits[sequence])


def _volumes(root: Path, own: SequenceOptions, options: Options, faults: list[Unit]) -> dict[str, list[Path]]:
    """Volumes of a sequence by name, masks left out."""
    masks = re.compile(options.not_volumes)
    paths: dict[str, list[Path]] = {}
    for top, prefix in ((own.patients, ""), (own.healthy, options.healthy_prefix)):
        for folder, names, files in walk(root / top, faults):
            names[:] = [name for name in names if not masks.search(name)]
            for file in files:
                if file.endswith(SUFFIX) and not masks.search(file):
                    paths.setdefault(prefix + file.removesuffix(SUFFIX), []).append(folder / file)
    return paths


def _masks(root: Path, options: Options) -> list[Path]:
    """Masks that lie beside the volumes."""
    masks = re.compile(options.not_volumes)
    tops = (top for own in options.sequences.values() for top in (own.patients, own.healthy))
    return [
        folder / file
        for top in tops
        for folder, _, files in walk(root / top, [])
        for file in files
        if file.endswith(SUFFIX) and any(masks.search(part) for part in (*folder.relative_to(root).parts, file))
    ]


def _strictest(name: str, split: str, splits: Mapping[str, Mapping[str, str]]) -> str:
    """A person who is in the test of one sequence is in no other's training."""
    named = {split, *(own[name] for own in splits.values() if name in own)}
    return next(word for word in STRICTEST_FIRST if word in named)


def _read_grades(source: Source, root: Path, labels: Labels, faults: list[Unit]) -> dict[str, str]:
    """Label of each patient from the tables of the copy. Patients on whom tables disagree have none."""
    grades: dict[str, set[str]] = {}
    inside = source.files in (root, *root.parents)
    tables = {
        folder / file
        for top in ((source.files,) if inside else (source.files, root))
        for folder, _, files in walk(top, faults)
        for file in files
        if fnmatch(file, labels.tables)
    }
    for table in sorted(tables):
        for row in read_table(table):
            patient, grade = (
                next((cell for name, cell in row.cells.items() if name.startswith(column)), "").removesuffix(".0")
                for column in (labels.id, labels.grade)
            )
            if grade in labels.texts:
                grades.setdefault(patient, set()).add(labels.texts[grade])
    return {patient: own.pop() for patient, own in grades.items() if len(own) == 1}


def build(source: Source, unit: Unit, out: Output) -> None:
    """Slices of one volume.

    Raises:
        MedhebError: missing, damaged, claimed by two files, or, under ``corrected``, without signal or a mask.
    """
    volume: Volume = require_use(unit)
    options, path = source.options(Options), Path(volume.path)
    slices = axial_slices(source, open_volume(path), keep=True)
    facts: dict[str, Fact] = {
        "case": f"{volume.name} {volume.sequence}",
        "study": volume.name,
        "group": volume.name,
        "split": volume.split,
        "label": volume.label,
        "modality": volume.sequence,
        **facts_of(slices, path, 3),
    }
    folder = f"{options.sequences[volume.sequence].slices}/{volume.folder}/{volume.name}"
    write_mr(source, out, folder, slices, options.rule, facts)


def finish(source: Source, files: Sequence[BuiltFile], out: Output) -> None:
    """Lists and counts."""
    finish_slices(source, files, out)
    options = source.options(Options)
    masks = _masks(_root(source, options), options)
    if masks:
        out.note(f"{len(masks)} masks that lie beside the volumes were not read")
    for mask in masks:
        out.remark(os.fspath(mask), "is a mask beside the volumes", "It is not read")
    labels = {file.facts["case"]: file.facts.get("label") for file in files}
    bare = sum(label is None for label in labels.values())
    if bare:
        out.note(f"{bare} of {len(labels)} volumes have no label, because no table of grades has their patients")


RECIPE = Recipe(build, units, finish)
