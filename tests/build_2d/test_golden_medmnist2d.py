"""Published pictures of the 2D MedMNIST sets against ours, those without a manifest of ours included."""

from __future__ import annotations

from pathlib import Path

import pytest
from golden import Golden

from medheb.core.errors import MedhebError
from medheb.manifest.dataset import Dataset

OURS = {
    "octmnist.npz": "octmnist",
    "bloodmnist.npz": "bloodmnist",
    "tissuemnist_64.npz": "tissuemnist",
    "pathmnist_224.npz": "pathmnist",
    "organamnist.npz": "organamnist",
    "dermamnist_28.npz": "dermamnist",
    "organcmnist.npz": "organcmnist",
}
# Sets that the published script can read too, with the texts that it has for them.
OTHERS: dict[str, tuple[str, ...]] = {
    "breastmnist_128.npz": ("malignant", "normal, benign"),
    "retinamnist.npz": ("0", "1", "2", "3", "4"),
    "pneumoniamnist.npz": ("normal", "pneumonia"),
    "FooMNIST.npz": (),
    "synapsemnist3d.npz": ("inhibitory synapse", "excitatory synapse"),
}


def with_options(dataset: Dataset, archive: str, labels: tuple[str, ...]) -> Dataset:
    """The manifest of one set for the archive of another."""
    stem = archive.removesuffix(".npz")
    name, _, size = stem.rpartition("_") if stem.endswith(("_64", "_128")) else (stem, "", "28")
    options = {"archive": name, "size": int(size), "labels": list(labels)}
    return dataset.model_copy(update={"recipe": dataset.recipe.model_copy(update={"options": options})})


def place(path: str) -> str:
    return path.replace("out/", "output_images/", 1)


@pytest.mark.parametrize("archive", [*OURS, *OTHERS])
def test_medmnist_as_published(golden: Golden, tmp_path: Path, archive: str) -> None:
    dataset = golden.dataset(OURS.get(archive, "octmnist"))
    if archive in OTHERS:
        dataset = with_options(dataset, archive, OTHERS[archive])
    made = golden.build(dataset, "medmnist2d", tmp_path)
    report = golden.compare(f"medmnist2d:{archive}", made, place)
    assert report.good, report
    assert len(made.pictures) == golden.expected(f"medmnist2d:{archive}")["counts"]["images"]
    print(report)


@pytest.mark.parametrize(
    ("archive", "fault"),
    [
        ("organsmnist.npz", r"has shape \(2, 28, 28, 2\): no rows of grey, RGB or RGBA pictures"),
        ("vesselmnist3d_64.npz", r"has shape \(1, 6, 6, 6\): no rows of grey, RGB or RGBA pictures"),
        ("nodulemnist3d.npz", "holds no array val_images; it holds train_images, train_labels"),
    ],
)
def test_what_the_published_script_cannot_write_is_refused(
    golden: Golden, tmp_path: Path, archive: str, fault: str
) -> None:
    dataset = with_options(golden.dataset("octmnist"), archive, ("a", "b"))
    with pytest.raises(MedhebError, match=fault):
        golden.build(dataset, "medmnist2d", tmp_path)
    assert "images" not in golden.expected(f"medmnist2d:{archive}")


def test_chestmnist_where_the_published_script_stops(golden: Golden, tmp_path: Path) -> None:
    made = golden.build("chestmnist", "medmnist2d", tmp_path)
    assert len(made.pictures) == 11
    assert {file.facts["kind"] for file in made.inventory.files if file.path in made.pictures} == {"several"}
