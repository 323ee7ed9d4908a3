"""MedMNIST 3D: names, labels, blank and odd volumes, damaged archives."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from make_stacks import archive, arrays
from making import built, faults, root

from medheb.build.inventory import Inventory
from medheb.core.errors import MedhebError

ARCHIVE = "nodulemnist3d_64.npz"


def lay(folder: Path, content: Mapping[str, np.ndarray], name: str = ARCHIVE) -> Path:
    return archive(folder, content, name)


def cases(inventory: Inventory) -> set[str]:
    return {str(file.facts["case"]) for file in inventory.of_kind("slice")}


def test_every_slice_with_its_class(tmp_path: Path) -> None:
    content = arrays()
    lay(tmp_path, content)
    inventory = built("nodulemnist3d", tmp_path, tmp_path / "out")
    assert cases(inventory) == {
        f"{part}_slides/sample_{index:05d}" for part, count in (("train", 2), ("test", 3)) for index in range(count)
    }
    slices = [file for file in inventory.of_kind("slice") if file.facts["case"] == "test_slides/sample_00001"]
    assert [file.path[-12:] for file in slices] == [f"slice_{slot:02d}.png" for slot in range(64)]
    assert {file.facts["label"] for file in slices} == {"malignant"}
    assert slices[5].facts["member"] == "test_images[1]"
    assert (tmp_path / "out/3D_Images/NoduleMNIST/val_labels.csv").read_text() == "sample_index,label_index\n0,0\n"
    assert (tmp_path / "out/3D_Images/NoduleMNIST/selection/train.txt").read_text().split() == [
        "sample_00000",
        "sample_00001",
    ]
    assert inventory.notes == ()


def test_same_for_both_protocols_workers_and_names(tmp_path: Path) -> None:
    lay(tmp_path / "a", arrays())
    lay(tmp_path / "b" / "deeper", dict(reversed(arrays().items())), ARCHIVE + "?download=1")
    first = built("nodulemnist3d", tmp_path / "a", tmp_path / "out_a", "release")
    second = built("nodulemnist3d", tmp_path / "b", tmp_path / "out_b", workers=2)
    assert root(first) == root(second) == "b52b3f9e7262784c"


def test_test_volumes_alone(tmp_path: Path) -> None:
    lay(tmp_path, arrays())
    inventory = built("nodulemnist3d", tmp_path, tmp_path / "out", options={"splits": ["test"]})
    assert {case.split("/")[0] for case in cases(inventory)} == {"test_slides"}


def test_the_small_archive_is_noticed(tmp_path: Path) -> None:
    lay(tmp_path, arrays(depth=28))
    inventory = built("nodulemnist3d", tmp_path, tmp_path / "out")
    assert "volumes with 28 slices instead of 64: 5" in inventory.notes


def test_blank_volumes_are_refused_unless_as_published(tmp_path: Path) -> None:
    content = arrays()
    content["test_images"][1] = 0
    lay(tmp_path, content)
    inventory = built("nodulemnist3d", tmp_path, tmp_path / "out")
    assert "test_slides/sample_00001" not in cases(inventory)
    assert any("test_images[1]: holds the one value 0 everywhere" in text for text in faults(inventory))
    assert "test_slides/sample_00001" in cases(built("nodulemnist3d", tmp_path, tmp_path / "r", "release"))


def test_values_that_are_not_8_bit(tmp_path: Path) -> None:
    content: dict[str, np.ndarray] = arrays()
    content["test_images"] = content["test_images"] / 255.0
    content["test_images"][0, 3] /= 4
    content["test_images"][0, 4, 1, 1] = np.nan
    lay(tmp_path, content)
    published = built("nodulemnist3d", tmp_path, tmp_path / "r", "release")
    corrected = built("nodulemnist3d", tmp_path, tmp_path / "c")
    assert {file.facts["window"] for file in corrected.of_kind("slice")} == {
        "stored 8-bit values",
        "minimum to maximum of the stack",
    }
    assert (root(published), root(corrected)) == ("6434762ce0422cb7", "716752fc9ee6deb3")


def test_a_class_without_a_name(tmp_path: Path) -> None:
    content = arrays()
    content["test_labels"][2] = 7
    lay(tmp_path, content)
    inventory = built("nodulemnist3d", tmp_path, tmp_path / "out")
    assert any("test_images[2]: has class 7, which has no name" in text for text in faults(inventory))
    assert "test_slides/sample_00002" not in cases(inventory)


def test_an_archive_cut_short_keeps_what_is_whole(tmp_path: Path) -> None:
    path = lay(tmp_path, arrays(test=3))
    content = bytearray(path.read_bytes())
    # A flipped byte near the end of the largest member breaks its checksum only after all its volumes.
    start = content.index(b"test_images.npy")
    content[start + 3000] ^= 0xFF
    path.write_bytes(bytes(content))
    inventory = built("nodulemnist3d", tmp_path, tmp_path / "out")
    assert any("test_images.npy: ends or breaks at slice" in text for text in faults(inventory))
    assert "train_slides/sample_00001" in cases(inventory)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"test_images": np.zeros((3, 64, 5), np.uint8)}, r"test_images\.npy: has shape \(3, 64, 5\), not volumes"),
        ({"test_labels": np.zeros((2, 1), np.uint8)}, "holds 3 volumes but 2 labels of test"),
    ],
)
def test_other_archives_are_refused(tmp_path: Path, change: dict[str, np.ndarray], fault: str) -> None:
    lay(tmp_path, arrays() | change)
    with pytest.raises(MedhebError, match=fault):
        built("nodulemnist3d", tmp_path, tmp_path / "out")


def test_labels_of_several_numbers_are_refused(tmp_path: Path) -> None:
    lay(tmp_path, arrays() | {"val_labels": np.zeros((1, 14), np.uint8)})
    inventory = built("nodulemnist3d", tmp_path, tmp_path / "out")
    assert any(
        "val_labels.npy: has shape (1, 14) of uint8, not one class number a volume" in t for t in faults(inventory)
    )


def test_not_an_archive(tmp_path: Path) -> None:
    (tmp_path / ARCHIVE).write_bytes(b"no archive")
    with pytest.raises(MedhebError, match="is not a NumPy archive"):
        built("nodulemnist3d", tmp_path, tmp_path / "out")
