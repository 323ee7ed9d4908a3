"""A small finished run made by hand: four sources, four tasks, two canaries, with scores and receipts.

* ``alpha``: pictures and a text, with awkward names. May be shown.
* ``beta``: blocked.
* ``gamma``: restricted; nothing of it may be shown.
* ``delta``: shares the image folder of ``alpha``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from medheb.audit.compare import Comparison
from medheb.audit.provenance import write_provenance
from medheb.audit.roots import write_roots as roots_alone
from medheb.audit.schema import Roots
from medheb.audit.verdicts import Finding, Unit, Verification
from medheb.build.inventory import BuiltFile, Inventory, write_inventory
from medheb.build.settings import settings_in
from medheb.core.digests import content_digest, json_digest, merkle_root, sha256_bytes
from medheb.core.files import write_json
from medheb.core.layout import Layout
from medheb.core.status import OK, Status, write_status
from medheb.embed.inputs import distinct_inputs
from medheb.embed.receipt import Receipt, write_receipt
from medheb.embed.store import Store
from medheb.evaluate.score import METRICS, PER_QUERY_COLUMNS, Metric, Score, write_score
from medheb.index.records import as_json, read_records
from medheb.manifest.config import Config
from medheb.manifest.dataset import Dataset
from medheb.manifest.load import Run
from medheb.manifest.model import Model
from medheb.manifest.protocol import Protocol
from medheb.manifest.task import Task
from medheb.models.load import load_adapter

FOLDERS = {
    "alpha": "2D_Images/alpha",
    "beta": "2D_Images/beta",
    "gamma": "2D_Images/gamma",
    "delta": "2D_Images/alpha",
}
PICTURES = {
    "alpha": ("a.png", "b.png", "with blank.png", "new\nline.png", "größe/Ω.png"),
    "gamma": ("p10/p10000032_s50414267.png", "p10/p10000032_s53189527.png"),
    "delta": ("d1.png", "d2.png"),
}
SECRETS = ("p10000032", "s50414267", "s53189527", "pneumothorax of Mr Smith")
BLOCKED = Status(state="blocked", origin="fetch beta", reason="index: no network", remedy="Connect and run again")
FINGERPRINT = "f" * 64
A = "2D_Images/alpha/a.png"
B = "2D_Images/alpha/b.png"


def pixels(seed: int) -> np.ndarray[Any, Any]:
    """Noisy grey picture [24, 20]."""
    return np.random.default_rng(seed).integers(0, 255, (24, 20), dtype=np.uint8)


def encode(samples: np.ndarray[Any, Any], level: int = 6) -> bytes:
    """PNG bytes at one compression level."""
    stream = BytesIO()
    Image.fromarray(samples).save(stream, "PNG", compress_level=level)
    return stream.getvalue()


def dataset(name: str) -> Dataset:
    """Manifest of one source."""
    restricted = name == "gamma"
    return Dataset.model_validate(
        {
            "id": name,
            "title": f"Source {name}",
            "form": "2d",
            "modality": ["X-ray"],
            "access": "restricted" if restricted else "open",
            "licence": {"spdx": None, "url": "https://example.org/terms"},
            "redistribution": not restricted,
            "show_content": not restricted,
            "host": {"kind": "package", "name": name, "version": "1.0", "format": "wheel"},
            "files": [
                {"path": f"{name}.whl", "bytes": 9, "sha256": sha256_bytes(name.encode()), "digest_source": "made up"}
            ],
            "unpack": {"include": ["*"]},
            "recipe": {"name": "pictures", "version": 2},
            "images": FOLDERS[name],
            "links": ["https://example.org"],
            "citation": "Nobody",
        }
    )


def task(source: str) -> Task:
    """Image-image task of one source."""
    return Task.model_validate(
        {
            "task": f"{source}_i2i",
            "index": f"2D_Task/{source}/{source}_i2i.json",
            "form": "2d",
            "family": "image-image",
            "split": "id",
            "pool": "local",
            "sources": [source],
            "image_root": FOLDERS[source],
            "builder": "pairs",
            "qry_inst": "Find the same:",
            "qry_text": "",
        }
    )


class Bench:
    """The run and what a test does to it.

    Args:
        root: folder of the run.
        fresh: make all files; otherwise they are there already.
    """

    def __init__(self, root: Path, *, fresh: bool = True) -> None:
        self.layout = Layout(root / "sources", root / "MedHEB", root / "results")
        names = tuple(FOLDERS)
        canaries = {
            name: Model(id=name, title=name, canary=True, adapter={"name": name}) for name in ("random", "constant")
        }
        self.run = Run(
            config=Config(),
            layout=self.layout,
            datasets={name: dataset(name) for name in names},
            tasks={f"{name}_i2i": task(name) for name in names},
            models=canaries,
            protocol=Protocol(
                name="corrected",
                title="Test",
                ties="expected",
                candidate_identity="content",
                text_cleaning=False,
                tie_tolerance=1e-6,
            ),
        )
        for name in names if fresh else ():
            self.build(name)
            self.index(name)
            self.evaluate(name)

    def without_beta(self) -> Bench:
        """Select only what was built, so that an exit code speaks of the damage alone."""
        del self.run.datasets["beta"], self.run.tasks["beta_i2i"]
        return self

    def image(self, name: str, source: str = "alpha") -> Path:
        """A built file."""
        return self.layout.benchmark / FOLDERS[source] / name

    def build(self, source: str, level: int = 6) -> None:
        """Write the pictures of a source and its inventory."""
        if source == "beta":
            self.inventory(source, [], BLOCKED)
            return
        files: list[str] = []
        for number, name in enumerate(PICTURES[source]):
            path = self.image(name, source)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(encode(pixels(100 * ord(source[0]) + number), level))
            files.append(name)
        if source == "alpha":
            self.image("notes.json").write_text(json.dumps({"b": 1, "a": [1, 2]}))
            files.append("notes.json")
        self.inventory(source, files, OK)

    def inventory(self, source: str, files: Sequence[str], status: Status) -> None:
        """Write an inventory of files as they are now."""
        built: list[BuiltFile] = []
        for name in sorted(files):
            content = self.image(name, source).read_bytes()
            built.append(
                BuiltFile(
                    path=name,
                    bytes=len(content),
                    sha256=sha256_bytes(content),
                    content=content_digest(Path(name), content),
                )
            )
        write_inventory(
            self.layout.inventory(FOLDERS[source], source),
            Inventory(
                dataset=source,
                images=FOLDERS[source],
                recipe="pictures",
                recipe_version=self.run.datasets[source].recipe.version,
                settings=settings_in(self.run, source).named,
                status=status,
                files=tuple(built),
            ),
        )

    def index(self, source: str) -> None:
        """Write the task JSON of a source and its status."""
        one = self.run.tasks[f"{source}_i2i"]
        write_status(self.layout.task_status(one.index), BLOCKED if source == "beta" else OK)
        names = PICTURES.get(source, ())
        text = SECRETS[-1] if source == "gamma" else ""
        records = [
            {
                "qry_inst": one.qry_inst,
                "qry_text": text,
                "qry_img_path": name,
                "tgt_text": ["", ""],
                "tgt_img_path": [name, names[number - 1]],
            }
            for number, name in enumerate(names)
        ]
        write_json(self.layout.task_index(one.index), records)

    def evaluate(self, source: str) -> None:
        """Write receipts and scores of both canaries."""
        one = self.run.tasks[f"{source}_i2i"]
        for model in self.run.models:
            if source == "beta":
                write_receipt(self.layout.embedded(model, source), Receipt(model=model, group=source, status=BLOCKED))
                self.score(model, one, 0, BLOCKED)
                continue
            keys = tuple(distinct_inputs(self.run, load_adapter(self.run.models[model], self.layout), source).inputs)
            Store(self.layout.store(model) / FINGERPRINT).append(keys, np.ones((len(keys), 3), np.float32))
            write_receipt(
                self.layout.embedded(model, source),
                Receipt(model=model, group=source, status=OK, fingerprint=FINGERPRINT, inputs=len(keys)),
            )
            self.score(model, one, len(PICTURES[source]), OK)

    def score(
        self,
        model: str,
        one: Task,
        queries: int,
        status: Status,
        seconds: float = 1.0,
        cosine: float = 0.5,
        above: int = 0,
    ) -> None:
        """Write a score and its per-query parquet; ``above`` is that of the first query."""
        source = one.sources[0]
        metric = Metric(value=1 / 3, low=0.1, high=0.9, worst=0.0, chance=0.5)
        facts: dict[str, Any] = {}
        if status.ok:
            root = self.layout.benchmark / FOLDERS[source]
            facts = {
                "task_digest": json_digest(as_json(read_records(self.layout.task_index(one.index)))),
                "data_root": merkle_root(
                    {
                        f"{FOLDERS[source]}/{name}": content_digest(Path(name), (root / name).read_bytes())
                        for name in (*PICTURES[source], *(["notes.json"] if source == "alpha" else []))
                    }
                ),
                "fingerprint": FINGERPRINT,
                "metrics": dict.fromkeys(METRICS, metric),
            }
        write_score(
            self.layout.score(model, one.task),
            Score(
                model=model,
                task=one.task,
                family=one.family,
                form=one.form,
                split=one.split,
                pool=one.pool,
                status=status,
                protocol="corrected",
                queries=queries,
                seconds=seconds,
                **facts,
            ),
        )
        columns: dict[str, Any] = {}
        for column in PER_QUERY_COLUMNS:
            if column in {"row", "pool", "above", "tied", "positives"}:
                values = {"row": range(queries), "above": [above, *[0] * queries][:queries]}.get(column, [1] * queries)
                columns[column] = pa.array(list(values), pa.int32())
            elif column.startswith("top_"):
                columns[column] = pa.array([[0, 1]] * queries, pa.list_(pa.int32()))
            else:
                columns[column] = pa.array([cosine] * queries, pa.float64())
        pq.write_table(pa.table(columns), self.layout.per_query(model, one.task))


class Told:
    """What the workflow would say."""

    def __getattr__(self, name: str) -> object:
        return lambda *names: "-".join((name, *names))


class Digested(Told):
    """The same as digests, which is what the workflow really says."""

    def __getattr__(self, name: str) -> object:
        return lambda *names: sha256_bytes("-".join((name, *names)).encode())[:16]


def write_roots(run: Run) -> Roots:
    """Write the roots of a run, and how everything was made, as ``medheb audit roots`` does."""
    roots = roots_alone(run)
    write_provenance(run, roots, Digested())
    return roots


def unit(verification: Verification | Comparison, name: str) -> Unit:
    """One unit of a verification by its name."""
    return next(unit for unit in verification.units if unit.name == name)


def findings(verification: Verification | Comparison, name: str = "alpha") -> dict[str, Finding]:
    """Findings of one unit by name."""
    return {finding.name: finding for finding in unit(verification, name).findings}


def only(verification: Verification, name: str = "alpha") -> Finding:
    """The single finding of one unit."""
    found = findings(verification, name)
    assert len(found) == 1, found
    return next(iter(found.values()))


def edit(path: Path, old: str, new: str) -> None:
    """Edit a file by hand."""
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def folder_for_file(path: Path) -> None:
    """Put a folder where a file was."""
    path.unlink()
    path.mkdir()
