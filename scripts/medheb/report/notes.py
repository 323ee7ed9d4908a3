"""What is thin: the words of manifests, inventories and scores, put together by source, model and task."""

from __future__ import annotations

from dataclasses import dataclass

from medheb.manifest.model import Model
from medheb.report.collect import Results
from medheb.report.tables import tasks_in_order

FEW_QUERIES = 50
NAMED_TASKS = 12  # of those whose sources a model was trained on
INTERVALS = (
    "They resample queries as if each were independent of the others. Several queries about one structure "
    "or one person are not, so the true intervals are wider."
)


@dataclass(frozen=True)
class Note:
    """What there is to say about one source, model or task."""

    about: str
    lines: tuple[str, ...]


def result_notes(results: Results) -> list[Note]:
    """What holds for every number of the run; nothing if it has none."""
    if all(cell.score is None for cell in results.cells.values()):
        return []
    return [Note("Intervals", (INTERVALS,))]


def source_notes(results: Results) -> list[Note]:
    """Notes of the manifests and of the build step; whom a sample shows."""
    notes: list[Note] = []
    for facts in results.sources.values():
        dataset = facts.dataset
        lines = [dataset.note, *facts.notes]
        if dataset.subject and dataset.show_content:
            lines.insert(0, f"Subject: {dataset.subject}")
        notes.append(Note(dataset.title, _distinct(lines)))
    return [note for note in notes if note.lines]


def model_notes(results: Results) -> list[Note]:
    """Notes of the models, and which sources and tasks their bridges have seen."""
    notes: list[Note] = []
    for model in results.run.models.values():
        lines = [model.note]
        if model.bridge:
            trained = [results.run.datasets[source].title for source in model.bridge.train_sources]
            lines.append(f"The map between its image and text space was fitted on {_listed(trained)} only.")
            seen = set(model.bridge.train_sources)
            shared = [key for key in tasks_in_order(results) if seen & set(results.run.tasks[key].sources)]
            if shared:
                lines.append(f"Tasks that use a source of this fit: {_listed(shared)}.")
        lines += _trained_on(results, model)
        notes.append(Note(model.title, _distinct(lines)))
    return [note for note in notes if note.lines]


def _trained_on(results: Results, model: Model) -> list[str]:
    """What is known of a model's training data, and the tasks whose scores are not zero-shot for it."""
    known = set(model.facts.train_sources)
    shared = [key for key in tasks_in_order(results) if known & set(results.run.tasks[key].sources)]
    names = (
        shared if len(shared) <= NAMED_TASKS else [*shared[: NAMED_TASKS - 1], f"{len(shared) - NAMED_TASKS + 1} more"]
    )
    flag = f"Trained on sources of {len(shared)} of the {len(results.run.tasks)} tasks, so not zero-shot there: "
    note = f"Training data: {model.facts.train_note}" if model.facts.train_note else ""
    return [note, flag + _listed(names) + "." if shared else ""]


def task_notes(results: Results) -> list[Note]:
    """Notes of the task table, warnings that the evaluation left about real models, tasks with few queries.

    A warning that only some models have names them. Canaries are odd on purpose: theirs do not count.
    """
    notes: list[Note] = []
    small: list[str] = []
    for key in tasks_in_order(results):
        scores = [score for model in results.run.models if (score := results.score(model, key))]
        real = [score for score in scores if not results.run.models[score.model].canary]
        about: dict[str, list[str]] = {}
        for score in real:
            for warning in score.warnings:
                about.setdefault(warning, []).append(results.run.models[score.model].title)
        lines = [results.run.tasks[key].note]
        lines += [text if len(who) == len(real) else f"{_listed(who)}: {text}" for text, who in about.items()]
        notes.append(Note(key, _distinct(lines)))
        if scores and scores[0].queries < FEW_QUERIES:
            small.append(f"{key} ({scores[0].queries})")
    if small:
        notes.append(Note(f"Fewer than {FEW_QUERIES} queries, so wide intervals", (_listed(small),)))
    return [note for note in notes if note.lines]


def _distinct(lines: list[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(line.strip() for line in lines if line.strip()))


def _listed(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
