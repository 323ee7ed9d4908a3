"""``summary.json``: the whole report as data. Only the key ``timing`` may differ between equal runs."""

from __future__ import annotations

import math
import platform
from dataclasses import asdict
from importlib import metadata
from typing import Any

from medheb.evaluate.score import METRICS
from medheb.report.collect import Results
from medheb.report.graded import Graded, graded_summary
from medheb.report.sections import costs
from medheb.report.tables import AVERAGES, families_in_order, mean_of

SCHEMA_VERSION = 1
PACKAGES = (
    "medheb",
    "numpy",
    "scipy",
    "pandas",
    "pyarrow",
    "torch",
    "transformers",
    "safetensors",
    "nibabel",
    "pydicom",
    "pillow",
    "matplotlib",
    "pydantic",
    "snakemake",
)


def versions() -> dict[str, str | None]:
    """Versions of Python and of the packages that results may depend on; None where one is not installed."""
    found: dict[str, str | None] = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = None
    return found


def summary(results: Results, graded: Graded) -> dict[str, Any]:
    """All numbers of the report: per model, per family and per task, with what is missing and where it came from."""
    run = results.run
    return {
        "schema_version": SCHEMA_VERSION,
        "protocol": run.protocol.model_dump(),
        "seed": run.config.seed,
        "confidence": run.config.evaluate.confidence,
        "bootstrap_resamples": run.config.evaluate.bootstrap_resamples,
        "versions": versions(),
        "counts": {
            "models": len(run.models),
            "tasks": len(run.tasks),
            "families": len(families_in_order(results)),
            "cells": len(results.cells),
            "missing": len(results.missing),
        },
        "terms": {key: facts.accepted for key, facts in results.sources.items()},
        "tasks": {key: _task(results, key) for key in run.tasks},
        "models": {key: _model(results, key) for key in run.models},
        "missing": [asdict(cell) for cell in results.missing],
        "graded": graded_summary(graded),
        "timing": {
            "evaluate_seconds": {model: {s.task: s.seconds for s in results.scores(model)} for model in run.models},
            "costs": [
                {key: None if isinstance(value, float) and math.isnan(value) else value for key, value in row.items()}
                for row in costs(results)
            ],
        },
    }


def _task(results: Results, key: str) -> dict[str, Any]:
    task = results.run.tasks[key]
    score = next((score for model in results.run.models if (score := results.score(model, key))), None)
    return {
        "family": task.family,
        "form": task.form,
        "split": task.split,
        "pool": task.pool,
        "sources": list(task.sources),
        "task_digest": score.task_digest if score else None,
        "data_root": score.data_root if score else None,
    }


def _model(results: Results, key: str) -> dict[str, Any]:
    model = results.run.models[key]
    scores = results.scores(key)
    families = {family: [score for score in scores if score.family == family] for family in families_in_order(results)}
    return {
        "title": model.title,
        "canary": model.canary,
        "fingerprint": scores[0].fingerprint if scores else None,
        "tasks_present": len(scores),
        "tasks_expected": len(results.run.tasks),
        "mean": {
            f"over_{by}": {metric: _numbers(asdict(mean_of(scores, metric, by))) for metric in METRICS}
            for by in AVERAGES
        },
        "families": {
            family: {
                "tasks_present": len(held),
                "metrics": {metric: _numbers(asdict(mean_of(held, metric, "tasks"))) for metric in METRICS},
            }
            for family, held in families.items()
        },
        "tasks": {
            score.task: {
                "queries": score.queries,
                "candidates": score.candidates,
                "tied_fraction": score.tied_fraction,
                "mean_cosine": score.mean_cosine,
                "effective_rank": score.effective_rank,
                "metrics": {metric: score.metrics[metric].model_dump() for metric in METRICS},
                "warnings": list(score.warnings),
            }
            for score in scores
        },
    }


def _numbers(fields: dict[str, float]) -> dict[str, float | None]:
    return {key: None if math.isnan(number) else number for key, number in fields.items()}
