"""The training job: one epoch over the planned batches, on one or several ranks, resumable at any checkpoint.

Ranks are those of ``accelerate`` (started by torchrun, which ``medheb train fit`` calls itself where it sees several
GPUs). Each rank takes every n-th batch of the plan; gradients are averaged by the library's data parallelism.
"""

from __future__ import annotations

import logging
import math
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from medheb.core.errors import MedhebError
from medheb.core.files import write_json
from medheb.embed.devices import choose_device, worker_count
from medheb.embed.stopping import TERMINATED, stop_request
from medheb.index.records import Item
from medheb.manifest.load import Run
from medheb.manifest.medemb import Lora, MedEmb
from medheb.manifest.model import Model
from medheb.models.base import Adapter, Prepared
from medheb.models.load import load_adapter, load_encoder
from medheb.train.batching import steps
from medheb.train.checkpoint import SPACE, Checkpoints, Finished, Position, damaged, json_config, restore, write_adapter
from medheb.train.gather import gathered
from medheb.train.loss import info_nce
from medheb.train.plan import Batched, base_model, current_plan, read_plan
from medheb.train.reading import ReadBatch, Reading, read_ahead
from medheb.train.settings import learning_rate, settings_digest, versions
from medheb.train.sides import Sides, padded_tokens

if TYPE_CHECKING:
    from accelerate import Accelerator

log = logging.getLogger("medheb.train")
LOG_SECONDS = 30.0
NAMED = 5


@dataclass
class _Training:
    """What a rank works with."""

    plan: Batched
    options: MedEmb
    adapter: Adapter
    sides: Any
    network: Any
    accelerator: Accelerator
    optimizer: torch.optim.Optimizer
    spare: Prepared

    @property
    def parameters(self) -> list[torch.nn.Parameter]:
        """The parameters that are trained."""
        return [parameter for parameter in self.network.parameters() if parameter.requires_grad]


def folder_of(run: Run, size: str) -> Path:
    """Where plan, checkpoints and results of one size lie."""
    return run.layout.medemb(size)


def fit(run: Run, size: str, threads: int = 1) -> Position:
    """Train, from the newest checkpoint if there is one; the adapter and ``training.json`` come last.

    Args:
        run: its training rows have been planned.
        size: of the reference model.
        threads: cores of this process.

    Raises:
        MedhebError: a plan, weights or checkpoint that cannot be used, or a loss that is not a number.
        SystemExit: the job was asked to end; a checkpoint was written.
    """
    from accelerate import Accelerator
    from accelerate.utils import set_seed

    options, folder = run.config.medemb, folder_of(run, size)
    model = base_model(run, size)
    current_plan(run, size)
    plan = read_plan(folder)
    checkpoints = Checkpoints(folder / "checkpoints")
    settings = settings_digest(options, model)
    newest = checkpoints.newest(plan.plan.digest, settings)
    on_cpu = choose_device(run.config.embed.device, int(os.environ.get("LOCAL_RANK", "0"))) == "cpu"
    accelerator = Accelerator(cpu=on_cpu)
    set_seed(run.config.seed)
    training = _prepared(run, model, plan, options, accelerator)
    position = Position(plan=plan.plan.digest, settings=settings)
    if newest is not None:
        position = newest[1]
        _load(training, newest[0])
        log.info("going on after %d of %d batches", position.batches, len(plan.batches))
    embed = run.config.embed.model_copy(update={"workers": options.workers})
    workers = worker_count(embed, str(accelerator.device), threads, len(plan.file))
    position = _epoch(run, training, position, checkpoints, workers)
    if accelerator.is_main_process:
        facts = {"ranks": accelerator.num_processes, "versions": versions(), "number_format": _format(training)}
        end = Finished.model_validate(position.model_dump(exclude={"losses"}) | facts | {"size": size})
        try:
            write_adapter(folder / "adapter", checkpoints.all()[-1])
            write_json(folder / "training.json", end.model_dump(mode="json", exclude={"losses"}))
        except OSError as error:
            raise MedhebError(folder, f"cannot be written ({error.strerror})", SPACE) from error
    accelerator.wait_for_everyone()
    return position


def _format(training: _Training) -> str:
    """Number format of the network's own weights; the adapter is float32."""
    weights = (weight for weight in training.network.parameters() if not weight.requires_grad)
    return str(next(weights).dtype).removeprefix("torch.")


def lora_settings(lora: Lora) -> Any:
    """The configuration of ``peft``."""
    from peft import LoraConfig

    return LoraConfig(
        r=lora.rank, lora_alpha=lora.alpha, lora_dropout=lora.dropout, target_modules=list(lora.targets), bias="none"
    )


def _prepared(run: Run, model: Model, plan: Batched, options: MedEmb, accelerator: Accelerator) -> _Training:
    from peft import get_peft_model

    adapter = load_adapter(model, run.layout)
    encoder: Any = load_encoder(model, run.layout, str(accelerator.device))
    network: Any = encoder.network
    if options.gradient_checkpointing:
        network.activation_checkpointing_enable()
    try:
        wrapped: Any = get_peft_model(network, lora_settings(options.lora))
    except ValueError as error:
        raise MedhebError("medemb.lora.targets", f"name no layer of {model.id} ({error})", "Correct them") from error
    wrapped.train()
    trained = [parameter for parameter in wrapped.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=options.learning_rate, weight_decay=options.weight_decay)
    encoder.network = wrapped
    sides, optimizer = accelerator.prepare(Sides(encoder), optimizer)
    spare = adapter.prepare(adapter.render(Item("text", "", ()), "", "query", ()), _no_image)
    return _Training(plan, options, adapter, sides, wrapped, accelerator, optimizer, spare)


def _no_image(_: Any) -> Any:
    raise AssertionError("a text has no image")


def _load(training: _Training, checkpoint: Path) -> None:
    from peft import set_peft_model_state_dict

    optimizer = getattr(training.optimizer, "optimizer", training.optimizer)
    tensors = restore(checkpoint, optimizer)
    result: Any = set_peft_model_state_dict(training.network, tensors)
    lost = [*result.unexpected_keys, *(name for name in result.missing_keys if "lora_" in name)]
    if lost:
        raise damaged(checkpoint, f"it is of another network, the first difference is {lost[0]}")


def _save(training: _Training, position: Position, checkpoints: Checkpoints) -> None:
    from peft import get_peft_model_state_dict

    fault: MedhebError | None = None
    if training.accelerator.is_main_process:
        config = json_config(training.network.peft_config["default"])
        optimizer = getattr(training.optimizer, "optimizer", training.optimizer)
        try:
            checkpoints.save(position, get_peft_model_state_dict(training.network), config, optimizer)
        except MedhebError as error:
            fault = error
    failed = training.accelerator.gather(torch.tensor([int(fault is not None)], device=training.accelerator.device))
    if int(failed.max()):
        raise fault or MedhebError("rank 0", "could not write a checkpoint", "See its message")


def _epoch(run: Run, training: _Training, position: Position, checkpoints: Checkpoints, workers: int) -> Position:
    """All batches from ``position`` on; returns the position at the end, which is saved."""
    accelerator, batches = training.accelerator, training.plan.batches
    todo = list(steps(batches, accelerator.num_processes, position.batches))
    mine = [step[accelerator.process_index] for step in todo]
    reading = Reading(training.plan, mine, run.layout.train_data, run.layout.benchmark, training.adapter)
    started = saved = shown = time.monotonic()
    before = position.seconds
    losses: list[tuple[int, float]] = []
    with stop_request() as stop:
        for step, batch in zip(todo, read_ahead(reading, workers), strict=True):
            done = min(len(batches), position.batches + len(step))
            torch.manual_seed(_seed(run.config.seed, position.batches, accelerator.process_index))
            outcome = _step(training, batch, position.batches / len(batches), stop.asked)
            losses.append((done, outcome.loss))
            now = time.monotonic()
            position = position.model_copy(
                update={
                    "batches": done,
                    "steps": position.steps + 1,
                    "pairs": position.pairs + outcome.pairs,
                    "tokens": position.tokens + outcome.tokens,
                    "padded_tokens": position.padded_tokens + outcome.padded,
                    "skipped": position.skipped + outcome.skipped,
                    "seconds": round(before + now - started, 1),
                }
            )
            due = accelerator.gather(torch.tensor([now - saved], device=accelerator.device)).max()
            if done == len(batches) or outcome.stop or float(due) >= 60 * training.options.checkpoint_minutes:
                position = position.model_copy(update={"losses": tuple(losses)})
                _save(training, position, checkpoints)
                losses, saved = [], time.monotonic()
            if accelerator.is_main_process and (now - shown >= LOG_SECONDS or done == len(batches)):
                left = (now - started) / (done - len(batches) + sum(map(len, todo))) * (len(batches) - done)
                log.info(
                    "%d/%d batches, loss %.4f, %.0f tokens/s, %.0f s left",
                    done,
                    len(batches),
                    outcome.loss,
                    position.tokens / max(position.seconds, 1e-3),
                    left,
                )
                shown = now
            if outcome.stop:
                raise SystemExit(TERMINATED)
    return position


def _seed(seed: int, batches: int, rank: int) -> int:
    """Of what a step draws (dropout): by its place, so that a checkpoint needs no state of any rank's generators."""
    return int.from_bytes(blake2b(f"{seed} {batches} {rank}".encode(), digest_size=8).digest(), "big") >> 1


@dataclass(frozen=True)
class _Outcome:
    """One step over all ranks."""

    loss: float
    pairs: int
    tokens: int
    padded: int
    skipped: int
    stop: bool


def _step(training: _Training, batch: ReadBatch, part: float, stop: bool) -> _Outcome:
    """One step of the optimizer.

    Raises:
        MedhebError: the loss or its gradient is not finite; names the pairs.
    """
    accelerator = training.accelerator
    for name, fault in batch.skipped:
        log.warning("skipped %s: %s", name, fault)
    loss_sum, inputs = _loss(training, batch)
    lengths = [side.tokens for side in inputs]
    mine = torch.tensor(
        [
            float(loss_sum.detach()),
            len(batch.queries),
            sum(lengths),
            padded_tokens(lengths),
            len(batch.skipped),
            int(stop),
        ],
        dtype=torch.float64 if accelerator.device.type == "cpu" else torch.float32,
        device=accelerator.device,
    )
    all_ranks = accelerator.gather(mine).reshape(-1, len(mine)).double().cpu()
    total, pairs, tokens, padded, skipped, asked = (float(value) for value in all_ranks.sum(0))
    if not math.isfinite(total):
        mine_bad = not math.isfinite(float(loss_sum.detach()))
        raise _no_number("loss", _these(batch.names) if mine_bad else "on another rank")
    if pairs:
        for group in training.optimizer.param_groups:
            group["lr"] = learning_rate(training.options, part)
        # The library averages over ranks, so each rank's sum is divided by its share of all pairs.
        accelerator.backward(loss_sum * accelerator.num_processes / pairs)
        norm = accelerator.clip_grad_norm_(training.parameters, training.options.clip_norm)
        # The norm is that of all ranks together: all of them stop, before the weights are spoilt.
        if norm is not None and not math.isfinite(float(norm)):
            raise _no_number("gradient", f"{_these(batch.names)}, or rows of another rank")
        training.optimizer.step()
        training.optimizer.zero_grad(set_to_none=True)
    return _Outcome(total / max(pairs, 1), int(pairs), int(tokens), int(padded), int(skipped), asked > 0)


def _these(names: Sequence[str]) -> str:
    """The first rows of a batch in words; the log gets all of them."""
    for name in names:
        log.error("in the batch: %s", name)
    more = f" and {len(names) - NAMED} more, named in the log" if len(names) > NAMED else ""
    return f"with {', '.join(names[:NAMED])}{more}"


def _no_number(what: str, where: str) -> MedhebError:
    remedy = "Look at these rows, or lower medemb.learning_rate; the last checkpoint is kept"
    return MedhebError("training", f"has a {what} that is not a number, {where}", remedy)


def _loss(training: _Training, batch: ReadBatch) -> tuple[Tensor, Sequence[Prepared]]:
    """Sum of the losses of this rank's queries, and what was encoded for it."""
    inputs: list[Prepared] = [*batch.queries, *batch.targets]
    # A rank whose batch is empty still takes part in every exchange of the others, with a text that weighs nothing.
    vectors = training.sides(inputs or [training.spare])
    count = len(batch.queries)
    queries, targets = vectors[:count], vectors[count:] if count else vectors[:0]
    keys = torch.tensor(batch.keys, dtype=torch.int64, device=vectors.device)
    everyone = gathered(targets, keys)
    if not count:
        return vectors.sum() * 0.0 + everyone.targets.sum() * 0.0, inputs
    places = torch.arange(count, device=vectors.device) + everyone.first
    equal = keys[:, None] == everyone.keys[None] if training.options.mask_equal_targets else None
    options = training.options
    loss = info_nce(
        queries,
        everyone.targets,
        places,
        temperature=options.temperature,
        margin=options.margin,
        margin_on=options.margin_on,
        equal=equal,
    )
    return loss, inputs
