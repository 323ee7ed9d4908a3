"""A made-up run of the full benchmark, to see and to measure the report without a GPU: ten models, 107 tasks.

The scores are drawn around the published family means of the models they are named after; pictures and texts are
made up. Nothing of it is a result.
"""

from __future__ import annotations

import json
import math
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from PIL import Image
from scipy.stats import norm

from medheb.build.inventory import Inventory, write_inventory
from medheb.core.digests import json_digest
from medheb.core.errors import MedhebError
from medheb.core.files import atomic_open, write_text
from medheb.core.status import OK, write_status
from medheb.evaluate.score import METRICS, TOP, Metric, Score, write_score
from medheb.index.records import as_json, read_records
from medheb.manifest.config import Config
from medheb.manifest.load import Run, load_run
from medheb.manifest.model import Model, RandomAdapter
from medheb.manifest.task import Task
from medheb.report.published import Published, published_of

POOL = 12
SIDE = 160
QUERIES = 75_233
SHARED = 0.5  # how much of a query's difficulty all models share
NOTE = "Made up: drawn around the published means of the model it is named after. Not a result."
FINDINGS = ("opacity", "nodule", "effusion", "fracture", "cyst", "polyp", "edema", "mass", "calcification", "stenosis")
PLACES = ("left lung", "right lung", "liver", "left kidney", "spleen", "retina", "colon", "brain stem", "knee")


def example_run(folder: Path) -> Run:
    """The full benchmark with a stand-in for every model of the paper, in folders below ``folder``.

    Raises:
        MedhebError: started where the benchmark's manifests are not.
    """
    paths = {"sources": str(folder / "sources"), "benchmark": str(folder / "MedHEB"), "results": str(folder)}
    run = load_run(Config.model_validate({"manifests": "manifests", "paths": paths}))
    titles = published_of(run).titles
    if not titles:
        raise MedhebError("manifests/published", "does not exist", "Start this from the folder of the repository")
    models = {
        key: Model(id=key, title=title, note=NOTE, adapter=RandomAdapter(name="random"))
        for key, title in titles.items()
    }
    return replace(run, models={**models, **{key: model for key, model in run.models.items() if model.canary}})


def fill_example(run: Run, queries: int = QUERIES) -> None:
    """Write statuses, pictures, task files, scores and per-query results; ``queries`` in all, spread over the tasks."""
    for dataset in run.datasets.values():
        write_status(run.layout.source_status(dataset.id), OK)
        inventory = Inventory(
            dataset=dataset.id, images=dataset.images, recipe=dataset.recipe.name,
            recipe_version=dataset.recipe.version, status=OK, files=(), notes=("An example without real pictures.",),
        )  # fmt: skip
        write_inventory(run.layout.inventory(dataset.images, dataset.id), inventory)
    for root in sorted({task.image_root for task in run.tasks.values() if task.image_root}):
        _pictures(run.layout.benchmark / root)
    published = published_of(run)
    share, rest = divmod(queries, len(run.tasks))
    for number, task in enumerate(run.tasks.values()):
        count = max(1, share + (number < rest))
        digest = _task_json(run, task, count)
        _scores(run, task, count, digest, published)


def _pictures(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(zlib.crc32(folder.name.encode()))
    y, x = np.mgrid[-1 : 1 : SIDE * 1j, -1 : 1 : SIDE * 1j]
    for number in range(POOL):
        turn = 2 * math.pi * number / POOL
        body = ((x / 0.9) ** 2 + (y / 0.75) ** 2 < 1) * 80.0
        spot = ((x - 0.4 * math.cos(turn)) ** 2 + (y - 0.35 * math.sin(turn)) ** 2 < 0.06) * 110.0
        picture = np.clip(body + spot + rng.normal(8, 7, (SIDE, SIDE)), 0, 255).astype(np.uint8)
        Image.fromarray(picture).save(folder / f"made_up_{number:02d}.png")


def _task_json(run: Run, task: Task, count: int) -> str:
    """Write a task file of ``count`` rows and return its digest."""
    names = [f"made_up_{number:02d}.png" for number in range(POOL)]
    long = task.family in {"image-report", "text-text"}
    rows: list[dict[str, Any]] = []
    for row in range(count):
        order = [(row + step) % POOL for step in range(POOL)]
        words = [f"{FINDINGS[(place + row) % len(FINDINGS)]} of the {PLACES[place % len(PLACES)]}" for place in order]
        texts = [
            " and ".join([word, *words[place + 1 : place + 8]]) if long else word for place, word in enumerate(words)
        ]
        record: dict[str, Any] = {"qry_inst": task.qry_inst, "qry_text": "", "tgt_text": [""] * POOL}
        if task.family in {"text-image", "text-text", "region"}:
            record["qry_text"] = f"{words[0]}, query {row}"
        else:
            record |= {"qry_img_path": names[(row + 5) % POOL], "qry_modality": "image"}
        if task.family in {"image-label", "image-report", "vqa", "text-text"}:
            record["tgt_text"] = texts
        elif task.form == "3d":
            volumes = [[names[(place + step) % POOL] for step in range(9)] for place in order]
            record |= {"tgt_img_path": volumes, "tgt_modality": "video"}
        else:
            record |= {"tgt_img_path": [names[place] for place in order], "tgt_modality": "image"}
        rows.append(record)
    path = run.layout.task_index(task.index)
    write_text(path, "[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")
    return json_digest(as_json(read_records(path)))


def _scores(run: Run, task: Task, count: int, digest: str, published: Published) -> None:
    rng = np.random.default_rng(zlib.crc32(task.task.encode()))
    shared, twist = rng.normal(size=count), float(rng.normal(0, 0.45))
    for model in run.models.values():
        own = np.random.default_rng([zlib.crc32(task.task.encode()), zlib.crc32(model.id.encode())])
        if model.adapter.name == "constant":
            above, tied = np.zeros(count, np.int32), np.full(count, POOL, np.int32)
        else:
            mean = published.value("4", model.id, "hit@1", task.family) / 100 if not model.canary else 1 / POOL
            limit = norm.ppf(np.clip(mean, 0.01, 0.99)) + (0 if model.canary else twist + own.normal(0, 0.15))
            draw = math.sqrt(SHARED) * shared + math.sqrt(1 - SHARED) * own.normal(size=count)
            above = np.where(draw < limit, 0, own.integers(1, POOL, count)).astype(np.int32)
            tied = np.ones(count, np.int32)
        table = _per_query(above, tied)
        path = run.layout.per_query(model.id, task.task)
        with atomic_open(path) as stream:
            pq.write_table(table, stream)
        score = Score(
            model=model.id, task=task.task, family=task.family, form=task.form, split=task.split, pool=task.pool,
            status=OK, protocol=run.protocol.name, task_digest=digest, data_root=json_digest(list(task.sources)),
            fingerprint=json_digest(model.id), queries=count, candidates=POOL,
            metrics={name: _metric(table, name) for name in METRICS},
            tied_fraction=float((tied > 1).mean()), seconds=0.5,
        )  # fmt: skip
        write_score(run.layout.score(model.id, task.task), score)


def _per_query(above: NDArray[np.int32], tied: NDArray[np.int32]) -> pa.Table:
    """The columns of the per-query file for one right candidate a query, the first of its pool."""
    count = len(above)
    columns: dict[str, Any] = {
        "row": np.arange(count, dtype=np.int32), "pool": np.full(count, POOL, np.int32), "above": above, "tied": tied,
        "positives": np.ones(count, np.int32), "score": np.full(count, 0.5, np.float32),
    }  # fmt: skip
    ranks = np.arange(1, POOL + 1)
    for name in METRICS:
        cut = int(name.split("@")[1])
        gain = {"hit": np.ones(POOL), "mrr": 1 / ranks, "ndcg": 1 / np.log2(ranks + 1)}[name.split("@")[0]] * (
            ranks <= cut
        )
        summed = np.concatenate([[0.0], np.cumsum(gain)])
        columns[name] = (summed[above + tied] - summed[above]) / tied
        columns[f"{name}_worst"] = gain[above + tied - 1]
        columns[f"{name}_chance"] = np.full(count, gain.mean())
    places = np.arange(TOP)[None, :]
    position = np.where(places < above[:, None], places + 1, np.where(places == above[:, None], 0, places)).astype(
        np.int32
    )
    offsets = pa.array(np.arange(0, TOP * count + 1, TOP, dtype=np.int32))
    lists = {
        "top_row": np.repeat(columns["row"], TOP),
        "top_position": position.ravel(),
        "top_score": np.tile(np.linspace(0.9, 0.6, TOP, dtype=np.float32), count),
        "top_positive": position.ravel() == 0,
    }
    arrays = {name: pa.array(values) for name, values in columns.items()}
    arrays |= {name: pa.ListArray.from_arrays(offsets, pa.array(values)) for name, values in lists.items()}
    return pa.table(arrays)


def _metric(table: pa.Table, name: str) -> Metric:
    values = table.column(name).to_numpy()
    mean = float(values.mean())
    reach = 1.96 * float(values.std()) / math.sqrt(len(values))
    return Metric(
        value=mean, low=max(0.0, mean - reach), high=min(1.0, mean + reach),
        worst=float(table.column(f"{name}_worst").to_numpy().mean()),
        chance=float(table.column(f"{name}_chance").to_numpy().mean()),
    )  # fmt: skip
