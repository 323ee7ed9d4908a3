"""Generated graded scores for the example run, around the published tables 5 and 6. Nothing of it is a result."""

from __future__ import annotations

import math
import zlib

import numpy as np

from medheb.core.digests import json_digest
from medheb.core.status import OK
from medheb.evaluate.graded_gains import relation_digest
from medheb.evaluate.graded_ranking import GRADED_METRICS
from medheb.evaluate.graded_score import GradedScore, write_graded
from medheb.evaluate.score import Metric
from medheb.manifest.load import Run
from medheb.report.published import Published

QUERIES = 300
CHANCE = {"ndcg@5": 0.42, "ndcg@10": 0.6, "hit@1": 0.12, "hit@5": 0.55}


def fill_graded(run: Run, published: Published) -> None:
    """Write a graded score of every model on every graded task."""
    for key, entry in run.graded_entries.items():
        if run.graded is None:
            continue
        table = "6" if entry.aspect == "cross-source" else "5"
        for model in run.models.values():
            own = np.random.default_rng([zlib.crc32(key.encode()), zlib.crc32(model.id.encode())])
            metrics: dict[str, Metric] = {}
            for name in GRADED_METRICS:
                said = published.value(table, model.id, name, entry.aspect) / 100
                middle = CHANCE[name] if model.canary or math.isnan(said) else said
                spread = 0.0 if model.adapter.name == "constant" else 0.03
                value = float(np.clip(middle + own.normal(0, spread), 0.01, 0.99))
                reach = 1.96 * math.sqrt(value * (1 - value) / QUERIES)
                metrics[name] = Metric(
                    value=value, low=max(0.0, value - reach), high=min(1.0, value + reach), worst=value,
                    chance=CHANCE[name],
                )  # fmt: skip
            score = GradedScore(
                model=model.id, key=key, aspect=entry.aspect, task=entry.task or key, status=OK,
                protocol=run.protocol.name, rule=relation_digest(run.graded.relations[entry.relation]),
                task_digest=json_digest(key), fingerprint=json_digest(model.id), queries=QUERIES, metrics=metrics,
            )  # fmt: skip
            write_graded(run.layout.graded(model.id, key), score)
