"""Results in the JSON form of the MTEB results repository: one file a task, one folder a model.

The form is that of ``mteb.TaskResult`` (mteb 2): ``task_name``, ``dataset_revision``, ``mteb_version`` null because
another program made the numbers, and ``scores`` by split with ``main_score`` as a share from 0 to 1. Our own
facts that have no place there stand beside under ``medheb``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from medheb import __version__
from medheb.core.files import write_json
from medheb.evaluate.score import Score
from medheb.report.collect import Results

MAIN = "hit@1"
NAMES = {
    "hit@1": "hit_rate_at_1",
    "hit@5": "hit_rate_at_5",
    "mrr@5": "mrr_at_5",
    "ndcg@5": "ndcg_at_5",
    "ndcg@10": "ndcg_at_10",
}
NAMES |= {"ndcg@5": "ndcg_at_5", "ndcg@10": "ndcg_at_10"}


def write_mteb(results: Results, folder: Path) -> None:
    """Write ``<model>/<revision>/<task>.json`` and ``model_meta.json`` for every model that has a score."""
    for model in results.run.models.values():
        scores = results.scores(model.id)
        if not scores:
            continue
        own = folder / model.id / (scores[0].fingerprint[:12] or "unknown")
        for score in scores:
            write_json(own / f"{score.task}.json", task_result(score))
        meta = {"name": model.id, "title": model.title, "revision": scores[0].fingerprint or None}
        write_json(own / "model_meta.json", meta | {"canary": model.canary, "medheb_version": __version__})


def task_result(score: Score) -> dict[str, Any]:
    """One score in the form of an MTEB task result."""
    values = {NAMES[name]: metric.value for name, metric in score.metrics.items() if name in NAMES}
    return {
        "dataset_revision": score.task_digest,
        "task_name": score.task,
        "mteb_version": None,
        "evaluation_time": score.seconds,
        "kg_co2_emissions": None,
        "scores": {
            "test": [
                {
                    **values,
                    "main_score": score.metrics[MAIN].value,
                    "hf_subset": "default",
                    "languages": ["eng-Latn"],
                    "num_samples": score.queries,
                }
            ]
        },
        "medheb": {
            "version": __version__,
            "protocol": score.protocol,
            "family": score.family,
            "form": score.form,
            "split": score.split,
            "pool": score.pool,
            "candidates": score.candidates,
            "data_root": score.data_root,
            "fingerprint": score.fingerprint,
            "tied_fraction": score.tied_fraction,
            "metrics": {name: metric.model_dump() for name, metric in score.metrics.items()},
        },
    }
