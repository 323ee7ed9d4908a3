"""Does the audit folder agree with itself, the manifests and the inventories? A hand-made edit shows here."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from medheb.audit.judge import Verdicts
from medheb.audit.origin import archive_digests
from medheb.audit.privacy import may_show
from medheb.audit.roots import shown_index, summary_of
from medheb.audit.schema import (
    SECTION_LEVELS,
    Roots,
    SourceRecord,
    index_sums_path,
    overall_roots,
    record_path,
    roots_path,
    section_of,
    source_roots,
    sums_path,
)
from medheb.audit.tree import inventory_name, something_at
from medheb.audit.verdicts import Verdict
from medheb.build.inventory import files_of, read_header
from medheb.core.digests import merkle_root, sha256sums
from medheb.core.errors import MedhebError
from medheb.manifest.load import Run


def judge_record(run: Run, roots: Roots, records: Mapping[str, SourceRecord], source: str | None) -> Verdicts:
    """Verdicts over the files of the audit folder, by their path in it, and over the inventories.

    Each root that is stated is computed again from what it stands for. ``source`` leaves out what
    concerns other sources; the roots over everything are computed in any case.
    """
    verdicts: Verdicts = {}
    for dataset, record in records.items():
        name = f"{dataset}/{record_path(run.layout, dataset).name}"
        verdicts[name] = _judge_source_record(run, roots, record)
        if record.state == "built" and not record.withheld:
            verdicts[f"{dataset}/{sums_path(run.layout, dataset).name}"] = _judge_sums(run, record)
        if _inventory_contradicts(run, record):
            shown = may_show(run, [dataset])
            verdicts[inventory_name(run, dataset) if shown else f"inventory of {dataset}"] = (
                "MISMATCH",
                "the inventory claims other files, digests or status than the record",
            )
    verdicts[roots_path(run.layout).name] = _judge_roots(roots)
    if source is None:
        verdicts[index_sums_path(run.layout).name] = _judge_index_sums(run, roots)
        for dataset in roots.sources.keys() - run.datasets.keys():
            verdicts[dataset] = ("EXTRA", "is recorded but not part of this configuration; its files were not checked")
    return verdicts


def _judge_source_record(run: Run, roots: Roots, record: SourceRecord) -> tuple[Verdict, str]:
    dataset = record.dataset
    if record.state == "built" and not record.withheld:
        computed = source_roots(record.archives, record.files)
        for level, root in computed.items():
            if record.roots.get(level) != root:
                return "MISMATCH", f"its {level} root is not that of the digests it lists: edited after recording"
        if record.file_count != len(record.files):
            return "MISMATCH", f"says {record.file_count} files and lists {len(record.files)}"
    if roots.sources.get(dataset) != summary_of(record):
        return "MISMATCH", "roots.json says something else of this source: one of the two was edited, or is older"
    if record.withheld == may_show(run, [dataset]):
        return "MISMATCH", "the manifest's show_content was changed after recording"
    if record.state == "built":
        try:
            archives = archive_digests(run, dataset)
        except MedhebError as error:
            return "MISMATCH", error.fault
        except OSError as error:
            return "UNREADABLE", f"what fetch left behind cannot be read: {error.strerror}"
        if merkle_root(archives) != record.roots.get("L0"):
            return "MISMATCH", "the manifest pins other archives than were recorded (L0)"
    return "IDENTICAL", ""


def _judge_sums(run: Run, record: SourceRecord) -> tuple[Verdict, str]:
    expected = sha256sums({path: digests.L1 for path, digests in record.files.items()}).encode()
    return _judge_text(sums_path(run.layout, record.dataset), expected)


def _judge_index_sums(run: Run, roots: Roots) -> tuple[Verdict, str]:
    known = {key: entry for key, entry in roots.index.entries.items() if key in run.tasks}
    return _judge_text(index_sums_path(run.layout), sha256sums(shown_index(run, known)).encode())


def _judge_text(path: Path, expected: bytes) -> tuple[Verdict, str]:
    try:
        found = path.read_bytes()
    except FileNotFoundError:
        return "MISSING", "is not there; record again: snakemake audit"
    except OSError as error:
        return "UNREADABLE", f"cannot be read: {error.strerror}"
    return ("IDENTICAL", "") if found == expected else ("MISMATCH", "lists other digests than the JSON beside it")


def _judge_roots(roots: Roots) -> tuple[Verdict, str]:
    sections = {"index": roots.index, "scores": roots.scores, "embeddings": roots.embeddings}
    for name, section in sections.items():
        if section_of(section.entries, SECTION_LEVELS[name]) != section:
            return "MISMATCH", f"the roots of {name} are not those of its entries: edited after recording"
    for level, root in overall_roots(roots.sources, sections).items():
        if roots.overall.get(level) != root:
            return "MISMATCH", f"the overall {level} root is not that of the roots above it: edited after recording"
    return "IDENTICAL", ""


def _inventory_contradicts(run: Run, record: SourceRecord) -> bool:
    """True if there is an inventory and it says something else than the record of what was built.

    The bytes of images may differ between two machines, so contents (L2) decide. A copy of the benchmark
    without inventories is in order: the files speak for themselves.
    """
    path = run.layout.inventory(run.datasets[record.dataset].images, record.dataset)
    if not something_at(path):
        return False
    try:
        header = read_header(path)
        contents = {f"{header.images}/{file.path}": file.content for file in files_of(path, header)}
    except (MedhebError, OSError, RecursionError):
        return True
    if header.status.ok != (record.state == "built"):
        return True
    if not header.status.ok:
        return False
    if (header.recipe, header.recipe_version) != (record.recipe, record.recipe_version):
        return True
    if "L3" in record.roots:
        return len(contents) != record.file_count  # pictures may differ within tolerance; they are judged
    return merkle_root(contents) != record.roots.get("L2")
