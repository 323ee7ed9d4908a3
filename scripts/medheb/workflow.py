"""What the Snakefile asks of the package: the selection of a run, and the inputs of each rule.

Rules hold no logic. Everything here is cheap (no hashing, no reading of data), because every job on a
cluster parses the Snakefile again.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

from snakemake_interface_common.exceptions import WorkflowError

from medheb.build.registry import RECIPES
from medheb.build.settings import settings_in
from medheb.cluster.rules import inputs_by_kind
from medheb.cluster.sizes import build_shards, embed_shards
from medheb.core.code_digest import code_digest
from medheb.core.digests import json_digest
from medheb.core.errors import MedhebError
from medheb.core.shards import Shard
from medheb.fetch.found_weights import own_state, weights_source
from medheb.fetch.lock import lock_file
from medheb.manifest.load import Run, load_config, load_run
from medheb.manifest.released import RELEASED_ID
from medheb.manifest.task import Task
from medheb.models.load import vector_settings
from medheb.report.published import FOLDER as PUBLISHED

STEPS = {
    "fetch": "medheb.fetch.source",
    "build": "medheb.build.run",
    "index": "medheb.index.run",
    "train": "medheb.index.train",
    "medemb_plan": "medheb.train.plan",
    "medemb_fit": "medheb.train.run",
    "medemb_merge": "medheb.train.merge",
    "bridge": "medheb.embed.bridge",
    "embed": "medheb.embed.run",
    "gather": "medheb.embed.gather",
    "evaluate": "medheb.evaluate.run",
    "graded": "medheb.evaluate.graded",
    "report": "medheb.report.run",
    "audit": "medheb.audit.record",
    "roots": "medheb.audit.provenance",
}


class Plan:
    """Wildcards and inputs of a run, for the rules.

    Args:
        config_files: configuration files in the order in which Snakemake merged them.
        overrides: what ``--config`` set on top.
    """

    def __init__(self, config_files: Sequence[str | Path], overrides: Mapping[str, Any]) -> None:
        files = [Path(path) for path in config_files]
        try:
            self.run: Run = load_run(load_config(files, overrides))
        except MedhebError as error:
            # Snakemake shows the message of its own error without a traceback.
            raise WorkflowError(str(error)) from None
        self._sources = self.run.with_index().datasets
        self._tasks_by_index = {task.index: task for task in self.run.every_task.values()}
        options = [part for path in files for part in ("--config", str(path))]
        options += [part for key, value in overrides.items() for part in ("--set", f"{key}={json_value(value)}")]
        self._options = options

    @property
    def core_image(self) -> str:
        """Apptainer image of the workflow's environment, from where the workflow is started."""
        return "envs/core.sif"

    @property
    def build_image(self) -> str:
        """Apptainer image of builds: the one that also holds DeepDRR, where that makes X-rays."""
        projector = self.run.config.drr.chosen(self.run.config.protocol)
        return "envs/deepdrr.sif" if projector == "deepdrr" else self.core_image

    @property
    def shell_prefix(self) -> str:
        """Shell lines before every command of a rule: what ``medheb`` means in this run.

        It is part of no rule's command or parameter, so that another ``--config`` reruns nothing by
        itself. Snakemake formats it, hence the doubled braces.
        """
        command = shlex.join(["python", "-m", "medheb", *self._options])
        package = shlex.quote(str(Path(__file__).resolve().parent.parent))
        # The path lets every environment with the pinned requirements run the package without installing it.
        path = f"export PYTHONPATH={package}${{PYTHONPATH:+:$PYTHONPATH}}"
        line = f'set -euo pipefail; {path}; medheb() ( exec {command} "$@" ); '
        return line.replace("{", "{{").replace("}", "}}")

    def downloads(self) -> str:
        """What a dry run says about downloads: the plan in short. Asks no host; imports only what a dry run needs."""
        from medheb.fetch.plan import make_plan, require_room
        from medheb.fetch.plan_table import totals

        plan = make_plan(self.run.with_index())
        command = shlex.join(["medheb", *self._options, "plan"])
        lines = [f"Downloads of {len(plan.sources)} sources (each source: {command})", *totals(plan)]
        try:
            require_room(plan)
        except MedhebError as error:
            lines.append(f"   short: {error}")
        return "\n".join([*lines, ""])

    # wildcards
    @property
    def datasets(self) -> list[str]:
        """Sources of this run."""
        return list(self.run.datasets)

    @property
    def fetched(self) -> list[str]:
        """Sources of this run, and the released index if it uses that."""
        return list(self._sources)

    @property
    def tasks(self) -> list[str]:
        """Tasks of this run."""
        return list(self.run.tasks)

    @property
    def models(self) -> list[str]:
        """Models of this run."""
        return list(self.run.models)

    @property
    def graded(self) -> list[str]:
        """Graded tasks of this run."""
        return list(self.run.graded_entries)

    @property
    def groups(self) -> list[str]:
        """Groups of tasks that draw on the same sources: the units of embedding."""
        return self.run.groups

    def code(self, step: str) -> str:
        """Digest of the code behind a step: a parameter of its rule."""
        return code_digest(STEPS[step])

    # parameters: what of the manifests decides a step's result
    def fetch_settings(self, dataset: str) -> str:
        """Host, files and unpack rules of a source."""
        manifest = self._sources[dataset]
        return json_digest(
            manifest.model_dump(mode="json", exclude_defaults=True, include={"host", "files", "unpack"})
        )[:16]

    def build_settings(self, dataset: str) -> str:
        """Recipe, version and options of a source, and what of the run's switches its recipe follows."""
        return settings_in(self.run, dataset).digest

    def build_code(self, dataset: str) -> str:
        """Digest of the code behind the build of a source: the step and its own recipe."""
        entry = RECIPES.get(self.run.datasets[dataset].recipe.name)
        # The table of all recipes does not count: a new line in it must not rebuild every source.
        step = code_digest(STEPS["build"], without="medheb.build.registry")
        return json_digest([step, asdict(entry), code_digest(entry.module)] if entry else [step])[:16]

    def build_gpus(self, dataset: str) -> int:
        """GPUs of a job that builds a source: one where DeepDRR makes its X-rays."""
        entry = RECIPES.get(self.run.datasets[dataset].recipe.name)
        projector = self.run.config.drr.chosen(self.run.config.protocol)
        return int(entry is not None and entry.follows_projector and projector == "deepdrr")

    def embed_gpus(self, model: str) -> int:
        """GPUs of a job that runs a model: one, but none for the canaries, which compute nothing."""
        return int(not self.run.models[model].canary)

    def shards(self, dataset: str) -> int:
        """Number of jobs that build a source."""
        return build_shards(self.run, dataset)

    def shard_receipts(self, dataset: str) -> list[str]:
        """Receipts of the jobs that build parts of a large source; none for one that a single job builds."""
        count = self.shards(dataset)
        folder = self.run.layout.results / "build" / dataset
        return [str(folder / f"shard_{number}_of_{count}.json") for number in range(1, count + 1)] if count > 1 else []

    def build_inputs(self, dataset: str) -> dict[str, list[str]]:
        """Outcome of fetching a source and those that it needs."""
        names = [dataset, *self.run.datasets[dataset].requires]
        return inputs_by_kind(self.build_gpus(dataset), [str(self.run.layout.source_status(name)) for name in names])

    def index_settings(self, index: str) -> str:
        """Row of the task table, its rule, the sampling seed, and the switches of the protocol that change rows."""
        task, protocol = self._by_index(index), self.run.protocol
        rule = self.run.rules.get(task.builder)
        return json_digest(
            [
                task.model_dump(mode="json", exclude_defaults=True, exclude={"note"}),
                rule.model_dump(mode="json", exclude={"note"}) if rule else None,
                protocol.model_dump(mode="json", include={"question_pool", "published_draws", "text_cleaning"}),
                self.run.released.by_case if self.run.released else None,
                self.run.config.seed,
            ]
        )[:16]

    def train_settings(self) -> str:
        """What decides the training rows: everything that decides a task, and what is a leak, for all of them."""
        tasks = [self.index_settings(task.index) for task in self.run.every_task.values()]
        sources = {name: (one.people, one.published_split) for name, one in self.run.datasets.items()}
        return json_digest([*tasks, self.run.config.protocol, sources])[:16]

    def model_settings(self, model: str) -> str:
        """Where a model's weights come from."""
        entry = self.run.models[model]
        weights = [part.model_dump(mode="json", exclude_defaults=True) for part in entry.weights()]
        folders = [part.model_dump(mode="json", exclude_defaults=True) for part in entry.folders().values()]
        return json_digest([*weights, *folders])[:16]

    def own_weights(self, model: str) -> str:
        """What lies in a user's folders of a model's weights, by names, sizes and times."""
        return own_state(self.run.models[model])

    def vector_settings(self, model: str) -> str:
        """What of a model's manifest decides its vectors and its bridge."""
        return json_digest(vector_settings(self.run.models[model]))[:16]

    def embed_code(self, model: str, group: str) -> str:
        """Digest of the code behind a group's receipt."""
        return self.code("gather" if self.embed_shards(model, group) > 1 else "embed")

    def embed_settings(self, model: str) -> str:
        """Adapter of a model, and what of the protocol changes an input."""
        return json_digest([self.vector_settings(model), self.run.protocol.text_cleaning])[:16]

    def evaluate_settings(self) -> str:
        """Protocol, seed and interval options."""
        config = self.run.config
        return json_digest([self.run.protocol.model_dump(), config.seed, config.evaluate.model_dump()])[:16]

    def group_gpus(self, model: str, group: str) -> int:
        """GPUs of a job that embeds a group: none where it gathers what shards did."""
        return 0 if self.embed_shards(model, group) > 1 else self.embed_gpus(model)

    def graded_settings(self, key: str) -> str:
        """Evaluation options, and the entry of a graded task with its relation."""
        graded, entry = self.run.graded, self.run.graded_entries[key]
        relation = graded.relations[entry.relation].model_dump(mode="json", exclude={"note"}) if graded else None
        settings = entry.model_dump(mode="json", exclude_defaults=True)
        return json_digest([self.evaluate_settings(), settings, relation])[:16]

    def report_settings(self) -> str:
        """Everything that a report says without reading it from a result."""
        manifests = [entry.model_dump(mode="json") for entry in self.run.datasets.values()]
        manifests += [entry.model_dump(mode="json") for entry in self.run.models.values()]
        manifests += [entry.model_dump(mode="json") for entry in self.run.tasks.values()]
        return json_digest([manifests, self.run.config.report.model_dump(), self.run.protocol.model_dump()])[:16]

    # inputs
    def locks(self, dataset: str) -> list[str]:
        """The lock of a source, if it has one: what its host was last seen to hold."""
        path = lock_file(self.run, dataset)
        return [str(path)] if path.exists() else []

    def weights_locks(self, model: str) -> list[str]:
        """Locks of a model's repositories, if they have some."""
        return [path for slot in self.run.models[model].folders() for path in self.locks(weights_source(model, slot))]

    def inventory(self, dataset: str) -> str:
        """Inventory that ``build`` writes for a source."""
        return str(self.run.layout.inventory(self.run.datasets[dataset].images, dataset))

    def images_folder(self, dataset: str) -> str:
        """Image folder of a source, from the benchmark folder."""
        return self.run.datasets[dataset].images

    def inventories_of_index(self, index: str) -> list[str]:
        """Inventories of a task's sources."""
        return [self.inventory(source) for source in self._by_index(index).sources]

    def index_inputs(self, index: str) -> list[str]:
        """Inventories of a task's sources, and the outcome of fetching the released index if the run uses it."""
        fetched = [str(self.run.layout.source_status(RELEASED_ID))] if self.run.released else []
        return self.inventories_of_index(index) + fetched

    def inventories_for_bridge(self, model: str) -> list[str]:
        """Inventories of a bridge's training sources."""
        bridge = self.run.models[model].bridge
        return [self.inventory(source) for source in bridge.train_sources] if bridge else []

    def task_of(self, index: str) -> str:
        """Key of the task that an index path belongs to."""
        return self._by_index(index).task

    def index(self, task: str) -> str:
        """Task JSON of a task."""
        return str(self.run.layout.task_index(self.run.every_task[task].index))

    def task_inventories(self, task: str) -> list[str]:
        """Inventories of a task's sources."""
        return self.inventories_of_index(self.run.every_task[task].index)

    def model_files(self, model: str) -> list[str]:
        """What must have been made before a model can embed; its vectors change with these."""
        layout = self.run.layout
        needed = [layout.model_status(model)]
        if self.run.models[model].bridge:
            needed.append(layout.bridge_status(model))
        return [str(path) for path in needed]

    def embed_inputs(self, model: str, group: str) -> list[str]:
        """All that one embedding job reads: the model, and the task files and inventories of a group of tasks."""
        layout = self.run.layout
        inputs = self.model_files(model)
        for task in self.run.tasks_of(group):
            inputs += [str(layout.task_index(task.index)), *self.inventories_of_index(task.index)]
        return list(dict.fromkeys(inputs))

    @cache  # noqa: B019 - one plan lives as long as its process
    def embed_shards(self, model: str, group: str) -> int:
        """Number of jobs that embed a group of tasks."""
        return embed_shards(self.run, model, group)

    def embed_receipts(self, model: str, group: str) -> list[str]:
        """Receipts of the jobs that embed parts of a large group; none for one that a single job embeds."""
        count = self.embed_shards(model, group)
        shards = [Shard(number, count) for number in range(count)] if count > 1 else []
        return [str(self.run.layout.embedded_shard(model, group, shard)) for shard in shards]

    def gathered_inputs(self, model: str, group: str) -> dict[str, list[str]]:
        """All that a group's receipt is made of."""
        inputs = [*self.embed_inputs(model, group), *self.embed_receipts(model, group)]
        return inputs_by_kind(self.group_gpus(model, group), inputs)

    def gather_option(self, model: str, group: str) -> str:
        """How `medheb embed` is told that shards did its work."""
        count = self.embed_shards(model, group)
        return f"--gather {count}" if count > 1 else ""

    def receipt(self, model: str, task: str) -> str:
        """Receipt of the embedding job that serves a task."""
        return str(self.run.layout.embedded(model, self.run.every_task[task].group))

    def evaluate_inputs(self, model: str, task: str) -> list[str]:
        """All that one evaluation reads: vectors, the task file, and the inventories of its sources."""
        return [self.receipt(model, task), self.index(task), *self.task_inventories(task)]

    def scores(self) -> list[str]:
        """All scores of the run."""
        return [str(self.run.layout.score(model, task)) for model in self.models for task in self.tasks]

    def graded_scores(self) -> list[str]:
        """All graded scores of the run."""
        return [str(self.run.layout.graded(model, key)) for model in self.models for key in self.graded]

    def published(self) -> list[str]:
        """Tables of published results that the report compares with."""
        return sorted(str(path) for path in (Path(self.run.config.manifests) / PUBLISHED).glob("*.csv"))

    def graded_inputs(self, model: str, key: str) -> list[str]:
        """All that one graded evaluation reads: vectors, the task file, and the inventories that name classes."""
        return self.evaluate_inputs(model, self.run.graded_entries[key].task or key)

    def all_inventories(self) -> list[str]:
        """Inventories of all sources."""
        return [self.inventory(dataset) for dataset in self.datasets]

    def train_inputs(self) -> list[str]:
        """All that the training rows are made of or must not show."""
        released = self.all_indices() if self.run.config.task_index == "released" else []
        return [*self.all_inventories(), *released]

    @property
    def train_summary(self) -> str:
        """What came of the training rows, written last."""
        return str(self.run.layout.train_summary)

    def all_indices(self) -> list[str]:
        """All task JSONs."""
        return [self.index(task) for task in self.run.every_task]

    def all_digests(self) -> list[str]:
        """Digest files of all sources."""
        return [str(self.run.layout.audit / dataset / "digests.json") for dataset in self.datasets]

    def steps_between(self) -> list[str]:
        """All results between the sources and the report."""
        layout = self.run.layout
        statuses = [layout.source_status(dataset) for dataset in self.datasets]
        receipts = [layout.embedded(model, group) for model in self.models for group in self.groups]
        paths = [str(path) for path in [*statuses, *receipts]]
        graded = self.graded_scores()
        return [*paths, *self.all_inventories(), *self.all_indices(), *self.scores(), *graded, *self.all_digests()]

    def dataset_targets(self, dataset: str) -> list[str]:
        """What ``snakemake dataset_<id>`` makes: the source and everything that depends on it."""
        tasks = [task.task for task in self.run.every_task.values() if dataset in task.sources]
        entries = [key for key, entry in self.run.graded_entries.items() if (entry.task or key) in tasks]
        scores = [str(self.run.layout.score(model, key)) for model in self.models for key in tasks if key in self.tasks]
        scores += [str(self.run.layout.graded(model, key)) for model in self.models for key in entries]
        digests = str(self.run.layout.audit / dataset / "digests.json")
        return [self.inventory(dataset), digests, *[self.index(task) for task in tasks], *scores]

    def _by_index(self, index: str) -> Task:
        return self._tasks_by_index[index]


def json_value(value: Any) -> str:
    """A value as ``--set`` reads it back."""
    return json.dumps(value)
