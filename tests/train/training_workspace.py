"""The tiny benchmark's code list with a training part, and a tiny model to start from: for tests through Snakemake."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import yaml

sys.path.append(str(Path(__file__).parents[1] / "models"))
from tiny_checkpoints import make_qwen3vl

MERGED = "results/medemb/tiny/merged/README.md"


def with_training(folder: Path, **medemb: object) -> Path:
    """Give a workspace of the tiny benchmark training rows, a model and settings; the weights lie outside of it."""
    sets = folder / "manifests" / "tiny"
    tasks = sets / "tasks.tsv"
    rows = tasks.read_text().splitlines()
    tasks.write_text(
        "".join(
            f"{row.replace('text_pairs', 'text_pairs_drawn') if row.startswith('Codes_t2t') else row}\n" for row in rows
        )
    )
    weights = make_qwen3vl(folder / "weights")
    entry = {
        "id": "tiny",
        "title": "Tiny Qwen3-VL",
        "adapter": {
            "name": "qwen3vl",
            "weights": {"kind": "folder", "path": "weights"},
            "volume_pixels": 131072,
            "image_pixels": [1024, 16384],
        },
    }
    register(folder, entry)
    options = {
        "bases": {"tiny": "tiny"},
        "sizes": ["tiny"],
        "ranks": 2,
        "workers": 0,
        "learning_rate": 5e-3,
        "batches": {"nominal_pairs": 2, "longest": 256, "most_pairs": 4, "open_batches": 1},
        **medemb,
    }
    config = folder / "config" / "config.yaml"
    content = yaml.safe_load(config.read_text())
    config.write_text(yaml.safe_dump(content | {"datasets": ["codes"], "medemb": options}))
    assert weights.is_dir()
    return folder


def register(folder: Path, entry: dict[str, object]) -> None:
    """Add a model to a workspace."""
    models = folder / "manifests" / "tiny" / "models.yaml"
    content = yaml.safe_load(models.read_text())
    models.write_text(yaml.safe_dump({"models": [*content["models"], entry]}))


def trained(folder: Path) -> dict[str, object]:
    """What a finished training wrote down, without times."""
    content: dict[str, object] = json.loads((folder / "results/medemb/tiny/training.json").read_text())
    del content["seconds"]
    return content
