"""Makes a finished run out of nothing: manifests, pictures, task JSONs, scores and per-query results.

Numbers are drawn from a seed; they look like a benchmark's, and belong to no model.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image

from medheb.build.inventory import BuiltFile, Inventory, write_inventory
from medheb.core.digests import json_digest, sha256_file
from medheb.core.files import write_json
from medheb.core.layout import Layout
from medheb.core.status import OK, Status, write_status
from medheb.evaluate.graded_gains import relation_digest
from medheb.evaluate.graded_ranking import GRADED_METRICS
from medheb.evaluate.graded_score import GradedScore, write_graded
from medheb.evaluate.score import METRICS, PER_QUERY_COLUMNS, TOP, Metric, Score, write_score
from medheb.index.records import as_json, read_records
from medheb.manifest.config import Config
from medheb.manifest.dataset import Dataset
from medheb.manifest.graded import Graded
from medheb.manifest.load import Run
from medheb.manifest.model import Model
from medheb.manifest.protocol import Protocol
from medheb.manifest.task import FAMILIES, Task

CANDIDATES = 12
WEIGHTS = {
    "host": {"kind": "package", "name": "some-weights", "version": "1.0", "format": "wheel"},
    "file": {"path": "w.whl", "bytes": 10, "sha256": "0" * 64, "digest_source": "made up"},
    "unpack": {"include": ["*"]},
    "licence": {"spdx": "Apache-2.0", "url": "https://example.org/weights-licence", "note": ""},
}
ORGANS = ("liver", "spleen", "left kidney", "right kidney", "aorta", "stomach", "heart", "lung", "femur", "sacrum")


def protocol(name: str = "corrected") -> Protocol:
    ties = "expected" if name == "corrected" else "positive_first"
    return Protocol.model_validate(
        {"name": name, "title": "Made for a test", "ties": ties, "candidate_identity": "content"}
        | {"text_cleaning": False, "tie_tolerance": 1e-6}
    )


def dataset(key: str, title: str = "", **changes: Any) -> Dataset:
    fields: dict[str, Any] = {
        "id": key,
        "title": title or f"Source {key}",
        "form": "2d",
        "modality": ["CT"],
        "access": "open",
        "licence": {"spdx": "CC-BY-4.0", "url": f"https://example.org/{key}/licence", "note": ""},
        "redistribution": True,
        "show_content": True,
        "host": {"kind": "package", "name": key, "version": "1.0", "format": "sdist"},
        "files": [{"path": f"{key}.tar.gz", "bytes": 1, "sha256": "0" * 64, "digest_source": "made up"}],
        "unpack": {"include": ["*"]},
        "recipe": {"name": "pictures", "version": 1},
        "images": f"2D_Images/{key}",
        "links": [f"https://example.org/{key}"],
        "citation": f"The makers of {key}. A made-up source. 2026.",
        "note": f"Pictures of {key} are drawn, not measured.",
    }
    return Dataset.model_validate(fields | changes)


def model(key: str, title: str, adapter: str = "dual_encoder", **changes: Any) -> Model:
    adapters: dict[str, dict[str, Any]] = {
        "random": {"name": "random"},
        "constant": {"name": "constant"},
        "dual_encoder": {
            "name": "dual_encoder",
            "image": {
                "architecture": "efficientnet_lite0",
                "weights": WEIGHTS,
                "path": "a.pth",
                "size": 224,
                "mean": [0.5, 0.5, 0.5],
                "std": [0.5, 0.5, 0.5],
            },
            "text": {
                "architecture": "mean_pooled_transformer",
                "weights": WEIGHTS,
                "path": "t",
                "max_tokens": 128,
            },
            "bridge": {"train_sources": ["alpha"], "ridge": 0.1},
        },
    }
    fields = {"id": key, "title": title, "canary": adapter != "dual_encoder", "adapter": adapters[adapter]}
    return Model.model_validate(fields | changes)


def task(key: str, family: str, sources: Sequence[str], **changes: Any) -> Task:
    fields: dict[str, Any] = {
        "task": key,
        "index": f"2D_Task/{key}.json",
        "form": "2d",
        "family": family,
        "split": "id",
        "pool": "local",
        "sources": tuple(sources),
        "image_root": f"2D_Images/{sources[0]}",
        "builder": "made_up",
        "qry_inst": "Find the picture that shows the same organ.",
        "qry_text": "",
    }
    return Task.model_validate(fields | changes)


RELATIONS = {
    "sides": {
        "kind": "groups",
        "note": "made up",
        "classes": ["left kidney", "right kidney", "liver"],
        "groups": [{"gain": 0.5, "classes": ["left kidney", "right kidney"]}],
    },
    "findings": {"kind": "overlap", "fact": "findings", "hit": "any", "note": "made up", "classes": ["one", "other"]},
}
MODELS = (
    model("efficient", "EfficientNet-Lite0 + MiniLM", note="Its picture half has seen no medical picture."),
    model("dino", "DINOv2-small + MiniLM"),
    model("random", "Random vectors", "random"),
    model("constant", "Constant vector", "constant"),
)
SKILLS = {"efficient": 0.75, "dino": 0.55, "random": 0.0, "constant": 0.0}


def small_run(folder: Path, per_family: int = 1, **config: Any) -> Run:
    """A run over all eight families, two sources, two real models and two canaries; nothing on disk yet."""
    datasets = {key: dataset(key) for key in ("alpha", "beta")}
    tasks = [
        task(f"{family.replace('-', '_')}_{number}", family, ["alpha", "beta"] if number % 2 else ["beta"])
        for family in FAMILIES
        for number in range(1, per_family + 1)
    ]
    entries = [
        {"key": f"graded_{item.task}", "aspect": aspect, "task": item.task, "relation": "sides"}
        for item, aspect in zip(tasks, ("severity", "laterality", "severity", "cell-tissue"), strict=False)
    ]
    shared = task("graded_across", "image-image", ["alpha", "beta"], split="heldout")
    entries.append({"key": "graded_across", "aspect": "cross-source", "relation": "findings", "row": shared})
    graded = {"note": "Gains of a made-up rule.", "relations": RELATIONS, "entries": entries}
    run = run_of(folder, datasets.values(), tasks, MODELS, **config)
    return dataclasses.replace(run, graded=Graded.model_validate(graded))


def run_of(folder: Path, datasets: Any, tasks: Any, models: Any, **config: Any) -> Run:
    settings = Config.model_validate({"evaluate": {"bootstrap_resamples": 100}} | config)
    return Run(
        config=settings,
        layout=Layout(folder / "sources", folder / "MedHEB", folder / "results"),
        datasets={item.id: item for item in datasets},
        tasks={item.task: item for item in tasks},
        models={item.id: item for item in models},
        protocol=protocol(settings.protocol),
    )


def fill(run: Run, queries: int = 24, side: int = 48, skills: Mapping[str, float] = SKILLS) -> None:
    """Write all that a finished run holds: statuses, pictures, inventories, task JSONs, scores, per-query results."""
    for source in run.datasets.values():
        write_status(run.layout.source_status(source.id), OK)
        pictures(run, source, side)
    for item in run.tasks.values():
        records = task_json(run, item, queries)
        for key in run.models:
            score_cell(run, key, item, records, skills.get(key, 0.4))
    for key in run.graded_entries:
        for name in run.models:
            graded_cell(run, name, key, 0.3 + 0.6 * skills.get(name, 0.4))


def graded_cell(run: Run, name: str, key: str, value: float, **changes: Any) -> None:
    """A graded score of a made-up model, ``value`` for every metric."""
    entry = run.graded_entries[key]
    assert run.graded is not None
    metric = Metric(value=value, low=max(0.0, value - 0.05), high=min(1.0, value + 0.05), worst=value, chance=0.3)
    fields: dict[str, Any] = {
        "model": name,
        "key": key,
        "aspect": entry.aspect,
        "task": entry.task or key,
        "status": OK,
        "protocol": run.protocol.name,
        "rule": relation_digest(run.graded.relations[entry.relation]),
        "task_digest": json_digest(key),
        "queries": 24,
        "metrics": dict.fromkeys(GRADED_METRICS, metric),
    }
    write_graded(run.layout.graded(name, key), GradedScore.model_validate(fields | changes))


def pictures(run: Run, source: Dataset, side: int = 48) -> None:
    folder = run.layout.benchmark / source.images
    folder.mkdir(parents=True, exist_ok=True)
    built: list[BuiltFile] = []
    y, x = np.mgrid[-1 : 1 : side * 1j, -1 : 1 : side * 1j]
    for number in range(CANDIDATES):
        a, b = 0.5 + 0.04 * (number % 5), 0.45 + 0.05 * (number % 4)
        body = ((x / 0.95) ** 2 + (y / 0.75) ** 2 < 1) * 70.0
        organ = (((x - 0.1 * math.cos(number)) / a) ** 2 + ((y - 0.3 * math.sin(number)) / b) ** 2 < 0.4) * 90.0
        noise = np.random.default_rng(number).normal(0, 9, (side, side))
        path = folder / f"{source.id}_{number:02d}.png"
        Image.fromarray(np.clip(body + organ + noise, 0, 255).astype(np.uint8)).save(path)
        built.append(
            BuiltFile(path=path.name, bytes=path.stat().st_size, sha256=sha256_file(path), content=f"made:{number}")
        )
    write_inventory(
        run.layout.inventory(source.images, source.id),
        Inventory(
            dataset=source.id,
            images=source.images,
            recipe="pictures",
            recipe_version=1,
            status=OK,
            files=tuple(built),
            notes=(f"{source.title}: 2 of 14 pictures were skipped as empty.",),
        ),
    )


def task_json(run: Run, item: Task, queries: int) -> list[dict[str, Any]]:
    """A task JSON with a positive first and CANDIDATES candidates; pictures, volumes and texts by family."""
    source = (item.image_root or item.sources[0]).rsplit("/", 1)[-1]
    names = [f"{source}_{number:02d}.png" for number in range(CANDIDATES)]
    records: list[dict[str, Any]] = []
    for row in range(queries):
        order = [(row + step) % CANDIDATES for step in range(CANDIDATES)]
        picture = names[(row + 5) % CANDIDATES]
        texts = [f"Row {row}: the {ORGANS[place % len(ORGANS)]}, seen in slice {place}." for place in order]
        record: dict[str, Any] = {"qry_inst": item.qry_inst, "qry_text": "", "tgt_text": [""] * CANDIDATES}
        if item.family in {"text-image", "text-text"}:
            record["qry_text"] = f"Row {row}: which organ lies beside the {ORGANS[row % len(ORGANS)]}?"
        else:
            record |= {"qry_img_path": picture, "qry_modality": "image"}
        if item.family in {"image-label", "image-report", "vqa", "text-text"}:
            record["tgt_text"] = texts
        elif item.family == "modality-bridging":
            record["tgt_img_path"] = [[names[(place + step) % CANDIDATES] for step in range(5)] for place in order]
            record["tgt_modality"] = "video"
        else:
            record |= {"tgt_img_path": [names[place] for place in order], "tgt_modality": "image"}
        records.append(record)
    write_json(run.layout.task_index(item.index), records)
    return records


def score_cell(
    run: Run, key: str, item: Task, records: Sequence[Mapping[str, Any]], skill: float, **changes: Any
) -> None:
    """Scores of a made-up model: ``skill`` 0 scores chance on average, 1 is always right; 'constant' ties all."""
    rng = np.random.default_rng([len(key), *key.encode(), *item.task.encode()])
    count, pool = len(records), len(records[0]["tgt_text"])
    if key == "constant":
        above, tied = np.zeros(count, int), np.full(count, pool)
    else:
        lucky = rng.random(count) < skill * (0.6 + 0.5 * rng.random())
        above, tied = np.where(lucky, 0, rng.integers(0, pool, count)), np.ones(count, int)
    table = per_query(above, tied, pool, rng)
    metrics = {name: _metric(table, name, rng) for name in METRICS}
    fields: dict[str, Any] = {
        "model": key,
        "task": item.task,
        "family": item.family,
        "form": item.form,
        "split": item.split,
        "pool": item.pool,
        "status": OK,
        "protocol": run.protocol.name,
        "task_digest": index_digest(run, item),
        "data_root": json_digest(list(item.sources)),
        "fingerprint": json_digest(key),
        "queries": count,
        "candidates": pool,
        "metrics": metrics,
        "tied_fraction": float((tied > 1).mean()),
        "seconds": 0.25,
    }
    write_score(run.layout.score(key, item.task), Score.model_validate(fields | changes))
    table.to_parquet(run.layout.per_query(key, item.task), index=False)


def per_query(above: np.ndarray, tied: np.ndarray, pool: int, rng: np.random.Generator) -> pd.DataFrame:
    """The parquet's table for one positive a query; expected values over ties."""
    gain = {
        "hit@1": [1.0] + [0.0] * (pool - 1),
        "hit@5": [1.0] * min(5, pool) + [0.0] * (pool - min(5, pool)),
        "mrr@5": [1 / (place + 1) if place < 5 else 0.0 for place in range(pool)],
        "ndcg@5": [1 / math.log2(place + 2) if place < 5 else 0.0 for place in range(pool)],
        "ndcg@10": [1 / math.log2(place + 2) if place < 10 else 0.0 for place in range(pool)],
    }
    rows: list[dict[str, Any]] = []
    for row, (better, equal) in enumerate(zip(above.tolist(), tied.tolist(), strict=True)):
        fields: dict[str, Any] = {
            "row": row,
            "pool": pool,
            "above": better,
            "tied": equal,
            "positives": 1,
            "score": 0.5,
        }
        for name in METRICS:
            places = gain[name][better : better + equal]
            fields |= {name: sum(places) / equal, f"{name}_worst": places[-1], f"{name}_chance": sum(gain[name]) / pool}
        place = better + int(rng.integers(0, equal))
        others = list(rng.permutation(np.arange(1, pool)))
        order = [*others[:place], 0, *others[place:]][:TOP]
        fields["top_row"] = [row] * len(order)
        fields["top_position"] = [int(position) for position in order]
        fields["top_score"] = [0.9 - 0.03 * step if equal == 1 else 0.5 for step in range(len(order))]
        fields["top_positive"] = [position == 0 for position in order]
        rows.append(fields)
    return pd.DataFrame(rows, columns=list(PER_QUERY_COLUMNS))


def _metric(table: pd.DataFrame, name: str, rng: np.random.Generator) -> Metric:
    values = table[name].to_numpy()
    means = np.sort(values[rng.integers(0, len(values), (200, len(values)))].mean(axis=1))
    return Metric(
        value=float(values.mean()),
        low=float(means[5]),
        high=float(means[-6]),
        worst=float(table[f"{name}_worst"].mean()),
        chance=float(table[f"{name}_chance"].mean()),
    )


def index_digest(run: Run, item: Task) -> str:
    return json_digest(as_json(read_records(run.layout.task_index(item.index))))


def change_index(run: Run, key: str, old: str, new: str) -> None:
    """Replace text in a task JSON and let all scores refer to the new one."""
    path = run.layout.task_index(run.tasks[key].index)
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, json.dumps(new)[1:-1]), encoding="utf-8")
    for model_id in run.models:
        change_score(run, model_id, key, task_digest=index_digest(run, run.tasks[key]))


def block(run: Run, source: str, reason: str = "the terms are not accepted", remedy: str = "Accept them") -> Status:
    """Make a source blocked: its status, and the scores of all its tasks pass it on."""
    status = Status(state="blocked", origin=f"fetch {source}", reason=reason, remedy=remedy)
    write_status(run.layout.source_status(source), status)
    for item in run.tasks.values():
        if source in item.sources:
            for key in run.models:
                change_score(run, key, item.task, status=status.model_dump(), metrics={}, queries=0)
    return status


def change_score(run: Run, key: str, item: str, **changes: Any) -> None:
    """Overwrite fields of a score file, NaN included."""
    path = run.layout.score(key, item)
    path.write_text(json.dumps(json.loads(path.read_bytes()) | changes), encoding="utf-8")
