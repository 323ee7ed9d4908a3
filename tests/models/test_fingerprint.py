"""What a stored vector is filed under: all that decides it, and nothing else."""

from pathlib import Path

import pytest

from medheb.core.layout import Layout
from medheb.manifest.load import load_models
from medheb.manifest.model import Model, ModelList
from medheb.models.load import fingerprint, vector_settings

DEMO = Path(__file__).resolve().parents[2] / "manifests" / "demo" / "models.yaml"


@pytest.fixture
def model() -> Model:
    return load_models(DEMO)["dinov2_minilm"]


def changed(model: Model, path: str, value: object) -> Model:
    """The model with one value of its manifest changed."""
    content = model.model_dump(mode="json")
    place = content
    *parents, last = path.split(".")
    for part in parents:
        place = place[part]
    place[last] = value
    return ModelList.model_validate({"models": [content]}).models[0]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("adapter.image.size", 518),
        ("adapter.image.mean", [0.5, 0.5, 0.5]),
        ("adapter.image.weights.file.sha256", "0" * 64),
        ("adapter.text.max_tokens", 64),
        ("adapter.bridge.ridge", 1.0),
    ],
)
def test_what_decides_a_vector_changes_it(model: Model, path: str, value: object) -> None:
    assert vector_settings(changed(model, path, value)) != vector_settings(model)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("title", "Another title"),
        ("note", "Another note"),
        ("adapter.batch_size", 3),
        ("adapter.image.weights.licence.note", "read it"),
        ("adapter.image.weights.unpack.max_members", 7),
        ("adapter.text.weights.file.digest_source", "somebody else"),
    ],
)
def test_what_does_not_decide_a_vector_leaves_it(model: Model, path: str, value: object) -> None:
    assert vector_settings(changed(model, path, value)) == vector_settings(model)


def test_canaries_have_stable_fingerprints(tmp_path: Path) -> None:
    layout = Layout(tmp_path, tmp_path, tmp_path)
    marks = {fingerprint(model, layout) for model in load_models(DEMO).values() if model.canary}
    assert len(marks) == 2
