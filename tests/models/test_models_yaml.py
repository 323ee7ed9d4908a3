"""The ten models of the paper: what their entries say, and what a protocol makes of them."""

import csv
from pathlib import Path

import pytest
import yaml

from medheb.core.errors import MedhebError
from medheb.manifest.base import validate
from medheb.manifest.load import load_config, load_datasets, load_models, load_run, load_tasks
from medheb.manifest.model import Model
from medheb.manifest.networks import Blip2Adapter, NetworkAdapter, Qwen2VLAdapter, Qwen3VLAdapter
from medheb.manifest.protocol import Protocol
from medheb.manifest.resolve import resolved
from medheb.manifest.weights import HubWeights

ROOT = Path(__file__).resolve().parents[2]
MANIFESTS = ROOT / "manifests"


@pytest.fixture(scope="module")
def models() -> dict[str, Model]:
    return load_models(MANIFESTS / "models.yaml")


def protocol(name: str) -> Protocol:
    path = MANIFESTS / "protocols" / f"{name}.yaml"
    return validate(Protocol, yaml.safe_load(path.read_text()), path)


def under(name: str, models: dict[str, Model]) -> dict[str, Model]:
    return resolved(models, protocol(name), {}, MANIFESTS / "models.yaml")


def test_they_are_the_ten_of_the_published_results(models: dict[str, Model]) -> None:
    with (MANIFESTS / "published" / "models.csv").open(encoding="utf-8") as stream:
        published = {row["model"]: row["title"] for row in csv.DictReader(stream)}
    real = {key: model.title for key, model in models.items() if not model.canary}
    assert real == published
    assert len(real) == 10


def test_every_real_model_says_what_planning_needs(models: dict[str, Model]) -> None:
    for model in models.values():
        if model.canary:
            continue
        facts = model.facts
        assert facts.dimension, model.id
        assert facts.parameters, model.id
        assert facts.gpu_gigabytes, model.id
        assert facts.gpu_seconds, model.id
        assert facts.citation, model.id
        assert facts.train_note, model.id
        # bfloat16 weights alone need two bytes a parameter
        assert facts.gpu_gigabytes * 1e9 > 2 * facts.parameters


def test_revisions_are_pinned_whole_or_not_at_all(models: dict[str, Model]) -> None:
    seen = {}
    for model in models.values():
        for slot, weights in model.folders().items():
            if isinstance(weights, HubWeights):
                assert weights.revision is None or len(weights.revision) == 40
                seen[model.id, slot] = weights.seen
    assert seen["siglip", "base"] == "9fdffc58"
    assert seen["vlm2vec_v2", "lora"] == "e39ff079"
    assert seen["qwen3_vl_embedding_8b", "base"] == "2c456551"
    assert seen["medsiglip", "base"] is None


def test_no_pickle_is_ever_asked_for(models: dict[str, Model]) -> None:
    for model in models.values():
        for weights in model.folders().values():
            if isinstance(weights, HubWeights):
                assert not any(pattern.endswith((".bin", ".pt", "*")) for pattern in weights.include)


def test_medsiglip_is_gated_and_medimageinsight_comes_from_its_authors(models: dict[str, Model]) -> None:
    gated = [
        key
        for key, model in models.items()
        for weights in model.folders().values()
        if getattr(weights, "gate", "none") != "none"
    ]
    assert gated == ["medsiglip"]
    base = models["medimageinsight"].folders()["base"]
    assert base.kind == "folder"
    assert "weights: {medimageinsight: FOLDER}" in base.remedy


def test_training_sources_are_sources_of_the_benchmark(models: dict[str, Model]) -> None:
    sources = load_datasets(MANIFESTS / "datasets")
    for model in models.values():
        assert set(model.facts.train_sources) <= sources.keys(), model.id
    tasks = load_tasks(MANIFESTS / "tasks.tsv").values()
    inside = {source for task in tasks if task.split == "id" for source in task.sources}
    assert set(models["medemb_2b"].facts.train_sources) == inside
    assert models["medemb_8b"].facts.train_sources == models["medemb_2b"].facts.train_sources


def test_volumes_have_64_slices_and_blip2_has_32_in_the_release(models: dict[str, Model]) -> None:
    for name, blip2 in (("corrected", 64), ("release", 32)):
        for key, model in under(name, models).items():
            if isinstance(model.adapter, NetworkAdapter):
                assert model.adapter.frames == (blip2 if key == "blip2" else 64)


def test_faults_of_published_adapters_are_in_the_release_only(models: dict[str, Model]) -> None:
    corrected, release = under("corrected", models), under("release", models)
    assert corrected == models, "the corrected protocol takes the entries as they are"
    changed = {key for key in models if release[key] != models[key]}
    assert changed == {"blip2", "rzenembed", "qwen3_vl_embedding_2b", "qwen3_vl_embedding_8b", "medemb_2b", "medemb_8b"}
    rzen, question = release["rzenembed"].adapter, corrected["rzenembed"].adapter
    assert isinstance(rzen, Qwen2VLAdapter)
    assert isinstance(question, Qwen2VLAdapter)
    assert (rzen.text_beside_images, question.text_beside_images) == (False, True)
    qwen3 = release["qwen3_vl_embedding_2b"].adapter
    assert isinstance(qwen3, Qwen3VLAdapter)
    assert qwen3.max_tokens == 10240


def test_a_user_gives_a_folder_in_one_line(models: dict[str, Model]) -> None:
    changed = resolved(models, protocol("corrected"), {"blip2": "/data/blip2"}, Path("models.yaml"))
    adapter = changed["blip2"].adapter
    assert isinstance(adapter, Blip2Adapter)
    assert adapter.weights.kind == "folder"
    assert adapter.weights.path == "/data/blip2"
    with pytest.raises(MedhebError, match=r"key 'weights' names 'random'. Allowed: blip2, "):
        resolved(models, protocol("corrected"), {"random": "/data"}, Path("models.yaml"))


def test_models_that_are_off_run_where_they_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    content = yaml.safe_load((MANIFESTS / "models.yaml").read_text())
    for entry in content["models"]:
        entry["enabled"] = entry["id"] != "blip2"
    sets = tmp_path / "manifests"
    sets.mkdir()
    for path in MANIFESTS.iterdir():
        if path.name != "models.yaml":
            (sets / path.name).symlink_to(path)
    (sets / "models.yaml").write_text(yaml.safe_dump(content))
    monkeypatch.chdir(tmp_path)
    off = load_run(load_config([], {"manifests": "manifests"}), MANIFESTS / "protocols")
    assert "blip2" not in off.models
    assert len(off.models) == 11
    named = load_run(load_config([], {"manifests": "manifests", "models": ["blip2"]}), MANIFESTS / "protocols")
    assert list(named.models) == ["blip2", "random", "constant"]
