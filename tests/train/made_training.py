"""A made-up training: noisy pictures of four colours, and texts, with their training rows."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from medheb.build.inventory import BuiltFile, Inventory, write_inventory
from medheb.core.digests import pixel_digest, sha256_bytes
from medheb.core.files import write_json
from medheb.core.layout import Layout
from medheb.core.status import OK
from medheb.fetch.weights import fetch_weights
from medheb.index.train import Trained
from medheb.manifest.config import Config
from medheb.manifest.dataset import Dataset
from medheb.manifest.load import Run
from medheb.manifest.model import Model
from medheb.manifest.protocol import Protocol
from medheb.manifest.task import Task

sys.path.append(str(Path(__file__).parents[1] / "models"))
from tiny_checkpoints import make_qwen3vl

SIDE = 64
COLOURS = {"red": (200, 30, 30), "green": (30, 200, 30), "blue": (30, 30, 200), "grey": (120, 120, 120)}
NAMES = tuple(COLOURS)
SOURCE, TEXTS, FOLDER = "colours", "phrases", "2D_Images/colours"


def picture(colour: int, seed: int) -> Image.Image:
    """Noise around one of the colours."""
    noise = np.random.default_rng(seed).integers(-25, 25, (SIDE, SIDE, 3))
    return Image.fromarray((np.array(COLOURS[NAMES[colour]]) + noise).clip(0, 255).astype(np.uint8))


def dataset(name: str) -> Dataset:
    return Dataset.model_validate(
        {
            "id": name,
            "title": "Made up",
            "form": "2d",
            "modality": ["X-ray"],
            "access": "open",
            "licence": {"spdx": "CC0-1.0", "url": "https://example.org"},
            "redistribution": True,
            "show_content": True,
            "host": {"kind": "package", "name": "none", "version": "1.0", "format": "wheel"},
            "files": [{"path": "a.whl", "bytes": 1, "sha256": "0" * 64, "digest_source": "made up"}],
            "recipe": {"name": "pictures", "version": 1},
            "images": FOLDER if name == SOURCE else f"Text/{name}",
            "links": ["https://example.org"],
            "citation": "Nobody",
        }
    )


def task(name: str, source: str, family: str, form: str = "2d") -> Task:
    return Task.model_validate(
        {
            "task": name,
            "index": f"{'Text' if form == 'text' else '2D'}_Task/{source}/{name}.json",
            "form": form,
            "family": family,
            "split": "id",
            "pool": "local",
            "sources": [source],
            "image_root": FOLDER if form == "2d" else None,
            "builder": "labels",
            "qry_inst": "Represent the given image:" if form == "2d" else "Find the same:",
            "qry_text": "",
        }
    )


def tiny_model(weights: Path, **changes: Any) -> Model:
    return Model.model_validate(
        {
            "id": "tiny",
            "title": "Tiny Qwen3-VL",
            "adapter": {
                "name": "qwen3vl",
                "weights": {"kind": "folder", "path": str(weights)},
                "volume_pixels": 131072,
                "image_pixels": [1024, 16384],
                **changes,
            },
        }
    )


def image_row(path: str, colour: int) -> dict[str, Any]:
    return {
        "messages": [
            {"role": "system", "content": "Represent the given image:"},
            {"role": "user", "content": "<image>Which colour is it?"},
        ],
        "images": [f"./{FOLDER}/{path}"],
        "positive_messages": [[{"role": "user", "content": NAMES[colour]}]],
    }


def text_row(number: int) -> dict[str, Any]:
    return {
        "messages": [{"role": "system", "content": "Find the same:"}, {"role": "user", "content": f"number {number}"}],
        "positive_messages": [
            [{"role": "user", "content": f"this is the number {number} " + "of many " * (number % 9)}]
        ],
    }


def made_run(folder: Path, weights: Path | None = None, pictures: int = 40, texts: int = 24, **medemb: Any) -> Run:
    """A run with built pictures, training rows, and the tiny model's weights fetched."""
    weights = weights or make_qwen3vl(folder / "weights")
    layout = layout_in(folder)
    files: list[BuiltFile] = []
    rows: list[dict[str, Any]] = []
    for number in range(pictures):
        name = f"train/{number:03}.png"
        path = layout.benchmark / FOLDER / name
        path.parent.mkdir(parents=True, exist_ok=True)
        picture(number % 4, number).save(path)
        content = path.read_bytes()
        facts = {"width": SIDE, "height": SIDE, "split": "train"}
        files.append(
            BuiltFile(
                path=name, bytes=len(content), sha256=sha256_bytes(content), content=pixel_digest(content), facts=facts
            )
        )
        rows.append(image_row(name, number % 4))
    for name, built in ((SOURCE, tuple(files)), (TEXTS, ())):
        images = dataset(name).images
        inventory = Inventory(dataset=name, images=images, recipe="pictures", recipe_version=1, status=OK, files=built)
        write_inventory(layout.inventory(images, name), inventory)
    run = opened_run(folder, weights, medemb)
    write_rows(run, {"colour": rows, "phrase": [text_row(number) for number in range(texts)]})
    fetch_weights(run, run.models["tiny"])
    return run


def layout_in(folder: Path) -> Layout:
    return Layout(folder / "sources", folder / "MedHEB", folder / "results")


def opened_run(folder: Path, weights: Path, medemb: dict[str, Any]) -> Run:
    tasks = {
        "colour": task("colour", SOURCE, "image-label"),
        "phrase": task("phrase", TEXTS, "text-text", "text"),
    }
    options = {
        "bases": {"tiny": "tiny"},
        "sizes": ["tiny"],
        "batches": {"nominal_pairs": 4, "longest": 256, "most_pairs": 8},
        "learning_rate": 5e-3,
        **medemb,
    }
    return Run(
        config=Config.model_validate({"medemb": options, "embed": {"device": "cpu"}}),
        layout=layout_in(folder),
        datasets={name: dataset(name) for name in (SOURCE, TEXTS)},
        tasks=tasks,
        models={"tiny": tiny_model(weights)},
        protocol=Protocol(
            name="corrected",
            title="Test",
            ties="expected",
            candidate_identity="content",
            text_cleaning=False,
            tie_tolerance=1e-6,
        ),
    )


def reopened(folder: Path) -> Run:
    """The run that another process made in ``folder``, with the options in its ``options.json``."""
    weights = json.loads((folder / "results/models/tiny/weights.json").read_text())["folders"]["base"]["folder"]
    return opened_run(folder, Path(weights), json.loads((folder / "options.json").read_text()))


def write_rows(run: Run, rows: dict[str, list[Any]]) -> None:
    """Training files and their summary; a row that is text is written as it is."""
    run.layout.train_data.mkdir(parents=True, exist_ok=True)
    found: list[Trained] = []
    for name, content in rows.items():
        lines = [line if isinstance(line, str) else json.dumps(line) for line in content]
        (run.layout.train_data / f"{name}_train.jsonl").write_text("".join(f"{line}\n" for line in lines))
        found.append(Trained(task=name, file=f"{name}_train.jsonl", status=OK, rows=len(lines)))
    write_json(run.layout.train_summary, [entry.model_dump(mode="json") for entry in found])
