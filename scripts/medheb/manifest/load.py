"""Load a run's configuration and manifests, and check that they fit together."""

from __future__ import annotations

import csv
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from medheb.core.errors import MedhebError
from medheb.core.layout import Layout
from medheb.manifest.base import read_yaml, validate
from medheb.manifest.config import Config
from medheb.manifest.dataset import Dataset
from medheb.manifest.graded import GRADED_FILE, Graded, GradedEntry, load_graded
from medheb.manifest.model import Model, ModelList
from medheb.manifest.protocol import Protocol
from medheb.manifest.released import RELEASED_ID, ReleasedIndex
from medheb.manifest.resolve import resolved
from medheb.manifest.rules import IndexRule, load_rules
from medheb.manifest.task import TASK_COLUMNS, Task

PROTOCOLS = Path("manifests/protocols")
CANARIES = ("random", "constant")
RESERVED = {"archives", "accepted", RELEASED_ID}
INDEX_FILE = "index.yaml"


@dataclass(frozen=True)
class Run:
    """Everything that was decided before the first job: the selection of sources, tasks and models."""

    config: Config
    layout: Layout
    datasets: dict[str, Dataset]
    tasks: dict[str, Task]
    models: dict[str, Model]
    protocol: Protocol
    released: ReleasedIndex | None = None
    rules: dict[str, IndexRule] = field(default_factory=dict)
    graded: Graded | None = None

    def with_index(self) -> Run:
        """This run with the released index, if it uses that, among its sources: for commands about fetching."""
        if self.released is None:
            return self
        return replace(self, datasets={**self.datasets, RELEASED_ID: self.released.as_source()})

    def with_sources(self, more: Mapping[str, Dataset]) -> Run:
        """This run with further sources, such as weights: for commands about fetching."""
        return replace(self, datasets={**self.datasets, **more})

    def tasks_of(self, group: str) -> list[Task]:
        """Tasks of one group; see :attr:`Task.group`."""
        return [task for task in self.every_task.values() if task.group == group]

    @property
    def graded_entries(self) -> dict[str, GradedEntry]:
        """Graded tasks by key."""
        return {entry.key: entry for entry in self.graded.entries} if self.graded else {}

    @property
    def every_task(self) -> dict[str, Task]:
        """All that is indexed and embedded: the tasks, and tasks of graded relevance that are none of them."""
        return self.tasks | {key: entry.row for key, entry in self.graded_entries.items() if entry.row}

    @property
    def groups(self) -> list[str]:
        """Groups of tasks that draw on the same sources, in task order."""
        return list(dict.fromkeys(task.group for task in self.every_task.values()))


def merge(base: Mapping[str, Any], top: Mapping[str, Any]) -> dict[str, Any]:
    """``base`` overlaid by ``top``, mapping by mapping, as Snakemake merges config files."""
    merged = dict(base)
    for key, value in top.items():
        if isinstance(value, Mapping) and isinstance(merged.get(key), Mapping):
            merged[key] = merge(merged[key], value)
        else:
            merged[key] = value
    return merged


def load_config(files: Sequence[Path], overrides: Mapping[str, Any] | None = None) -> Config:
    """Read config files in order, later ones on top, then ``overrides``.

    Raises:
        MedhebError: a file is missing, not YAML, or holds a wrong key or value.
    """
    content: dict[str, Any] = {}
    for path in files:
        part = read_yaml(path)
        if part is None:
            continue
        if not isinstance(part, Mapping):
            raise MedhebError(path, "does not hold keys and values", "Write 'key: value' lines; see config/config.yaml")
        # Each file alone first, so that a fault is reported with the file it stands in.
        validate(Config, part, path)
        content = merge(content, part)
    where = ", ".join(str(path) for path in files) or "the configuration"
    return validate(Config, merge(content, overrides or {}), where if not overrides else f"{where} with overrides")


def load_dataset(path: Path) -> Dataset:
    """Read one access manifest; its file name is its id.

    Raises:
        MedhebError: a wrong key or value, or a file name that is not the id.
    """
    dataset = validate(Dataset, read_yaml(path), path)
    if dataset.id != path.stem:
        raise MedhebError(path, f"holds id '{dataset.id}'", f"Rename the file to {dataset.id}.yaml or correct the id")
    return dataset


def load_datasets(folder: Path) -> dict[str, Dataset]:
    """Read all access manifests of a folder, sorted by id."""
    return {path.stem: load_dataset(path) for path in sorted(folder.glob("*.yaml"))}


def load_tasks(path: Path) -> dict[str, Task]:
    """Read ``tasks.tsv``, in file order.

    Raises:
        MedhebError: wrong columns, a wrong value (named with its row), or a task or index that occurs twice.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise MedhebError(path, "does not exist", "Point 'manifests' at a folder that holds tasks.tsv") from None
    rows = csv.DictReader(text.rstrip("\n").split("\n"), delimiter="\t", quoting=csv.QUOTE_NONE)
    if tuple(rows.fieldnames or ()) != TASK_COLUMNS:
        raise MedhebError(path, f"has columns {rows.fieldnames}", f"Allowed: {', '.join(TASK_COLUMNS)}")
    tasks: dict[str, Task] = {}
    for number, row in enumerate(rows, start=2):
        if None in row or None in row.values():
            raise MedhebError(
                f"{path} row {number}", "has more or fewer columns than the head", "Separate by single tabs"
            )
        fields = {**row, "sources": tuple((row["sources"] or "").split("+"))}
        fields |= {key: row[key] or None for key in ("image_root", "card_root")}
        task = validate(Task, fields, f"{path} row {number}")
        if task.task in tasks or any(task.index == other.index for other in tasks.values()):
            raise MedhebError(f"{path} row {number}", f"repeats task or index of {task.task}", "Give it its own")
        tasks[task.task] = task
    return tasks


def load_models(path: Path) -> dict[str, Model]:
    """Read ``models.yaml``, in file order.

    Raises:
        MedhebError: a wrong key or value, or an id that occurs twice.
    """
    models: dict[str, Model] = {}
    for model in validate(ModelList, read_yaml(path), path).models:
        if model.id in models:
            raise MedhebError(path, f"holds model '{model.id}' twice", "Give each its own id")
        models[model.id] = model
    return models


def _select(available: Mapping[str, Any], wanted: str | Sequence[str], key: str, where: str) -> list[str]:
    if isinstance(wanted, str):
        return list(available)
    unknown = [name for name in wanted if name not in available]
    if unknown:
        raise MedhebError(where, f"key '{key}' is {unknown[0]!r}", f"Allowed: {', '.join(sorted(available))}")
    return [name for name in available if name in set(wanted)]


def _with_training(datasets: dict[str, Dataset], config: Config, where: str) -> dict[str, Dataset]:
    """The manifests, with the training parts that the configuration asks for."""
    large = {key: dataset for key, dataset in datasets.items() if dataset.training}
    chosen = set(_select(large, config.training, "training", where))
    return {key: dataset.with_training() if key in chosen else dataset for key, dataset in datasets.items()}


def load_run(config: Config, protocols: Path = PROTOCOLS) -> Run:
    """Load the manifests that ``config`` points at, select, and check every reference.

    Raises:
        MedhebError: a manifest is wrong, or names something that does not exist.
    """
    folder = Path(config.manifests)
    datasets = _with_training(load_datasets(folder / "datasets"), config, f"configuration for {folder}")
    tasks = load_tasks(folder / "tasks.tsv")
    models = load_models(folder / "models.yaml")
    graded = load_graded(folder, tasks)
    rows = {entry.key: entry.row for entry in graded.entries if entry.row} if graded else {}
    for key, task in (tasks | rows).items():
        for source in task.sources:
            if source not in datasets:
                path = folder / (GRADED_FILE if key in rows else "tasks.tsv")
                raise MedhebError(path, f"task {key} names source '{source}'", _known(datasets))
    for dataset in datasets.values():
        for source in dataset.requires:
            if source not in datasets:
                raise MedhebError(folder / "datasets" / f"{dataset.id}.yaml", f"requires '{source}'", _known(datasets))
        if dataset.people not in datasets:
            path = folder / "datasets" / f"{dataset.id}.yaml"
            raise MedhebError(path, f"has the patients of '{dataset.patients}'", _known(datasets))
    for model in models.values():
        for source in model.bridge.train_sources if model.bridge else ():
            if source not in datasets:
                raise MedhebError(folder / "models.yaml", f"model {model.id} names source '{source}'", _known(datasets))
    _require_canaries(models, folder / "models.yaml")
    _require_own_folders(datasets, folder / "datasets")
    where = f"configuration for {folder}"
    chosen = set(_select(datasets, config.datasets, "datasets", where))
    chosen_tasks = [
        key for key in _select(tasks, config.tasks, "tasks", where) if chosen.issuperset(tasks[key].sources)
    ]
    protocol_path = protocols / f"{config.protocol}.yaml"
    protocol = validate(Protocol, read_yaml(protocol_path), protocol_path)
    models = resolved(models, protocol, config.weights, folder / "models.yaml")
    enabled = {key: model for key, model in models.items() if model.enabled}
    available = enabled if isinstance(config.models, str) else models
    wanted_models = set(_select(available, config.models, "models", where))
    chosen_models = [key for key, model in models.items() if key in wanted_models or model.canary]
    needed = {source for key in chosen_tasks for source in tasks[key].sources}
    for key in chosen_models:
        bridge = models[key].bridge
        needed.update(bridge.train_sources if bridge else ())
    kept = chosen | needed if config.tasks == "all" else needed
    kept |= {other for key in kept for other in datasets[key].requires}
    return Run(
        config=config,
        layout=Layout(Path(config.paths.sources), Path(config.paths.benchmark), Path(config.paths.results)),
        datasets={key: datasets[key] for key in datasets if key in kept},
        tasks={key: tasks[key] for key in chosen_tasks},
        models={key: models[key] for key in chosen_models},
        protocol=protocol,
        released=_released(config, folder / INDEX_FILE),
        rules=load_rules(folder),
        graded=_graded(graded, chosen_tasks, kept if config.tasks == "all" else ()),
    )


def _graded(graded: Graded | None, tasks: Collection[str], sources: Collection[str]) -> Graded | None:
    """Those graded tasks whose task was chosen, or whose sources were and no task was named."""
    if graded is None:
        return None
    kept = [entry for entry in graded.entries if entry.task in tasks]
    kept += [entry for entry in graded.entries if entry.row and set(entry.row.sources) <= set(sources)]
    return graded.model_copy(update={"entries": tuple(kept)}) if kept else None


def _released(config: Config, path: Path) -> ReleasedIndex | None:
    """Where the released index comes from, if the run uses it."""
    if config.task_index == "rebuilt":
        return None
    if not path.exists():
        raise MedhebError(
            path, "does not exist, so these tasks have no released index", "Set 'task_index: rebuilt', or write it"
        )
    return validate(ReleasedIndex, read_yaml(path), path)


def _require_canaries(models: Mapping[str, Model], where: Path) -> None:
    canaries = {model.adapter.name for model in models.values() if model.canary}
    for name in CANARIES:
        if name not in canaries:
            raise MedhebError(
                where, f"has no canary '{name}'", "Add it; every run checks its ranking with both canaries"
            )


def _require_own_folders(datasets: Mapping[str, Dataset], where: Path) -> None:
    """Build replaces a source's folder whole, so no two may share or contain one; some ids are folder names of ours."""
    for key in RESERVED & set(datasets):
        raise MedhebError(where / f"{key}.yaml", f"has id '{key}', which names a folder of ours", "Choose another id")
    by_folder = sorted((f"{dataset.images}/", key) for key, dataset in datasets.items())
    for (folder, key), (next_folder, next_key) in pairwise(by_folder):
        if next_folder.startswith(folder):
            raise MedhebError(
                where / f"{next_key}.yaml",
                f"fills {next_folder}, inside the folder {folder} of {key}",
                "Give each source an image folder of its own",
            )


def _known(items: Mapping[str, Any]) -> str:
    return f"Allowed: {', '.join(sorted(items))}"
