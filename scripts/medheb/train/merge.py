"""From a trained adapter to a model of ``models.yaml``: merged weights, a model card, and the entry to add."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import yaml

from medheb.core.errors import MedhebError
from medheb.core.files import atomic_folder, write_text
from medheb.manifest.base import read_json, validate
from medheb.manifest.load import Run
from medheb.manifest.model import Model, ModelList
from medheb.models.lora import with_adapter
from medheb.models.networks import folder_of as weights_folder
from medheb.train.checkpoint import Position
from medheb.train.plan import Plan, base_model
from medheb.train.run import folder_of

# Beside the weights: what a tokenizer, an image processor and a configuration are made of.
PROCESSING = ("*.json", "*.jinja", "*.txt", "*.model")
NOT_PROCESSING = ("model.safetensors.index.json", "adapter_config.json")


def merge(run: Run, size: str) -> Path:
    """Write ``merged/`` (a checkpoint as the hub lays them out), with ``README.md`` and ``entry.yaml``.

    Raises:
        MedhebError: no finished training, or weights that do not fit.
    """
    from transformers import Qwen3VLModel

    from medheb.models.devices import place
    from medheb.models.hub_weights import load_network

    folder = folder_of(run, size)
    training = read_json(folder / "training.json", f"Train first: `medheb train fit {size}`")
    if not isinstance(training, dict):
        raise MedhebError(folder / "training.json", "is no JSON object", f"Train again: `medheb train fit {size}`")
    position = validate(Position, {name: value for name, value in training.items() if name != "size"}, folder)
    model = base_model(run, size)
    base = weights_folder(model, run.layout)
    settings: Any = model.adapter
    network: Any = load_network(Qwen3VLModel, base, place(settings.dtype, "sdpa", "cpu"), ("lm_head.",))
    network = with_adapter(network, folder / "adapter")
    target = folder / "merged"
    with atomic_folder(target) as staging:
        network.save_pretrained(staging, safe_serialization=True)
        for pattern in PROCESSING:
            for path in sorted(base.glob(pattern)):
                if path.name not in NOT_PROCESSING and not (staging / path.name).exists():
                    shutil.copyfile(path, staging / path.name)
        plan = validate(Plan, read_json(folder / "plan.json", "Plan again"), folder / "plan.json")
        write_text(staging / "README.md", card(run, size, model, plan, position))
        write_text(staging / "entry.yaml", entry_text(size, model, plan, target))
    return target


def entry_text(size: str, model: Model, plan: Plan, folder: Path) -> str:
    """The entry for ``models.yaml``: the base model's settings with the merged weights.

    Raises:
        MedhebError: it would not be a valid entry.
    """
    adapter = model.adapter.model_dump(mode="json", exclude_defaults=True)
    adapter = {name: value for name, value in adapter.items() if name not in ("weights", "lora")}
    adapter["weights"] = {"kind": "folder", "path": str(folder.resolve())}
    entry = {
        "id": f"medemb_{size}_rebuilt",
        "title": f"MedEmb-{size.upper()}, rebuilt",
        "note": f"Trained from {model.id} on the rebuilt training rows; its card lies beside the weights.",
        "facts": {"train_sources": sorted({file.source for file in plan.files})},
        "adapter": {"name": model.adapter.name, **adapter},
    }
    validate(ModelList, {"models": [entry]}, "entry.yaml")
    return yaml.safe_dump({"models": [entry]}, sort_keys=False, allow_unicode=True, width=110)


def card(run: Run, size: str, model: Model, plan: Plan, position: Position) -> str:
    """The model card, from what the run wrote down."""
    options = run.config.medemb
    files = "\n".join(f"| {file.source} | {file.task} | `{file.sha256}` |" for file in plan.files)
    left = "\n".join(f"- {count} rows: {reason}" for reason, count in plan.left_out.items()) or "- none"
    settings = json.dumps(options.model_dump(mode="json", exclude={"bases", "sizes"}), indent=1, sort_keys=True)
    return f"""# MedEmb-{size.upper()}, rebuilt

A retrieval embedding model for medical images, volumes and text: LoRA on `{model.id}`, merged into its weights.
Rebuilt with the MedHEB workflow after the paper's description; the authors' own training code is not published, so
settings that the paper does not give are this workflow's choices. Not for clinical use.

- protocol of the data: {run.protocol.name}; seed {plan.seed}
- {plan.pairs} pairs of {plan.rows} rows in {plan.batches} batches, {position.steps} steps, {position.seconds:.0f} s
- padded tokens over real ones: {position.padded_tokens / max(position.tokens, 1):.3f}
- digest of rows, base model and batches: `{plan.digest}`
- left out while planning:
{left}
- left out while training: {position.skipped} rows

## Training rows
| source | task | sha256 of its rows |
|---|---|---|
{files}

Held-out sources of the benchmark are not among them. Licences and terms of the sources apply to what is done with the
weights; credentialed sources may forbid giving them away.

## Settings
```json
{settings}
```
"""
