"""A run with one source of pictures and one task, and its embedding job with the toy model.

As a script it is such a job in a process of its own: ``python toy_run.py ROOT '{"shard_inputs": 4}' PREPARE ENCODE``.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

from toy_model import ToyAdapter, ToyEncoder, write_pictures

from medheb.build.inventory import BuiltFile, Inventory, write_inventory
from medheb.core.files import write_json
from medheb.core.layout import Layout
from medheb.core.status import OK, Status, write_status
from medheb.embed import run as job
from medheb.embed.receipt import Receipt, read_receipt
from medheb.embed.store import Store
from medheb.manifest.config import Config
from medheb.manifest.dataset import Dataset
from medheb.manifest.load import Run
from medheb.manifest.model import Model
from medheb.manifest.protocol import Protocol
from medheb.manifest.task import Task

FOLDER = "2D_Images/toy"
MODEL = "random"


def toy_run(root: Path, **embed: Any) -> Run:
    """The run in a folder, whether its files are there or not."""
    dataset = Dataset.model_validate(
        {
            "id": "toy",
            "title": "Made-up pictures",
            "form": "2d",
            "modality": ["X-ray"],
            "access": "open",
            "licence": {"spdx": "CC0-1.0", "url": "https://example.org"},
            "redistribution": True,
            "show_content": True,
            "host": {"kind": "package", "name": "toy", "version": "1", "format": "wheel"},
            "files": [{"path": "toy.whl", "bytes": 1, "sha256": "0" * 64, "digest_source": "made by the tests"}],
            "unpack": {"include": ["*"]},
            "recipe": {"name": "pictures", "version": 1},
            "images": FOLDER,
            "links": ["https://example.org"],
            "citation": "Nobody.",
        }
    )
    task = Task.model_validate(
        {
            "task": "toy_i2i",
            "index": "2D_Task/toy/toy_i2i.json",
            "form": "2d",
            "family": "image-image",
            "split": "id",
            "pool": "global",
            "sources": ["toy"],
            "image_root": FOLDER,
            "builder": "pairs",
            "qry_inst": "Find the same:",
            "qry_text": "",
        }
    )
    return Run(
        config=Config.model_validate({"embed": embed, "evaluate": {"bootstrap_resamples": 100}}),
        layout=Layout(root / "sources", root / "MedHEB", root / "results"),
        datasets={"toy": dataset},
        tasks={"toy_i2i": task},
        models={MODEL: Model(id=MODEL, title="Toy model", canary=True, adapter={"name": "random"})},
        protocol=Protocol(
            name="corrected",
            title="Test",
            ties="expected",
            candidate_identity="content",
            text_cleaning=False,
            tie_tolerance=1e-6,
        ),
    )


def make_files(run: Run, count: int = 40) -> None:
    """Pictures, inventory, task and the status of the model; each picture finds the next one."""
    sides = random.Random(1)
    sizes = [(sides.randint(8, 40), sides.randint(8, 40)) for _ in range(count)]
    refs = write_pictures(run.layout.benchmark / FOLDER, sizes)
    files = tuple(
        BuiltFile(
            path=ref.path,
            bytes=(run.layout.benchmark / FOLDER / ref.path).stat().st_size,
            sha256=ref.sha256,
            content=f"pix1:{ref.sha256}",
            facts={"width": width, "height": height} if number % 2 else {},
        )
        for number, (ref, (width, height)) in enumerate(zip(refs, sizes, strict=True))
    )
    inventory = Inventory(
        dataset="toy", images=FOLDER, recipe="pictures", recipe_version=1, protocol=None, status=OK, files=files
    )
    write_inventory(run.layout.inventory(FOLDER, "toy"), inventory)
    names = [ref.path for ref in refs]
    records = [
        {
            "qry_inst": "Find the same:",
            "qry_text": "",
            "qry_img_path": name,
            "tgt_text": ["", ""],
            "tgt_img_path": [names[(number + 1) % count], names[(number + 2) % count]],
        }
        for number, name in enumerate(names)
    ]
    write_json(run.layout.task_index("2D_Task/toy/toy_i2i.json"), records)
    write_status(run.layout.task_status("2D_Task/toy/toy_i2i.json"), OK)
    write_status(run.layout.model_status(MODEL), OK)


def embed(run: Run, adapter: ToyAdapter, encoder: ToyEncoder, threads: int = 1) -> Status:
    """The embedding job with the toy model."""
    kept = job.load_adapter, job.load_encoder
    job.load_adapter, job.load_encoder = lambda *_: adapter, lambda *_: encoder
    try:
        return job.embed_inputs(run, MODEL, "toy", threads)
    finally:
        job.load_adapter, job.load_encoder = kept


def receipt(run: Run) -> Receipt:
    """What the job left behind."""
    return read_receipt(run.layout.embedded(MODEL, "toy"))


def store(run: Run) -> Store:
    """What was stored, whatever the receipt says."""
    return Store(next(folder for folder in run.layout.store(MODEL).iterdir() if folder.is_dir()))


def shards(run: Run) -> list[Path]:
    """Files of the store."""
    return sorted(run.layout.store(MODEL).glob("*/*.safetensors"))


if __name__ == "__main__":
    folder, options, preparing, encoding = sys.argv[1:]
    status = embed(
        toy_run(Path(folder), **json.loads(options)), ToyAdapter(float(preparing)), ToyEncoder(float(encoding))
    )
    sys.exit(0 if status.ok else status.reason)
