"""Which rule made each artefact, from which inputs, with which code and which parameters.

Names stand for artefacts (``source/ct_a``, ``scores/random/Organ_cls``), digests are those of ``roots.json``. Digests
of code and parameters are those that the workflow passes to its rules; it makes anew whatever was made with others.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from pydantic import Field

import medheb
from medheb.audit.graded import task_of_graded
from medheb.audit.roots import score_name
from medheb.audit.schema import Entry, Roots, read_part
from medheb.audit.verdicts import Level
from medheb.core.digests import json_digest
from medheb.core.errors import MedhebError
from medheb.core.files import write_json
from medheb.core.layout import Layout
from medheb.fetch.found_weights import read_found
from medheb.manifest.base import Strict
from medheb.manifest.dataset import Dataset
from medheb.manifest.load import Run
from medheb.manifest.model import Model
from medheb.manifest.task import Task
from medheb.manifest.weights import FolderWeights, HubWeights

PLACES = {"paths", "local_copies", "weights"}  # folders of one machine: not part of what was decided


class Rules(Protocol):
    """What of the workflow decides results; ``medheb.workflow.Plan`` is one."""

    def code(self, step: str) -> str:
        """Digest of the code behind a step."""

    def build_code(self, dataset: str) -> str:
        """Digest of the code that builds a source."""

    def fetch_settings(self, dataset: str) -> str:
        """Digest of host, files and unpack rules."""

    def build_settings(self, dataset: str) -> str:
        """Digest of recipe, options and switches."""

    def index_settings(self, index: str) -> str:
        """Digest of a task row and the seed."""

    def model_settings(self, model: str) -> str:
        """Digest of where weights come from."""

    def vector_settings(self, model: str) -> str:
        """Digest of adapter and bridge."""

    def embed_settings(self, model: str) -> str:
        """Digest of adapter, bridge and text cleaning."""

    def evaluate_settings(self) -> str:
        """Digest of protocol, seed and interval options."""

    def graded_settings(self, key: str) -> str:
        """Digest of the same, and of a graded task with its relation."""


class Artefact(Strict):
    """How one artefact came to be. ``inputs`` are names of artefacts; ``code`` is empty where code does not decide."""

    rule: str
    inputs: tuple[str, ...] = ()
    code: str = ""
    settings: str = Field(default="", description="digest of the parameters that the rule passes")
    parameters: dict[str, Any] = Field(default_factory=dict, description="the main ones in words")
    digests: dict[Level, str] = Field(default_factory=dict)


class Provenance(Strict):
    """``provenance.json``."""

    schema_version: int = 1
    medheb: str
    configuration: dict[str, Any]
    artefacts: dict[str, Artefact]


def provenance_path(layout: Layout) -> Path:
    """``provenance.json``."""
    return layout.audit / "provenance.json"


def read_provenance(path: Path) -> Provenance:
    """Read ``provenance.json``.

    Raises:
        MedhebError: missing, not JSON, a wrong value, or another schema version.
    """
    return read_part(path, Provenance)


def write_provenance(run: Run, roots: Roots, rules: Rules) -> None:
    """Write ``provenance.json`` for everything that ``roots.json`` lists."""
    made = Provenance(
        medheb=medheb.__version__,
        configuration=run.config.model_dump(mode="json", exclude=PLACES),
        artefacts=dict(_artefacts(run, roots, rules)),
    )
    write_json(provenance_path(run.layout), made.model_dump())


def other_parameters(made: Provenance, run: Run) -> list[str]:
    """Stated parameters of sources, task files and scores that are now said otherwise, each with a first artefact."""
    now = {f"archives/{name}": _fetching(manifest) for name, manifest in run.datasets.items()}
    now |= {f"index/{key}": _indexing(run, task) for key, task in run.every_task.items()}
    now |= {f"scores/{score_name(model, key)}": _evaluation(run) for model in run.models for key in run.tasks}
    now |= {f"graded/{score_name(model, key)}": _evaluation(run) for model in run.models for key in run.graded_entries}
    stated = {name: made.artefacts[name].parameters for name in now if name in made.artefacts}
    names: dict[str, str] = {}
    for name, parameters in stated.items():
        for parameter, value in now[name].items():
            # An older record states fewer. No rule depends on the class of access.
            if parameter != "access" and parameters.get(parameter, value) != value:
                names.setdefault(parameter, f"{parameter} ({name})")
    return sorted(names.values())


def _artefacts(run: Run, roots: Roots, rules: Rules) -> Iterator[tuple[str, Artefact]]:
    for dataset, manifest in run.datasets.items():
        found = roots.sources[dataset].roots
        yield (
            f"archives/{dataset}",
            Artefact(
                rule="fetch_source",
                settings=rules.fetch_settings(dataset),
                parameters=_fetching(manifest),
                digests={"L0": found["L0"]} if "L0" in found else {},
            ),
        )
        yield (
            f"source/{dataset}",
            Artefact(
                rule="build_images",
                inputs=tuple(f"archives/{name}" for name in (dataset, *manifest.requires)),
                code=rules.build_code(dataset),
                settings=rules.build_settings(dataset),
                parameters={"recipe": manifest.recipe.name, "recipe_version": manifest.recipe.version},
                digests={level: root for level, root in found.items() if level != "L0"},
            ),
        )
    for key, task in run.every_task.items():
        yield (
            f"index/{key}",
            Artefact(
                rule="build_index",
                inputs=tuple(f"source/{name}" for name in task.sources),
                code=rules.code("index"),
                settings=rules.index_settings(task.index),
                parameters=_indexing(run, task),
                digests=_digests(roots.index.entries[key]),
            ),
        )
    for model in run.models:
        yield from _of_model(run, roots, rules, model)


def _folder(run: Run, model: Model, slot: str, weights: HubWeights | FolderWeights) -> dict[str, str | None]:
    """Repository, commit and digest of a folder of weights as it was fetched; never where it lies on this machine."""
    try:
        record = read_found(run.layout, model.id).folders.get(slot)
    except MedhebError:
        record = None
    named = weights.repository if isinstance(weights, HubWeights) else None
    pinned = weights.revision if isinstance(weights, HubWeights) else None
    if record is None:
        return {"repository": named, "revision": pinned, "digest": None}
    return {"repository": record.repository, "revision": record.revision, "digest": record.digest}


def _of_model(run: Run, roots: Roots, rules: Rules, model: str) -> Iterator[tuple[str, Artefact]]:
    manifest = run.models[model]
    weights = {
        "weights": [entry.model_dump(mode="json") for entry in manifest.weights()],
        "folders": {slot: _folder(run, manifest, slot, entry) for slot, entry in manifest.folders().items()},
        "adapter": manifest.adapter.name,
    }
    yield f"weights/{model}", Artefact(rule="fetch_model", settings=rules.model_settings(model), parameters=weights)
    needed = [f"weights/{model}"]
    if manifest.bridge:
        needed.append(f"bridge/{model}")
        yield (
            f"bridge/{model}",
            Artefact(
                rule="fit_bridge",
                inputs=(f"weights/{model}", *(f"source/{name}" for name in manifest.bridge.train_sources)),
                code=rules.code("bridge"),
                settings=rules.vector_settings(model),
            ),
        )
    for group in run.groups:
        tasks = run.tasks_of(group)
        sources = dict.fromkeys(f"source/{name}" for task in tasks for name in task.sources)
        yield (
            f"embeddings/{score_name(model, group)}",
            Artefact(
                rule="embed_inputs",
                inputs=(*needed, *(f"index/{task.task}" for task in tasks), *sources),
                code=rules.code("embed"),
                settings=rules.embed_settings(model),
                digests=_digests(roots.embeddings.entries[score_name(model, group)]),
            ),
        )
    for key, task in run.tasks.items():
        yield (
            f"scores/{score_name(model, key)}",
            Artefact(
                rule="evaluate_task",
                inputs=(
                    f"embeddings/{score_name(model, task.group)}",
                    f"index/{key}",
                    *(f"source/{name}" for name in task.sources),
                ),
                code=rules.code("evaluate"),
                settings=rules.evaluate_settings(),
                parameters=_evaluation(run),
                digests=_digests(roots.scores.entries[score_name(model, key)]),
            ),
        )
    for key, entry in run.graded_entries.items():
        task = task_of_graded(run, key)
        yield (
            f"graded/{score_name(model, key)}",
            Artefact(
                rule="evaluate_graded",
                inputs=(
                    f"embeddings/{score_name(model, task.group)}",
                    f"index/{task.task}",
                    *(f"source/{name}" for name in task.sources),
                ),
                code=rules.code("graded"),
                settings=rules.graded_settings(key),
                parameters={"aspect": entry.aspect, "relation": entry.relation, **_evaluation(run)},
                digests=_digests(roots.graded.entries[score_name(model, key)]),
            ),
        )


def _fetching(manifest: Dataset) -> dict[str, Any]:
    parts = manifest.model_dump(mode="json", include={"host", "unpack"})
    host, unpack = (json_digest(parts[name])[:16] for name in ("host", "unpack"))
    return {"host": manifest.host.kind, "access": manifest.access, "host_digest": host, "unpack_digest": unpack}


def _indexing(run: Run, task: Task) -> dict[str, Any]:
    row = json_digest(task.model_dump(mode="json", exclude={"note"}))[:16]
    return {"builder": task.builder, "task_index": run.config.task_index, "seed": run.config.seed, "row_digest": row}


def _evaluation(run: Run) -> dict[str, Any]:
    return {
        "protocol": run.protocol.name,
        "protocol_digest": json_digest(run.protocol.model_dump(mode="json"))[:16],
        "seed": run.config.seed,
        **run.config.evaluate.model_dump(mode="json"),
    }


def _digests(entry: Entry) -> dict[Level, str]:
    return dict(entry.digests)
