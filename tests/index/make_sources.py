"""Inventories of invented sources, and runs and tasks over them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from medheb.build.inventory import BuiltFile, Inventory, write_inventory
from medheb.core.digests import sha256_bytes
from medheb.core.layout import Layout
from medheb.core.status import OK, Status
from medheb.index.entries import Source, Sources
from medheb.manifest.config import Config
from medheb.manifest.dataset import Dataset, Recipe
from medheb.manifest.load import Run
from medheb.manifest.protocol import Protocol
from medheb.manifest.rules import load_rules
from medheb.manifest.task import Task

RULES = load_rules(Path(__file__).resolve().parents[2] / "manifests" / "demo")
ORGANS = (
    ("liver", "liver", None, "digestive system"),
    ("left kidney", "kidney", "left", "urinary system"),
    ("right kidney", "kidney", "right", "urinary system"),
    ("spleen", "spleen", None, "lymphatic system"),
    ("T12 vertebra", "vertebrae", None, "skeletal system"),
    ("aorta", "aorta", None, "cardiovascular system"),
)


def built_file(path: str, content: str = "", **facts: Any) -> BuiltFile:
    """A file whose content stands for itself unless ``content`` says otherwise."""
    digest = sha256_bytes((content or path).encode())
    return BuiltFile(path=path, bytes=1, sha256=digest, content=f"pix1:{digest}", facts=facts)


def person(name: str, organs: tuple[tuple[str, str, str | None, str], ...] = ORGANS) -> list[BuiltFile]:
    """Two crops and one stack of every organ, and twelve slices."""
    files = []
    for label, group, side, system in organs:
        facts = {"label": label, "group": group, "side": side, "system": system, "subject": name}
        slug = label.replace(" ", "_")
        for index in (2, 5):
            path = f"crops/{slug}_{index}.png"
            files.append(built_file(path, f"{name}/{path}", kind="crop", slice=index, **facts))
        for index in range(3):
            path = f"voi/{slug}/slice_{index:03d}.png"
            files.append(built_file(path, f"{name}/{path}", kind="voi", case=f"{name}/{slug}", **facts))
    for index in range(12):
        text = f"{name} level {index}"
        path = f"slices/slice_{index:03d}.png"
        files.append(built_file(path, f"{name}/{path}", kind="slice", slice=index, subject=name, text=text))
    return sorted(files, key=lambda file: file.path)


def head(name: str, levels: int = 12) -> list[BuiltFile]:
    """Radiograph and slab of two slices per level."""
    files = []
    for level in range(levels):
        facts = {"case": f"{name}/level_{level:02d}", "level": level, "subject": name}
        path = f"xray/{level:02d}.png"
        files.append(built_file(path, f"{name}/{path}", kind="xray", **facts))
        for index in range(2):
            path = f"slabs/{level:02d}/slice_{index:03d}.png"
            files.append(built_file(path, f"{name}/{path}", kind="slab", **facts))
    return files


def task(builder: str, sources: str, **changes: Any) -> Task:
    fields: dict[str, Any] = {
        "task": "Some_task",
        "index": "2D_Task/Some/Some_test.json",
        "form": "2d",
        "family": "image-image",
        "split": "id",
        "pool": "local",
        "sources": tuple(sources.split("+")),
        "image_root": "3D_Images",
        "builder": builder,
        "qry_inst": "Find it:",
        "qry_text": "",
    }
    return Task.model_validate({**fields, **changes})


def inventory(name: str, files: list[BuiltFile], status: Status = OK, images: str = "3D_Images/{}") -> Inventory:
    return Inventory(
        dataset=name, images=images.format(name), recipe="none", recipe_version=1, status=status, files=tuple(files)
    )


def sources_of(folder: Path, image_root: str | None = "3D_Images", **files: list[BuiltFile]) -> Sources:
    layout = Layout(folder / "sources", folder / "MedHEB", folder / "results")
    return Sources([Source(inventory(name, listed), layout, image_root) for name, listed in files.items()], RULES)


def text_source(folder: Path, rows: list[dict[str, str]]) -> Sources:
    """One source with a real ``records.jsonl``."""
    content = "".join(json.dumps(row) + "\n" for row in rows).encode()
    path = folder / "MedHEB" / "Text_Data" / "words" / "records.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    digest = sha256_bytes(content)
    file = BuiltFile(
        path="records.jsonl", bytes=len(content), sha256=digest, content="json1:x", facts={"kind": "records"}
    )
    layout = Layout(folder / "sources", folder / "MedHEB", folder / "results")
    return Sources([Source(inventory("words", [file], images="Text_Data/{}"), layout, None)], RULES)


def run_of(folder: Path, tasks: list[Task], **inventories: Inventory) -> Run:
    """A run whose sources are built as the inventories say."""
    layout = Layout(folder / "sources", folder / "MedHEB", folder / "results")
    datasets = {}
    for name, listed in inventories.items():
        write_inventory(layout.inventory(listed.images, name), listed)
        datasets[name] = Dataset.model_construct(
            id=name, images=listed.images, recipe=Recipe(name="none", version=1), show_content=True
        )
    protocol = Protocol(
        name="corrected",
        title="test",
        ties="expected",
        candidate_identity="content",
        text_cleaning=False,
        tie_tolerance=1e-6,
    )
    return Run(Config(), layout, datasets, {entry.task: entry for entry in tasks}, {}, protocol, rules=RULES)
