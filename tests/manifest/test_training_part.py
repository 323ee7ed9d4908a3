"""Large training parts: in the manifest, and fetched only where the configuration asks for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from medheb.core.errors import MedhebError
from medheb.manifest.config import Config
from medheb.manifest.dataset import Dataset
from medheb.manifest.hosts import HuggingFaceHost
from medheb.manifest.load import Run, load_datasets, load_run

ROOT = Path(__file__).resolve().parents[2]
SOURCES = load_datasets(ROOT / "manifests" / "datasets")


@pytest.fixture(autouse=True)
def _at_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def run_with(training: Any) -> Run:
    return load_run(Config(manifests="manifests", training=training))


def test_only_what_is_asked_for_is_fetched() -> None:
    assert run_with(()).datasets == SOURCES
    asked = run_with(("isic_2019", "ct_rate")).datasets
    changed = {name for name, dataset in asked.items() if dataset != SOURCES[name]}
    assert changed == {"isic_2019", "ct_rate"}
    everything = run_with("all").datasets
    large = {name for name, dataset in SOURCES.items() if dataset.training}
    assert {name for name, dataset in everything.items() if dataset != SOURCES[name]} == large
    # Sources of held-out tasks are never trained on.
    assert large.isdisjoint({"chexpert_plus", "lc25000", "omnimedvqa", "brats_men", "rfmid"})


def test_files_patterns_members_and_sizes_are_added() -> None:
    asked = run_with("all").datasets
    files = [file.path for file in asked["isic_2019"].files]
    assert files[-2:] == ["ISIC_2019_Training_GroundTruth.csv", "ISIC_2019_Training_Input.zip"]
    assert asked["isic_2019"].download_bytes == 3_600_000_000 + 9_100_000_000
    host = asked["ct_rate"].host
    assert isinstance(host, HuggingFaceHost)
    assert {"dataset/valid_fixed/*_1.nii.gz", "dataset/train_fixed/*_1.nii.gz"} <= set(host.include)
    assert any(rule.startswith("dataset/train_fixed/") for rule in host.names)
    assert asked["ct_rate"].cases == 1564 + 24128
    assert asked["ct_rate"].download_bytes is None
    mrnet = asked["mrnet"].unpack
    assert mrnet is not None
    assert {"*train/axial/*.npy", "*valid/axial/*.npy"} <= set(mrnet.include)
    assert mrnet.max_bytes == 60_000_000_000


def test_a_source_without_one_is_refused() -> None:
    with pytest.raises(MedhebError, match=r"key 'training' is 'kvasir'.*isic_2019"):
        run_with(("kvasir",))


@pytest.mark.parametrize(
    ("name", "part", "fault"),
    [
        ("kvasir", {"include": ["*"]}, "host of kind huggingface only"),
        ("pmc_vqa", {}, "what the training part needs"),
        ("path_vqa", {"unpack": ["*"]}, "where there is unpack"),
    ],
)
def test_parts_that_cannot_be_are_refused(name: str, part: dict[str, Any], fault: str) -> None:
    content = yaml.safe_load((ROOT / "manifests" / "datasets" / f"{name}.yaml").read_text())
    content["training"] = {**part, "note": "far too large"}
    with pytest.raises(ValidationError, match=fault):
        Dataset.model_validate(content)
