"""Does the audit folder agree with itself, the manifests and the inventories? A hand-made edit shows here."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from medheb.audit.judge import Verdicts
from medheb.audit.origin import archives_agree
from medheb.audit.privacy import may_show
from medheb.audit.provenance import Provenance, other_parameters, provenance_path, read_provenance
from medheb.audit.roots import shown_index, summary_of
from medheb.audit.schema import (
    SECTION_LEVELS,
    Roots,
    SourceRecord,
    environment_path,
    exact_root,
    index_sums_path,
    overall_roots,
    record_path,
    roots_path,
    section_of,
    source_roots,
    sums_path,
)
from medheb.audit.tree import inventory_name, list_tree, something_at
from medheb.audit.verdicts import Level, Verdict
from medheb.build.inventory import files_of, read_header
from medheb.build.settings import other_settings, settings_in
from medheb.core.digests import merkle_root, sha256sums
from medheb.core.errors import MedhebError
from medheb.core.json_text import parse_json
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
                "the inventory claims other files, digests, settings or status than the record",
            )
    verdicts[roots_path(run.layout).name] = _judge_roots(roots)
    if source is None:
        verdicts[index_sums_path(run.layout).name] = _judge_index_sums(run, roots)
        verdicts |= _judge_descriptions(run, roots)
        verdicts |= _leftovers(run, records)
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
        if record.exact not in {None, exact_root(record.files)}:
            return "MISMATCH", "its root of what declares no tolerance is not that of the digests it lists"
        if record.file_count != len(record.files):
            return "MISMATCH", f"says {record.file_count} files and lists {len(record.files)}"
    if roots.sources.get(dataset) != summary_of(record):
        return "MISMATCH", "roots.json says something else of this source: one of the two was edited, or is older"
    if record.withheld == may_show(run, [dataset]):
        return "MISMATCH", "the manifest's show_content was changed after recording"
    images = run.datasets[dataset].images
    if record.images not in {"", images}:
        return "MISMATCH", f"it is about image folder {record.images}, the manifest names {images}"
    if record.state == "built":
        recipe = run.datasets[dataset].recipe
        if (recipe.name, recipe.version) != (record.recipe, record.recipe_version):
            made = f"{record.recipe} {record.recipe_version}"
            return "MISMATCH", f"the manifest names recipe {recipe.name} {recipe.version}, it was built with {made}"
        if others := other_settings(record.settings, settings_in(run, dataset).named):
            again = f"build it again: snakemake dataset_{dataset}"
            return (
                "MISMATCH",
                f"manifest or configuration now say another {', '.join(others)} than it was built with; {again}",
            )
        try:
            agree = archives_agree(run, dataset, record.archives, record.roots.get("L0"))
        except MedhebError as error:
            return "MISMATCH", error.fault
        except OSError as error:
            return "UNREADABLE", f"what fetch left behind cannot be read: {error.strerror}"
        if not agree:
            return "MISMATCH", "the manifest pins other archives than were recorded (L0)"
    return "IDENTICAL", ""


def _judge_sums(run: Run, record: SourceRecord) -> tuple[Verdict, str]:
    expected = sha256sums({path: digests.L1 for path, digests in record.files.items()}).encode()
    return _judge_text(sums_path(run.layout, record.dataset), expected)


def _judge_index_sums(run: Run, roots: Roots) -> tuple[Verdict, str]:
    known = {key: entry for key, entry in roots.index.entries.items() if key in run.every_task}
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
    for name, section in roots.sections.items():
        if section_of(section.entries, SECTION_LEVELS[name]) != section:
            return "MISMATCH", f"the roots of {name} are not those of its entries: edited after recording"
    for level, root in overall_roots(roots.sources, roots.sections).items():
        if roots.overall.get(level) != root:
            return "MISMATCH", f"the overall {level} root is not that of the roots above it: edited after recording"
    return "IDENTICAL", ""


def _judge_descriptions(run: Run, roots: Roots) -> Verdicts:
    """Verdicts over ``provenance.json``, whose digests must be those of the roots, and ``environment.json``."""
    verdicts: Verdicts = {}
    for path in (provenance_path(run.layout), environment_path(run.layout)):
        if not something_at(path):
            verdicts[path.name] = ("MISSING", "is not there; record again: snakemake audit")
            continue
        try:
            contradicts = (
                _contradiction(run, read_provenance(path), roots) if path == provenance_path(run.layout) else ""
            )
            if path == environment_path(run.layout) and not isinstance(parse_json(path.read_bytes()), dict):
                raise ValueError("not an object")
        except (MedhebError, OSError, ValueError, RecursionError):
            verdicts[path.name] = ("UNREADABLE", "is damaged or of another version; record again: snakemake audit")
            continue
        verdicts[path.name] = ("MISMATCH", contradicts) if contradicts else ("IDENTICAL", "")
    return verdicts


def _leftovers(run: Run, records: Mapping[str, SourceRecord]) -> Verdicts:
    """EXTRA for whatever recording does not write: it may name what must not be named.

    Left out are whole folders of other sources, which a run of more sources left behind, and of broken records.
    """
    known = {path(run.layout).name for path in (roots_path, index_sums_path, environment_path, provenance_path)}
    verdicts: Verdicts = {}
    for path, kind in list_tree(run.layout.audit.parent, run.layout.audit.name).items():
        name = path.partition("/")[2]
        source, _, inner = name.partition("/")
        record = records.get(source)
        if record is not None:
            expected = inner == "digests.json" or (
                inner == "SHA256SUMS" and record.state == "built" and not record.withheld
            )
        else:
            expected = name in known or bool(inner)
        if not expected and kind != "folder":
            verdicts[name] = ("EXTRA", "recording does not write it; see what it is and delete it")
    return verdicts


def _contradiction(run: Run, provenance: Provenance, roots: Roots) -> str:
    if not _states_the_roots(provenance, roots):
        return "states other digests than roots.json"
    if others := other_parameters(provenance, run):
        said = f"manifest or configuration now say another {', '.join(others)} than it states"
        return f"{said}; run again: snakemake all, or undo the edit"
    return ""


def _states_the_roots(provenance: Provenance, roots: Roots) -> bool:
    stated: dict[str, dict[Level, str]] = {}
    for name, source in roots.sources.items():
        stated[f"archives/{name}"] = {level: root for level, root in source.roots.items() if level == "L0"}
        stated[f"source/{name}"] = {level: root for level, root in source.roots.items() if level != "L0"}
    for kind, section in roots.sections.items():
        stated |= {f"{kind}/{name}": dict(entry.digests) for name, entry in section.entries.items()}
    made = provenance.artefacts
    return all(name in made and made[name].digests == digests for name, digests in stated.items())


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
    if other_settings(header.settings, record.settings):
        return True
    if "L3" in record.roots:
        return len(contents) != record.file_count  # pictures may differ within tolerance; they are judged
    return merkle_root(contents) != record.roots.get("L2")
