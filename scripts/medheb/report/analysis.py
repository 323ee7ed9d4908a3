"""The paper's analyses as tables: difficulty, transfer between relations, balance, anatomy and form, target length."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pandas as pd

from medheb.core.errors import MedhebError
from medheb.evaluate.score import Score
from medheb.index.records import stream_records
from medheb.manifest.dataset import Dataset
from medheb.manifest.model import Model
from medheb.manifest.task import FAMILIES, Family, Task
from medheb.report.collect import Results
from medheb.report.paper import balance
from medheb.report.published import Published
from medheb.report.tables import families_in_order, mean_of, models_in_order, tasks_in_order

HIT = "hit@1"
# Paper section 5.3: bounds in per cent of the baselines' mean Hit@1.
BUCKETS = (("Collapse", 0.0, 3.0), ("Weak", 3.0, 10.0), ("Medium", 10.0, 30.0), ("Tractable", 30.0, 100.0))
ESTABLISHED: tuple[Family, ...] = ("image-image", "image-label", "image-report", "text-image", "text-text")
UNDEREXPLORED: tuple[Family, ...] = ("modality-bridging", "region")
FORM_TITLES = {"2d": "2D images", "3d": "3D volumes", "text": "Text only"}
# Our assignment of the manifests' words to the paper's eight domains (figure 5); the paper does not list its own.
DOMAINS = {
    "Ophthalmology": {"retina"},
    "Dermatology": {"skin"},
    "Abdomen": {"abdomen", "upper abdomen", "liver", "kidney", "colon", "gastrointestinal tract"},
    "Thorax": {"chest", "thorax", "lung", "heart", "breast"},
    "Musculoskeletal": {"knee"},
    "Head and neck": {"brain", "head", "neck", "teeth", "jaws", "brachial plexus"},
}
TISSUE, SEVERAL, NONE = "Tissue microscopy", "Multi-organ", "No image"
MICROSCOPY = ("microscopy", "histopathology")
TARGET_GROUPS: dict[str, str] = {
    "image-label": "Short labels",
    "vqa": "Answers",
    "image-report": "Long texts",
    "text-text": "Long texts",
}
SAMPLED_ROWS = 200  # the mean length of a positive needs no more


def baselines(results: Results, published: Published) -> list[Model]:
    """The paper's public baselines among the run's models; all real models where there is none of them."""
    real = [model for model in models_in_order(results) if not model.canary]
    known = [model for model in real if published.model_of(model) in published.baselines]
    return known or real


def difficulty(results: Results, published: Published) -> pd.DataFrame:
    """One row a task with a score: mean and spread (population) of the baselines' Hit@1 in %, bucket, n of models."""
    models = baselines(results, published)
    rows = []
    for task in tasks_in_order(results):
        scores = [score for model in models if (score := results.score(model.id, task))]
        if not scores:
            continue
        values = 100 * np.array([score.metrics[HIT].value for score in scores])
        rows.append(
            {
                "task": task,
                "family": results.run.tasks[task].family,
                "models": len(scores),
                "mean": float(values.mean()),
                "std": float(values.std()),
                "bucket": bucket(float(values.mean())),
                "chance": 100 * scores[0].metrics[HIT].chance,
            }
        )
    columns = ["task", "family", "models", "mean", "std", "bucket", "chance"]
    return pd.DataFrame(rows, columns=columns).sort_values(["mean", "task"], ignore_index=True)


def bucket(percent: float) -> str:
    """Difficulty of a task whose baselines score ``percent`` on average."""
    return next(name for name, low, _ in reversed(BUCKETS) if percent >= low)


def transfer(results: Results) -> pd.DataFrame:
    """One row a model: means of family means in % over established and underexplored relations, and the gap."""
    rows = []
    for model in models_in_order(results):
        parts = {}
        for name, families in (("established", ESTABLISHED), ("underexplored", UNDEREXPLORED)):
            held = [score for score in results.scores(model.id) if score.family in families]
            parts[name] = 100 * mean_of(held, HIT, "families").value
            parts[f"{name}_tasks"] = len(held)
        rows.append({"model": model.id, "canary": model.canary, **parts})
    table = pd.DataFrame(rows)
    table["gap"] = table["established"] - table["underexplored"]
    return table


def balance_table(results: Results) -> pd.DataFrame:
    """One row a model: mean of its family means in %, their population deviation, CV, and how many families."""
    rows = []
    for model in models_in_order(results):
        scores = results.scores(model.id)
        held = [family for family in families_in_order(results) if any(score.family == family for score in scores)]
        means = [
            100 * mean_of([score for score in scores if score.family == family], HIT, "tasks").value for family in held
        ]
        rows.append({"model": model.id, "canary": model.canary, "families": len(held), **balance(means)})
    return pd.DataFrame(rows)


def domain(dataset: Dataset) -> str:
    """The anatomical domain of a source."""
    modality = " ".join(dataset.modality).lower()
    if any(word in modality for word in MICROSCOPY):
        return TISSUE
    if not dataset.anatomy:
        return NONE if dataset.form == "text" else SEVERAL
    found = {next((name for name, words in DOMAINS.items() if word in words), SEVERAL) for word in dataset.anatomy}
    return found.pop() if len(found) == 1 else SEVERAL


def by_domain_and_form(results: Results) -> pd.DataFrame:
    """One row a model and domain or evidence form: mean Hit@1 in % over its tasks, and how many."""
    rows = []
    for kind, name_of in (("domain", _domain_of), ("form", _form_of)):
        groups: dict[str, list[str]] = {}
        for key in tasks_in_order(results):
            groups.setdefault(name_of(results, results.run.tasks[key]), []).append(key)
        for name, tasks in groups.items():
            for model in models_in_order(results):
                held = [score for task in tasks if (score := results.score(model.id, task))]
                mean = mean_of(held, HIT, "tasks")
                rows.append(
                    {
                        "kind": kind,
                        "group": name,
                        "model": model.id,
                        "canary": model.canary,
                        "tasks": len(held),
                        "tasks_expected": len(tasks),
                        "mean": 100 * mean.value,
                        "chance": 100 * mean.chance,
                    }
                )
    return pd.DataFrame(rows)


def _domain_of(results: Results, task: Task) -> str:
    return NONE if task.form == "text" else domain(results.run.datasets[task.sources[0]])


def _form_of(results: Results, task: Task) -> str:
    return FORM_TITLES[task.form]


def assignment(results: Results, published: Published) -> pd.DataFrame:
    """One row a task: what the figures take it for. Domain and form are ours; the bucket follows from this run."""
    buckets = dict(difficulty(results, published)[["task", "bucket"]].itertuples(index=False))
    lengths = target_lengths(results).set_index("task")
    rows = []
    for key in tasks_in_order(results):
        task = results.run.tasks[key]
        relation = (
            "established" if task.family in ESTABLISHED else "underexplored" if task.family in UNDEREXPLORED else ""
        )
        rows.append(
            {
                "task": key,
                "family": task.family,
                "split": task.split,
                "home_source": task.sources[0],
                "domain": _domain_of(results, task),
                "form": _form_of(results, task),
                "relation": relation,
                "difficulty": buckets.get(key, ""),
                "target": TARGET_GROUPS.get(task.family, ""),
                "target_characters": lengths["characters"].get(key, np.nan),
            }
        )
    return pd.DataFrame(rows)


def target_lengths(results: Results) -> pd.DataFrame:
    """One row a task with text targets: mean characters of its first positives, and its group (paper A.5)."""
    rows = []
    for key in tasks_in_order(results):
        task = results.run.tasks[key]
        if task.family not in TARGET_GROUPS or not any(results.score(model, key) for model in results.run.models):
            continue
        try:
            records = list(islice(stream_records(results.run.layout.task_index(task.index)), SAMPLED_ROWS))
        except MedhebError:
            continue  # the examples of this task say what is wrong with its file
        if records:
            length = float(np.mean([len(record.tgt_text[0]) for record in records]))
            rows.append({"task": key, "family": task.family, "group": TARGET_GROUPS[task.family], "characters": length})
    columns = ["task", "family", "group", "characters"]
    return pd.DataFrame(rows, columns=columns).sort_values(["characters", "task"], ignore_index=True)


def score_pairs(results: Results, first: str, second: str) -> list[tuple[Score, Score]]:
    """Scores of the tasks that both models hold, by family."""
    return [
        (a, b)
        for task in tasks_in_order(results)
        if (a := results.score(first, task)) and (b := results.score(second, task))
    ]


def pair_to_compare(results: Results) -> tuple[Model, Model] | None:
    """Two sizes of one model (titles that differ only in ``2B``, ``8B``), the best such; else the best two."""
    real = [model for model in models_in_order(results) if not model.canary and results.scores(model.id)]
    for place, model in enumerate(real):
        for other in real[place + 1 :]:
            if _without_size(model.title) == _without_size(other.title):
                return other, model
    return (real[1], real[0]) if len(real) > 1 else None


def _without_size(title: str) -> str:
    words = title.replace("-", " ").split()
    return " ".join(word for word in words if not (word[:-1].replace(".", "").isdigit() and word[-1] in "BbMm"))


def families_complete(results: Results) -> bool:
    """True if the run has tasks of all eight families, as the paper's CV is defined over."""
    return len(families_in_order(results)) == len(FAMILIES)
