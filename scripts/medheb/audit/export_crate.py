"""RO-Crate of a run, profile Workflow Run Crate 0.5: workflow, configuration, audit folder, scores and tables.

Nothing of a source that may not be shown leaves: the audit folder holds none of it, and its scores stay out, graded
ones too.
"""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any

import medheb
from medheb.audit.folder import AuditFolder, read_folder
from medheb.audit.graded import task_of_graded
from medheb.audit.privacy import may_show
from medheb.audit.schema import AGAIN, roots_path
from medheb.core.digests import sha256_bytes
from medheb.core.errors import MedhebError
from medheb.core.files import atomic_folder, write_bytes, write_json
from medheb.evaluate.graded_score import read_graded_score
from medheb.evaluate.score import read_score
from medheb.manifest.load import Run

SNAKEFILE = "Snakefile"
CONFIGURATION = "configuration.json"
LICENCE = "https://spdx.org/licenses/Apache-2.0"
PROFILES = {
    "https://w3id.org/ro/wfrun/process/0.5": ("Process Run Crate", "0.5"),
    "https://w3id.org/ro/wfrun/workflow/0.5": ("Workflow Run Crate", "0.5"),
    "https://w3id.org/workflowhub/workflow-ro-crate/1.0": ("Workflow RO-Crate", "1.0"),
}
CONTEXT = [
    "https://w3id.org/ro/crate/1.1/context",
    {"sha256": "https://schema.org/sha256"},
]
MEDIA_TYPES = {
    ".json": "application/json",
    ".csv": "text/csv",
    ".parquet": "application/vnd.apache.parquet",
    ".yaml": "application/yaml",
}
AUDIT_FILES = ("SHA256SUMS-index", "environment.json", "provenance.json", "roots.json")
TABLES = ("leaderboard.csv", "tasks.csv", "summary.json")
Entity = dict[str, Any]


def export_crate(run: Run, out: Path, root: Path = Path()) -> int:
    """Write the crate into the folder ``out``, which it replaces; return the number of files.

    Args:
        run: a finished, recorded run.
        out: folder of the crate.
        root: of the repository, for the workflow's files.

    Raises:
        MedhebError: no audit folder, one that contradicts itself, or one that shows what this run may not show.
    """
    folder = read_folder(run.layout.audit)
    if folder.faults:
        name, fault = next(iter(folder.faults.items()))
        raise MedhebError(folder.path / name, fault, AGAIN)
    for name, record in folder.records.items():
        if not record.withheld and not may_show(run, [name]):
            fault = f"names files of source {name}, which may not be shown or is not part of this run"
            raise MedhebError(folder.path / name / "digests.json", fault, AGAIN)
    recorded = recorded_time(roots_path(run.layout))
    with atomic_folder(out) as staging:
        files = {**_workflow_files(root), **_result_files(run, folder)}
        for name, content in files.items():
            write_bytes(staging / name, content)
        graph = _graph(run, folder, files, recorded)
        write_json(staging / "ro-crate-metadata.json", {"@context": CONTEXT, "@graph": graph})
    return len(files)


def recorded_time(path: Path) -> str:
    """When a file was last written, or what SOURCE_DATE_EPOCH says, in UTC."""
    seconds = os.environ.get("SOURCE_DATE_EPOCH")
    moment = float(seconds) if seconds else path.stat().st_mtime
    return datetime.fromtimestamp(moment, UTC).replace(microsecond=0).isoformat()


def _workflow_files(root: Path) -> dict[str, bytes]:
    paths = [root / SNAKEFILE, *sorted((root / "workflow" / "rules").glob("*.smk"))]
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in paths}


def _result_files(run: Run, folder: AuditFolder) -> dict[str, bytes]:
    configuration = folder.provenance.configuration if folder.provenance else {}
    files = {CONFIGURATION: (json.dumps(configuration, indent=1, sort_keys=True) + "\n").encode()}
    for name in sorted(_audit_files(folder)):
        path = run.layout.audit / name
        if path.is_file() and not path.is_symlink():
            files[f"audit/{name}"] = path.read_bytes()
    shown_run = may_show(run, run.datasets)
    for name in TABLES if shown_run else TABLES[:1]:
        if (run.layout.report / name).is_file():
            files[f"report/{name}"] = (run.layout.report / name).read_bytes()
    for model in run.models:
        for key, task in run.tasks.items():
            path = run.layout.score(model, key)
            if may_show(run, task.sources) and path.is_file() and read_score(path).status.ok:
                files[f"scores/{model}/{key}.json"] = path.read_bytes()
                files[f"scores/{model}/{key}.parquet"] = run.layout.per_query(model, key).read_bytes()
        for key in run.graded_entries:
            path = run.layout.graded(model, key)
            shown = may_show(run, task_of_graded(run, key).sources)
            if shown and path.is_file() and read_graded_score(path).status.ok:
                files[f"graded/{model}/{key}.json"] = path.read_bytes()
                files[f"graded/{model}/{key}.parquet"] = path.with_suffix(".parquet").read_bytes()
    return files


def _audit_files(folder: AuditFolder) -> list[str]:
    """What a recorded audit folder consists of: whatever else lies there stays behind."""
    names = [*AUDIT_FILES, *(f"{dataset}/digests.json" for dataset in folder.records)]
    return names + [f"{name}/SHA256SUMS" for name, one in folder.records.items() if one.state == "built" and one.files]


def _graph(run: Run, folder: AuditFolder, files: dict[str, bytes], recorded: str) -> list[Entity]:
    snakemake = str(folder.environment.get("packages", {}).get("snakemake", "unknown"))
    sources = [_source(run, folder, dataset) for dataset in run.datasets]
    results = [name for name in files if name.startswith(("audit/", "scores/", "graded/", "report/"))]
    parameters = [
        _parameter("#param-configuration", "configuration", "File", CONFIGURATION),
        _parameter("#param-roots", "audit roots", "File", "audit/roots.json"),
        *(_parameter(f"#param-{one['@id'][1:]}", str(one["name"]), "PropertyValue", one["@id"]) for one in sources),
    ]
    workflow: Entity = {
        **_file(SNAKEFILE, files[SNAKEFILE]),
        "@type": ["File", "SoftwareSourceCode", "ComputationalWorkflow"],
        "name": "MedHEB: rebuild a medical retrieval benchmark, evaluate embedding models on it, audit the result",
        "programmingLanguage": {"@id": "#snakemake"},
        "license": {"@id": LICENCE},
        "version": medheb.__version__,
        "input": [_link(one["@id"]) for one in parameters if one["@id"] != "#param-roots"],
        "output": [{"@id": "#param-roots"}],
        "hasPart": [_link(name) for name in files if name.endswith(".smk")],
    }
    action: Entity = {
        "@id": "#run",
        "@type": "CreateAction",
        "name": "Run of the workflow",
        "description": "Sources to images, task files, embeddings, scores, report and audit folder",
        "instrument": {"@id": SNAKEFILE},
        "object": [{"@id": CONFIGURATION}, *(_link(one["@id"]) for one in sources)],
        "result": [_link(name) for name in results],
        "endTime": recorded,
        "actionStatus": "http://schema.org/CompletedActionStatus",
    }
    return [
        _descriptor(),
        _root(run, files, recorded),
        workflow,
        *(_file(name, content) for name, content in files.items() if name != SNAKEFILE),
        action,
        *sources,
        *parameters,
        {
            "@id": "#snakemake",
            "@type": "ComputerLanguage",
            "name": "Snakemake",
            "identifier": {"@id": "https://doi.org/10.1093/bioinformatics/bts480"},
            "url": {"@id": "https://snakemake.readthedocs.io"},
            "version": snakemake,
        },
        {"@id": LICENCE, "@type": "CreativeWork", "name": "Apache License 2.0", "identifier": "Apache-2.0"},
        *(
            {"@id": url, "@type": "CreativeWork", "name": name, "version": version}
            for url, (name, version) in PROFILES.items()
        ),
    ]


def _descriptor() -> Entity:
    return {
        "@id": "ro-crate-metadata.json",
        "@type": "CreativeWork",
        "about": {"@id": "./"},
        "conformsTo": [
            {"@id": "https://w3id.org/ro/crate/1.1"},
            {"@id": "https://w3id.org/workflowhub/workflow-ro-crate/1.0"},
        ],
    }


def _root(run: Run, files: dict[str, bytes], recorded: str) -> Entity:
    return {
        "@id": "./",
        "@type": "Dataset",
        "name": f"MedHEB run: {len(run.datasets)} sources, {len(run.tasks)} tasks, {len(run.models)} models",
        "description": "Audit folder, scores and tables of one run of the MedHEB workflow, with the workflow itself. "
        "Images, texts and models are not part of it; audit/roots.json holds their digests. Each source has its own "
        "terms.",
        "datePublished": recorded,
        "license": {"@id": LICENCE},
        "conformsTo": [_link(url) for url in PROFILES],
        "mainEntity": {"@id": SNAKEFILE},
        "hasPart": [_link(name) for name in files],
        "mentions": [{"@id": "#run"}],
    }


def _source(run: Run, folder: AuditFolder, dataset: str) -> Entity:
    source = folder.roots.sources[dataset]
    manifest = run.datasets[dataset]
    return {
        "@id": f"#source-{dataset}",
        "@type": "PropertyValue",
        "name": f"source {dataset}",
        "description": f"{manifest.title}; terms: {manifest.licence.spdx or manifest.licence.url}",
        "value": source.roots.get("L2", source.state),
    }


def _parameter(identifier: str, name: str, kind: str, example: str) -> Entity:
    return {
        "@id": identifier,
        "@type": "FormalParameter",
        "additionalType": kind,
        "conformsTo": {"@id": "https://bioschemas.org/profiles/FormalParameter/1.0-RELEASE"},
        "name": name,
        "workExample": {"@id": example},
    }


def _file(name: str, content: bytes) -> Entity:
    entity: Entity = {
        "@id": name,
        "@type": "File",
        "name": name,
        "contentSize": str(len(content)),
        "sha256": sha256_bytes(content),
        "encodingFormat": MEDIA_TYPES.get(PurePosixPath(name).suffix, "text/plain"),
    }
    return entity


def _link(identifier: str) -> dict[str, str]:
    return {"@id": identifier}
