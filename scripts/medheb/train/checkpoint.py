"""Checkpoints: adapter, optimizer and position in one folder that appears whole or not at all.

No pickle: tensors are safetensors, the rest is JSON. The folder's name is the number of batches done, from which the
rate and all that a step draws follow. The two newest are kept, so a full disk or a kill while saving never costs the
last good one.
"""

from __future__ import annotations

import json
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from medheb.core.errors import MedhebError
from medheb.core.files import atomic_folder, write_json
from medheb.manifest.base import Strict, read_json, validate

KEPT = 2
STATE, OPTIMIZER, ADAPTER = "state.json", "optimizer.safetensors", "adapter_model.safetensors"
SPACE = "Free some space and start again: training goes on from the last checkpoint"


class Position(Strict):
    """``state.json``: where training stands.

    ``batches`` count from the start of the epoch, whatever the number of GPUs; ``losses`` are the means of the steps
    since the last checkpoint, with the batch at which each ended.
    """

    plan: str
    settings: str
    batches: int = 0
    steps: int = 0
    pairs: int = 0
    tokens: int = 0
    padded_tokens: int = 0
    seconds: float = 0.0
    skipped: int = 0
    losses: tuple[tuple[int, float], ...] = ()


class Finished(Position):
    """``training.json``: the end of a training, and what it ran with when it came there."""

    size: str
    ranks: int
    number_format: str
    versions: dict[str, str]


@dataclass(frozen=True)
class Checkpoints:
    """The checkpoints of one training, in a folder.

    Args:
        folder: one folder below it a checkpoint.
    """

    folder: Path

    def all(self) -> list[Path]:
        """Whole checkpoints, the oldest first."""
        if not self.folder.is_dir():
            return []
        return sorted(path for path in self.folder.iterdir() if path.name.isdigit() and (path / STATE).is_file())

    def save(
        self, position: Position, adapter: dict[str, torch.Tensor], config: dict[str, Any], optimizer: Any
    ) -> None:
        """Write a checkpoint, then take away all but the newest.

        Args:
            position: where training stands.
            adapter: tensors of the LoRA adapter as ``peft`` names them.
            config: ``adapter_config.json``.
            optimizer: whose state is kept.

        Raises:
            MedhebError: it cannot be written; earlier checkpoints are as they were.
        """
        target = self.folder / f"{position.batches:09d}"
        try:
            with atomic_folder(target) as staging:
                save_file(_on_cpu(adapter), staging / ADAPTER)
                write_json(staging / "adapter_config.json", config)
                save_file(_optimizer_tensors(optimizer), staging / OPTIMIZER)
                write_json(staging / STATE, position.model_dump(mode="json"))
        except (OSError, SafetensorError) as error:
            reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
            raise MedhebError(target, f"cannot be written ({reason}); earlier checkpoints are kept", SPACE) from error
        for old in self.all()[:-KEPT]:
            shutil.rmtree(old, ignore_errors=True)

    def newest(self, plan: str, settings: str) -> tuple[Path, Position] | None:
        """The newest checkpoint, if there is one.

        Raises:
            MedhebError: it is damaged, or of another plan or other settings.
        """
        found = self.all()
        if not found:
            return None
        path = found[-1]
        try:
            position = validate(Position, read_json(path / STATE, ""), path / STATE)
        except MedhebError as error:
            raise damaged(path, f"{STATE} {error.fault}") from error
        for was, now, what in (
            (position.plan, plan, "training rows, base model or batches"),
            (position.settings, settings, "settings"),
        ):
            if was != now:
                anew = f"To train anew, delete all checkpoints, `{removal(self.folder)}`, and run the same again"
                raise MedhebError(
                    path, f"belongs to other {what}", f"{anew}. To go on with it, restore what was changed"
                )
        return path, position


def removal(folder: Path) -> str:
    """The command that deletes a folder."""
    return f"rm -r {shlex.quote(str(folder))}"


def damaged(path: Path, why: str) -> MedhebError:
    """What is said of a checkpoint that cannot be used."""
    remedy = (
        f"Delete it, `{removal(path)}`, and run the same again: training goes on from the one before, if there is one"
    )
    return MedhebError(path, f"is damaged ({why})", remedy)


def restore(path: Path, optimizer: Any) -> dict[str, torch.Tensor]:
    """The adapter's tensors of a checkpoint; the optimizer is set.

    Raises:
        MedhebError: a file that is damaged, or an optimizer of other parameters.
    """
    try:
        adapter: dict[str, torch.Tensor] = load_file(path / ADAPTER)
        _load_optimizer(optimizer, load_file(path / OPTIMIZER))
    except (OSError, SafetensorError, KeyError, ValueError, RuntimeError) as error:
        raise damaged(path, str(error).splitlines()[0]) from error
    return adapter


def _on_cpu(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}


def _optimizer_tensors(optimizer: Any) -> dict[str, torch.Tensor]:
    """Moments and step counts by number of parameter: ``0.exp_avg``, ``0.step`` ..."""
    state = optimizer.state_dict()["state"]
    return _on_cpu(
        {
            f"{number}.{name}": torch.as_tensor(value)
            for number, values in state.items()
            for name, value in values.items()
        }
    )


def _load_optimizer(optimizer: Any, tensors: dict[str, torch.Tensor]) -> None:
    content = optimizer.state_dict()
    state: dict[int, dict[str, torch.Tensor]] = {}
    for name, tensor in tensors.items():
        number, _, what = name.partition(".")
        state.setdefault(int(number), {})[what] = tensor
    parameters = [number for group in content["param_groups"] for number in group["params"]]
    if not state:  # saved before the first step with a readable pair: nothing was learned yet
        return
    if sorted(state) != sorted(parameters):
        raise ValueError(f"holds {len(state)} parameters of {len(parameters)}")
    optimizer.load_state_dict({"state": state, "param_groups": content["param_groups"]})


def write_adapter(folder: Path, checkpoint: Path) -> None:
    """Copy the adapter of a checkpoint to ``folder``, whole or not at all."""
    with atomic_folder(folder) as staging:
        for name in (ADAPTER, "adapter_config.json"):
            shutil.copyfile(checkpoint / name, staging / name)


def json_config(config: Any) -> dict[str, Any]:
    """``adapter_config.json`` of a ``peft`` configuration: plain, sorted, without paths of this machine."""
    content: dict[str, Any] = json.loads(json.dumps(config.to_dict(), default=_plain))
    content["base_model_name_or_path"] = None
    return content


def _plain(value: Any) -> Any:
    return sorted(value) if isinstance(value, set) else str(getattr(value, "value", value))
