"""Which pairs are trained on, in which batches: decided once on CPUs, so that no GPU waits for it.

The plan is a parquet table with one row a pair, in the order of batches, and a small JSON file that says what was left
out and why. It depends on the training rows, the settings and the seed, not on the number of GPUs.
"""

from __future__ import annotations

import logging
from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import Field

from medheb.build.inventory import files_of, read_header
from medheb.core.digests import json_digest, sha256_file
from medheb.core.errors import MedhebError
from medheb.core.files import atomic_open, write_json
from medheb.embed.reading import ImageReader
from medheb.index.built import data_root
from medheb.index.paths import layout_paths
from medheb.index.train import Trained
from medheb.manifest.base import Strict, read_json, validate
from medheb.manifest.load import Run
from medheb.manifest.medemb import Batches, MedEmb
from medheb.manifest.model import Model
from medheb.manifest.networks import Qwen3VLAdapter
from medheb.models.base import Adapter, ImageRef
from medheb.models.load import load_adapter
from medheb.models.networks import weights_digest
from medheb.train.batching import Budget, best_fit, padding, shuffled, with_partners
from medheb.train.rows import AGAIN, BadRowError, lines_of, parse

log = logging.getLogger("medheb.train")
NAMED = 20  # rows that are left out and named, of each reason
PROGRESS_ROWS = 100_000
PLAN_AGAIN = "Plan again: `medheb train plan`"


class TrainingFile(Strict):
    """A file of training rows."""

    name: str
    task: str
    source: str
    volumes: bool
    sha256: str
    root: str = Field(description="Merkle root over the L2 digests of all files of the task's sources")


class Plan(Strict):
    """``plan.json``: what is trained on and what is left out."""

    base: str
    weights: str = Field(description="digest of the base model's weights")
    seed: int
    files: tuple[TrainingFile, ...]
    rows: int = 0
    pairs: int = 0
    batches: int = 0
    padding: float = Field(default=1.0, description="padded tokens over real ones")
    left_out: dict[str, int] = Field(default_factory=dict, description="rows by reason")
    named: dict[str, tuple[str, ...]] = Field(default_factory=dict, description="the first of them: file and byte")
    several_positives: int = Field(default=0, description="rows whose first positive alone is used")
    table: str = Field(default="", description="digest of the table beside this file")

    @property
    def digest(self) -> str:
        """Of all that a checkpoint must agree with."""
        return json_digest(
            [self.base, self.weights, self.seed, [(file.sha256, file.root) for file in self.files], self.table]
        )


@dataclass
class _Found:
    """Pairs so far, as columns: millions of rows stay small."""

    file: array[int] = field(default_factory=lambda: array("i"))
    offset: array[int] = field(default_factory=lambda: array("q"))
    length: array[int] = field(default_factory=lambda: array("i"))
    rows: int = 0
    several: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    named: dict[str, list[str]] = field(default_factory=dict)

    def leave_out(self, reason: str, name: str) -> None:
        """Count a row that is not trained on, and name the first ones."""
        self.left_out[reason] += 1
        names = self.named.setdefault(reason, [])
        if len(names) < NAMED:
            names.append(name)


def budget_of(batches: Batches) -> Budget:
    """Bounds of a batch from its settings: T = 2 * B_nom * L_max."""
    return Budget(2 * batches.nominal_pairs * batches.longest, batches.most_pairs, batches.open_batches)


def base_model(run: Run, size: str) -> Model:
    """The model that training starts from.

    Raises:
        MedhebError: no such size, or a model without a Qwen3-VL adapter.
    """
    options = run.config.medemb
    if size not in options.bases:
        raise MedhebError(f"size {size}", "is not one of MedEmb's", f"Allowed: {', '.join(options.bases)}")
    name = options.bases[size]
    found = run.models.get(name)
    if found is None:
        raise MedhebError(
            f"medemb.bases.{size}",
            f"names model {name}, which this run has not",
            f"Name a run that has it, such as --configfile config/full.yaml, or add {name} to `models`",
        )
    if not isinstance(found.adapter, Qwen3VLAdapter):
        raise MedhebError(f"model {name}", f"has adapter {found.adapter.name}", "MedEmb starts from adapter qwen3vl")
    return found


def make_plan(run: Run, size: str, folder: Path) -> Plan:
    """Read all training rows, measure their lengths, and write ``plan.parquet`` and then ``plan.json``.

    Raises:
        MedhebError: training rows that are missing, or none that can be used.
    """
    model = base_model(run, size)
    options = run.config.medemb
    if unknown := sorted(set(options.caps) - set(run.datasets)):
        raise MedhebError(
            "medemb.caps", f"names {', '.join(unknown)}, which this run has not", "Name sources as `datasets` does"
        )
    adapter = load_adapter(model, run.layout)
    files = training_files(run)
    found = _Found()
    for number, file in enumerate(files):
        _read(run, file, number, adapter, options, found)
    keep = _capped(files, found, options.caps, run.config.seed)
    lengths = found.length
    budget = budget_of(options.batches)
    order = [pair for pair in shuffled(len(lengths), run.config.seed) if keep is None or pair in keep]
    if len(order) < 2:
        raise MedhebError(
            run.layout.train_summary, f"lists {found.rows} rows, {len(order)} of which can be used", AGAIN
        )
    batches = list(with_partners(best_fit(order, lengths, budget), lengths, budget))
    table = pa.table(
        {
            "batch": pa.array([number for number, batch in enumerate(batches) for _ in batch], pa.int32()),
            "file": pa.array([found.file[pair] for batch in batches for pair in batch], pa.int32()),
            "offset": pa.array([found.offset[pair] for batch in batches for pair in batch], pa.int64()),
            "length": pa.array([lengths[pair] for batch in batches for pair in batch], pa.int32()),
        }
    )
    with atomic_open(folder / "plan.parquet") as stream:
        pq.write_table(table, stream, compression="zstd")
    left_out = dict(found.left_out)
    if keep is not None:
        left_out["over the cap of their source"] = len(lengths) - len(keep)
    plan = Plan(
        base=model.id,
        weights=json_digest(weights_digest(model, run.layout)),
        seed=run.config.seed,
        files=files,
        rows=found.rows,
        pairs=len(order),
        batches=len(batches),
        padding=round(padding(batches, lengths), 4),
        left_out=dict(sorted(left_out.items())),
        named={reason: tuple(names) for reason, names in sorted(found.named.items())},
        several_positives=found.several,
        table=_digest_of(table),
    )
    write_json(folder / "plan.json", plan.model_dump(mode="json"))
    for reason, count in plan.left_out.items():
        log.warning("%d rows are left out: %s", count, reason)
    log.info("%d pairs of %d rows in %d batches, padding %.3f", plan.pairs, plan.rows, plan.batches, plan.padding)
    return plan


def training_files(run: Run) -> tuple[TrainingFile, ...]:
    """The files of training rows that were made.

    Raises:
        MedhebError: there is no summary, or no file with rows.
    """
    path = run.layout.train_summary
    content: Any = read_json(path, AGAIN)
    if not isinstance(content, list):
        raise MedhebError(path, "is not a list of training files", AGAIN)
    files: list[TrainingFile] = []
    for entry in content:
        trained = validate(Trained, entry, path)
        task = run.tasks.get(trained.task)
        if not trained.status.ok or not trained.rows or task is None:
            continue
        name = run.layout.train_data / trained.file
        if not name.is_file():
            raise MedhebError(name, "is missing", AGAIN)
        files.append(
            TrainingFile(
                name=trained.file,
                task=task.task,
                source=task.sources[0],
                volumes=task.form == "3d",
                sha256=sha256_file(name),
                root=data_root(run, task),
            )
        )
    if not files:
        raise MedhebError(path, "lists no file with rows", AGAIN)
    return tuple(files)


def _read(run: Run, file: TrainingFile, number: int, adapter: Adapter, options: MedEmb, found: _Found) -> None:
    size_of, shows = _sizes(run, file), run.tasks[file.task].form != "text"
    for offset, line in lines_of(run.layout.train_data / file.name):
        found.rows += 1
        if found.rows % PROGRESS_ROWS == 0:
            log.info("%d rows read", found.rows)
        name = f"{file.name} byte {offset}"
        try:
            pair, positives = parse(line, file.volumes)
            if shows and not (pair.query.images or pair.target.images):
                raise BadRowError("shows no picture, as rows of its task do")
            length = max(adapter.tokens(side, size_of) for side in pair.rendered(adapter))
        except BadRowError as error:
            found.leave_out(str(error), name)
            continue
        except MedhebError as error:
            log.info("%s: %s", name, error.fault)
            found.leave_out("an image or text that the model cannot take", name)
            continue
        if length > options.batches.longest:
            found.leave_out(f"longer than {options.batches.longest} tokens", name)
            continue
        found.several += positives > 1
        found.file.append(number)
        found.offset.append(offset)
        found.length.append(length)


def _sizes(run: Run, file: TrainingFile) -> Callable[[ImageRef], tuple[int, int]]:
    """Sizes of pictures from the inventories of a task's sources; where they do not say, from the file's header."""
    known: dict[str, tuple[int, int]] = {}
    for source in run.tasks[file.task].sources:
        dataset = run.datasets[source]
        path = run.layout.inventory(dataset.images, source)
        for one in files_of(path, read_header(path)):
            width, height = one.facts.get("width"), one.facts.get("height")
            if isinstance(width, int) and isinstance(height, int):
                for full in layout_paths(dataset.images, dataset.places, one.path):
                    known[full] = (width, height)
    reader = ImageReader(run.layout.benchmark)

    def size_of(ref: ImageRef) -> tuple[int, int]:
        return known.get(ref.path) or reader.size(ref)

    return size_of


def _capped(files: Sequence[TrainingFile], found: _Found, caps: dict[str, int], seed: int) -> set[int] | None:
    """Pairs that are kept where sources have caps; None if none is left out. A keyed hash chooses."""
    if not caps:
        return None
    by_source: dict[str, list[int]] = {}
    for pair, number in enumerate(found.file):
        by_source.setdefault(files[number].source, []).append(pair)
    keep: set[int] = set()
    for source, pairs in by_source.items():
        cap = caps.get(source)
        if cap is not None and cap < len(pairs):
            pairs = sorted(pairs, key=lambda pair: _draw(seed, files[found.file[pair]].name, found.offset[pair]))[:cap]
        keep.update(pairs)
    return keep


def _draw(seed: int, name: str, offset: int) -> bytes:
    return blake2b(f"{seed} {name} {offset}".encode(), digest_size=16).digest()


def _digest_of(table: pa.Table) -> str:
    return json_digest([[name, *table.column(name).to_pylist()] for name in table.column_names])


@dataclass(frozen=True)
class Batched:
    """A plan ready for training: where each pair lies, and the pairs of each batch."""

    plan: Plan
    file: Sequence[int]
    offset: Sequence[int]
    batches: list[list[int]]

    def name(self, pair: int) -> str:
        """File and byte of a pair, for messages."""
        return f"{self.plan.files[self.file[pair]].name} byte {self.offset[pair]}"


def current_plan(run: Run, size: str) -> Plan:
    """The plan of a size, if what it was made from is still there as it was.

    Raises:
        MedhebError: missing or damaged; other weights of the base model, or other rows, than were planned with.
    """
    path = run.layout.medemb(size) / "plan.json"
    plan = validate(Plan, read_json(path, PLAN_AGAIN), path)
    model = base_model(run, size)
    if (plan.base, plan.weights) != (model.id, json_digest(weights_digest(model, run.layout))):
        raise MedhebError(path, f"was made with other weights than those of {model.id} now", PLAN_AGAIN)
    for file in plan.files:
        rows = run.layout.train_data / file.name
        if not rows.is_file() or sha256_file(rows) != file.sha256:
            raise MedhebError(rows, "is not the file that was planned with", PLAN_AGAIN)
    return plan


def read_plan(folder: Path) -> Batched:
    """Read a plan and its batches.

    Raises:
        MedhebError: missing, damaged, or table and JSON do not belong together.
    """
    again = PLAN_AGAIN
    plan = validate(Plan, read_json(folder / "plan.json", again), folder / "plan.json")
    path = folder / "plan.parquet"
    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowException) as error:
        raise MedhebError(path, f"cannot be read ({str(error).splitlines()[0]})", again) from error
    if _digest_of(table) != plan.table:
        raise MedhebError(path, "is not the table that plan.json vouches for", again)
    batches: list[list[int]] = [[] for _ in range(plan.batches)]
    for pair, batch in enumerate(table.column("batch").to_pylist()):
        batches[batch].append(pair)
    return Batched(plan, table.column("file").to_pylist(), table.column("offset").to_pylist(), batches)
