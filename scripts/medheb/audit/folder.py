"""An audit folder by itself: read without the run that it came from, and whether it agrees with itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from medheb.audit.provenance import Provenance, read_provenance
from medheb.audit.roots import summary_of
from medheb.audit.schema import (
    SECTION_LEVELS,
    Roots,
    SourceRecord,
    exact_root,
    overall_roots,
    private_folder,
    read_roots,
    read_source_record,
    section_of,
    source_roots,
)
from medheb.audit.tree import something_at
from medheb.core.errors import MedhebError
from medheb.core.json_text import parse_json


@dataclass(frozen=True)
class AuditFolder:
    """Content of one audit folder.

    Args:
        path: where it lies.
        roots: ``roots.json``.
        records: ``digests.json`` by source, as far as they can be read.
        environment: ``environment.json``; empty if it is missing.
        provenance: ``provenance.json``; None if it is missing.
        faults: parts that are damaged or contradict each other, with the reason.
    """

    path: Path
    roots: Roots
    records: dict[str, SourceRecord]
    environment: dict[str, Any]
    provenance: Provenance | None
    faults: dict[str, str] = field(default_factory=dict)

    def full_record(self, dataset: str) -> SourceRecord | None:
        """Digests of all files of a source: of one that is withheld, if they lie beside this folder and it vouches.

        What is taken from the second kind must not be named.
        """
        record = self.records.get(dataset)
        if record is None or not record.withheld:
            return record
        try:
            private = read_source_record(private_folder(self.path.resolve()) / dataset / "digests.json")
        except MedhebError:
            return None
        return private if source_roots(private.archives, private.files) == record.roots else None


def read_folder(path: Path) -> AuditFolder:
    """Read an audit folder, and compute every root in it again.

    Raises:
        MedhebError: there is no ``roots.json`` of this version.
    """
    roots = read_roots(path / "roots.json")
    faults: dict[str, str] = {}
    records: dict[str, SourceRecord] = {}
    for dataset in roots.sources:
        name = f"{dataset}/digests.json"
        try:
            record = read_source_record(path / dataset / "digests.json")
        except MedhebError as error:
            faults[name] = error.fault
            continue
        if record.dataset != dataset or summary_of(record) != roots.sources[dataset]:
            faults[name] = "says something else than roots.json: one of the two was edited, or is older"
            continue
        if record.state == "built" and not record.withheld and not _lists_what_it_states(record):
            faults[name] = "its roots are not those of the digests it lists: edited after recording"
            continue
        records[dataset] = record
    faults |= _roots_faults(roots)
    environment, fault = _environment(path / "environment.json")
    provenance, other = _provenance(path / "provenance.json")
    faults |= {name: text for name, text in (("environment.json", fault), ("provenance.json", other)) if text}
    return AuditFolder(path, roots, records, environment, provenance, faults)


def _lists_what_it_states(record: SourceRecord) -> bool:
    return (
        source_roots(record.archives, record.files) == record.roots
        and record.exact in {None, exact_root(record.files)}
        and len(record.files) == record.file_count
    )


def _roots_faults(roots: Roots) -> dict[str, str]:
    for name, section in roots.sections.items():
        if section_of(section.entries, SECTION_LEVELS[name]) != section:
            return {"roots.json": f"the roots of {name} are not those of its entries: edited after recording"}
    if overall_roots(roots.sources, roots.sections) != roots.overall:
        return {"roots.json": "the overall roots are not those of the roots above them: edited after recording"}
    return {}


def _environment(path: Path) -> tuple[dict[str, Any], str]:
    try:
        content = parse_json(path.read_bytes())
    except FileNotFoundError:
        return {}, ""
    except OSError as error:
        return {}, f"cannot be read ({error.strerror})"
    except ValueError:
        return {}, "is not JSON"
    return (content, "") if isinstance(content, dict) else ({}, "is not a JSON object")


def _provenance(path: Path) -> tuple[Provenance | None, str]:
    if not something_at(path):
        return None, ""
    try:
        return read_provenance(path), ""
    except MedhebError as error:
        return None, error.fault
