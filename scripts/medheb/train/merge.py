"""From a trained adapter to a model of ``models.yaml``: merged weights, a model card, and the entry to add."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import yaml
from safetensors import SafetensorError

from medheb.core.errors import MedhebError
from medheb.core.files import atomic_folder, write_text
from medheb.manifest.base import read_json, validate
from medheb.manifest.load import Run
from medheb.manifest.model import Model, ModelList
from medheb.models.lora import with_adapter
from medheb.models.networks import folder_of as weights_folder
from medheb.train.checkpoint import Finished
from medheb.train.plan import Plan, base_model, current_plan
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
    path, again = folder / "training.json", f"Train again: `medheb train fit {size}`"
    training = read_json(path, f"Train first: `medheb train fit {size}`")
    if not isinstance(training, dict):
        raise MedhebError(path, "is no JSON object", again)
    end = validate(Finished, training, path)
    model = base_model(run, size)
    plan = current_plan(run, size)
    if end.plan != plan.digest:
        raise MedhebError(path, "is of another plan than plan.json", again)
    base = weights_folder(model, run.layout)
    settings: Any = model.adapter
    network: Any = load_network(Qwen3VLModel, base, place(settings.dtype, "sdpa", "cpu"), ("lm_head.",))
    network = with_adapter(network, folder / "adapter")
    target = folder / "merged"
    try:
        with atomic_folder(target) as staging:
            network.save_pretrained(staging, safe_serialization=True)
            for source in _processing(base):
                if not (staging / source.name).exists():
                    shutil.copyfile(source, staging / source.name)
            write_text(staging / "README.md", card(run, size, model, plan, end))
            write_text(staging / "entry.yaml", entry_text(size, model, plan, target))
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise MedhebError(target, f"cannot be written ({reason})", "Free some space and merge again") from error
    return target


def _processing(base: Path) -> list[Path]:
    """Files of a checkpoint that say how its inputs are made."""
    found = [path for pattern in PROCESSING for path in sorted(base.glob(pattern))]
    return [path for path in found if path.name not in NOT_PROCESSING]


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


def card(run: Run, size: str, model: Model, plan: Plan, end: Finished) -> str:
    """The model card, from what the run wrote down."""
    options = run.config.medemb
    files = "\n".join(f"| {file.source} | {file.task} | `{file.sha256}` | `{file.root}` |" for file in plan.files)
    left = "\n".join(f"- {count} rows: {reason}" for reason, count in plan.left_out.items()) or "- none"
    settings = json.dumps(
        options.model_dump(mode="json", exclude={"bases", "sizes", "ranks", "nodes", "workers"}),
        indent=1,
        sort_keys=True,
    )
    return f"""# MedEmb-{size.upper()}, rebuilt

A retrieval embedding model for medical images, volumes and text: LoRA on `{model.id}`, merged into its weights.
Rebuilt with the MedHEB workflow after the paper's description; the authors' own training code is not published, so
settings that the paper does not give are this workflow's choices. Not for clinical use.

- protocol of the data: {run.protocol.name}; seed {plan.seed}
- {plan.pairs} pairs of {plan.rows} rows in {plan.batches} batches
- {end.steps} steps on {end.ranks} ranks, {end.seconds:.0f} s
- number format of the base model's weights: {end.number_format}; the adapter was trained in float32
- versions: {", ".join(f"{name} {found}" for name, found in end.versions.items())}
- padded tokens over real ones: {end.padded_tokens / max(end.tokens, 1):.3f}
- digest of the base model's weights: `{plan.weights}`
- digest of rows, pictures, base model and batches: `{plan.digest}`
- rows with several positives, of which the first is used: {plan.several_positives}
- left out while planning:
{left}
- left out while training: {end.skipped} rows

## Training rows
| source | task | sha256 of its rows | data root of its sources (level L2) |
|---|---|---|---|
{files}

Held-out sources of the benchmark are not among them. Licences and terms of the sources apply to what is done with the
weights; credentialed sources may forbid giving them away.

## Settings
```json
{settings}
```
"""
