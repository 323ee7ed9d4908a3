"""Two made-up sources of labelled pictures, their task files, and vectors of a chosen quality; no picture exists."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from medheb.build.inventory import BuiltFile, Inventory, write_inventory
from medheb.core.digests import sha256_bytes
from medheb.core.layout import Layout
from medheb.core.status import OK
from medheb.embed.inputs import render_task
from medheb.embed.receipt import Receipt, write_receipt
from medheb.embed.store import Store
from medheb.index.run import build_index
from medheb.manifest.config import Config
from medheb.manifest.dataset import Dataset, Recipe
from medheb.manifest.graded import Graded
from medheb.manifest.load import Run
from medheb.manifest.model import Model
from medheb.manifest.protocol import Protocol
from medheb.manifest.rules import IndexRule
from medheb.manifest.task import Task
from medheb.models.load import load_adapter

LABELS = ("left kidney", "right kidney", "left lung", "right lung", "liver", "spleen")
FINDINGS = ("Edema", "Fracture", "Pneumonia", "Pneumothorax")
SIZE = 8
RELATIONS = {
    "sides": {
        "kind": "groups",
        "note": "made for a test",
        "classes": LABELS,
        "groups": [{"gain": 0.5, "classes": LABELS[:2]}, {"gain": 0.5, "classes": LABELS[2:4]}],
        "queries": LABELS[:4],
    },
    "findings": {"kind": "overlap", "fact": "findings", "hit": "any", "note": "made for a test", "classes": FINDINGS},
}


def row(key: str, builder: str, sources: str, **changes: Any) -> dict[str, Any]:
    return {
        "task": key,
        "index": f"2D_Task/{key}.json",
        "form": "2d",
        "family": "image-image",
        "split": "id",
        "pool": "local",
        "sources": tuple(sources.split("+")),
        "image_root": "2D_Images",
        "builder": builder,
        "qry_inst": "Find it:",
        "qry_text": "",
    } | changes


def findings_of(number: int) -> str:
    """One or two findings of a picture."""
    return " | ".join(sorted({FINDINGS[number % 4], FINDINGS[number * number % 3]}))


def inventory(name: str, without: str = "") -> Inventory:
    files = []
    for number in range(48):
        path, label = f"{number:02d}.png", LABELS[number % len(LABELS)]
        digest = sha256_bytes(f"{name}/{path}".encode())
        facts = {"kind": "picture", "split": "test", "label": label, "findings": findings_of(number)}
        facts.pop(without, None)
        files.append(BuiltFile(path=path, bytes=1, sha256=digest, content=f"pix1:{digest}", facts=facts))
    return Inventory(
        dataset=name, images=f"2D_Images/{name}", recipe="none", recipe_version=1, status=OK, files=tuple(files)
    )


def make_run(folder: Path, without: str = "") -> Run:
    """A run with its inventories and task files; ``without`` is a fact that source beta lacks."""
    layout = Layout(folder / "sources", folder / "MedHEB", folder / "results")
    datasets = {}
    for name in ("alpha", "beta"):
        made = inventory(name, without if name == "beta" else "")
        write_inventory(layout.inventory(made.images, name), made)
        datasets[name] = Dataset.model_construct(
            id=name, images=made.images, recipe=Recipe(name="none", version=1), show_content=name == "alpha", places=()
        )
    rows = [
        row("same", "same", "alpha"),
        row("named", "named", "alpha", family="text-image", qry_text="<label>"),
        row("named_global", "named", "alpha", family="text-image", qry_text="<label>", pool="global"),
    ]
    shared = row("shared_findings", "shared", "alpha+beta", split="heldout")
    entries = [
        {"key": f"graded_{key}", "aspect": "laterality", "task": key, "relation": "sides"}
        for key in ("same", "named", "named_global")
    ]
    entries.append({"key": "shared_findings", "aspect": "cross-source", "relation": "findings", "row": shared})
    items = {"items": {"kind": "picture"}}
    rules = {
        "same": IndexRule(builder="same_label", options=items),
        "named": IndexRule(builder="label_to_image", options=items),
        "shared": IndexRule(builder="shared_labels", options=items | {"rows": 30, "candidates": 12}),
    }
    models = [
        Model.model_validate({"id": name, "title": f"{name} vectors", "canary": True, "adapter": {"name": name}})
        for name in ("random", "constant")
    ]
    protocol = Protocol(
        name="corrected",
        title="Made for a test",
        ties="expected",
        candidate_identity="content",
        text_cleaning=False,
        tie_tolerance=1e-6,
    )
    run = Run(
        Config.model_validate({"evaluate": {"bootstrap_resamples": 100}}),
        layout,
        datasets,
        {item["task"]: Task.model_validate(item) for item in rows},
        {model.id: model for model in models},
        protocol,
        rules=rules,
        graded=Graded.model_validate({"note": "made for a test", "relations": RELATIONS, "entries": entries}),
    )
    for key in run.every_task:
        build_index(run, key)
    return run


VectorOf = Callable[[str, str], np.ndarray]
"""Vector [SIZE] of a query or candidate from its label (or the text of a query) and its findings."""


def embed(run: Run, model: str, vector: VectorOf) -> None:
    """Store vectors of all inputs of all tasks, as an embedding job of a model would."""
    adapter = load_adapter(run.models[model], run.layout)
    store: dict[str, np.ndarray] = {}
    for task in run.every_task.values():
        if not run.layout.task_index(task.index).read_text().startswith("[\n{"):
            continue
        rendered = render_task(run, task, adapter)
        for item in [*rendered.queries, *(one for many in rendered.candidates for one in many)]:
            number = int(item.images[0].path[-6:-4]) if item.images else 0
            label = LABELS[number % len(LABELS)] if item.images else item.text
            made = vector(label, findings_of(number)).astype(np.float32)
            for part in adapter.parts(item):
                store[part.key] = made / np.linalg.norm(made)
    if store:
        Store(run.layout.store(model) / "made").append(list(store), np.stack(list(store.values())))
    for group in run.groups:
        write_receipt(
            run.layout.embedded(model, group), Receipt(model=model, group=group, status=OK, fingerprint="made")
        )


def by_label(label: str, findings: str) -> np.ndarray:
    """Left and right of one organ lie close; other organs lie apart."""
    vector = np.zeros(SIZE)
    vector[LABELS.index(label)] = 1.0
    if label in LABELS[:4]:
        vector[LABELS.index(label) ^ 1] = 0.4
    return vector


def by_findings(label: str, findings: str) -> np.ndarray:
    """Equal findings lie on one another."""
    vector = np.zeros(SIZE)
    for name in findings.split(" | "):
        vector[FINDINGS.index(name)] = 1.0
    return vector


def constant(label: str, findings: str) -> np.ndarray:
    """Everything is one."""
    return np.ones(SIZE)
