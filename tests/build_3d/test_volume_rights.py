"""Folders without rights, one after another: each is named, nothing crashes, and what does not need it is built."""

from __future__ import annotations

import shutil
from pathlib import Path

import make_volumes as make
import numpy as np
import pytest
from making import built, deny, faults

from medheb.build.inventory import Inventory, read_header
from medheb.core.errors import MedhebError


def outcome(dataset: str, files: Path, out: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Texts of refusals, or that of the error if nothing is built."""
    with monkeypatch.context() as patched:
        deny(patched, folder)
        try:
            return faults(make.build(dataset, files, out))
        except MedhebError as error:
            listed = [read_header(path) for path in out.rglob("*.inventory.json")]
            return [str(error), *(refusal.where for header in listed for refusal in header.refusals)]


@pytest.mark.parametrize("dataset", make.LAYS)
def test_every_folder_without_rights_is_named(dataset: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make.LAYS[dataset](tmp_path / "laid")
    folders = sorted(path.relative_to(tmp_path / "laid") for path in (tmp_path / "laid").rglob("*") if path.is_dir())
    for number, below in enumerate([Path(), *folders]):
        if below.name.endswith(("_masks", "overview", "MEN-00003-000")):
            continue  # nothing is read there
        files = tmp_path / f"in{number}"
        shutil.copytree(tmp_path / "laid", files)
        folder = files / below
        texts = outcome(dataset, files, tmp_path / f"out{number}", folder, monkeypatch)
        named = {str(folder), *(str(path) for path in folder.rglob("*"))}
        assert any(name in text for text in texts for name in named), (folder, texts)


@pytest.mark.parametrize(
    ("dataset", "folder", "left"),
    [
        ("ct_rate", "dataset/valid_fixed/valid_1", {"valid_2_a"}),
        ("ct_rate", "dataset/valid_fixed/valid_1/valid_1_a", {"valid_1_b", "valid_2_a"}),
        ("radgenome_chest_ct", "dataset/valid_preprocessed/valid_1/valid_1a", {"valid_1/valid_1b"}),
        ("brats_men", "Training/BraTS-MEN-Train/BraTS-MEN-00001-000", {"BraTS-MEN-00002-000"}),
        (
            "brats_men",
            "BraTS-MEN-TRAIN-FIX-V4/BraTS-MEN-00001-000",
            {"BraTS-MEN-00001-000", "BraTS-MEN-00002-000"},
        ),
        ("brats_ped", f"{make.PED}ValidationData", {"BraTS-PED-00001-000 t1n", "BraTS-PED-00001-000 t2w"}),
        ("cirrmri600", "Cirrhosis_T1_3D/test_images", {"1 T2", "2 T1", "2 T2", "healthy_1 T1"}),
        ("synthrad2023", "Task1/pelvis", {"1BA001 CT", "1BA001 MR"}),
        ("synthrad2023", "Task1/pelvis/1PA001", {"1BA001 CT", "1BA001 MR"}),
    ],
)
def test_the_other_cases_are_built(
    dataset: str, folder: str, left: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make.LAYS[dataset](tmp_path / "in")
    with monkeypatch.context() as patched:
        deny(patched, tmp_path / "in" / folder)
        inventory = make.build(dataset, tmp_path / "in", tmp_path / "out")
    assert cases(inventory) == left
    assert any(folder in text for text in faults(inventory))


def cases(inventory: Inventory) -> set[str]:
    return {str(file.facts["case"]) for file in inventory.of_kind("slice")}


def test_a_folder_without_rights_does_not_pass_for_an_empty_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make.LAYS["ct_rate"](tmp_path / "in" / "download")
    deny(monkeypatch, tmp_path / "in" / "download")
    with pytest.raises(MedhebError, match=r"this user may not read: 1, the first is \S+/in/download\. Mend"):
        make.build("ct_rate", tmp_path / "in", tmp_path / "out")
    assert not list((tmp_path / "out").rglob("*")), "a build that did not begin leaves nothing"


def test_a_plane_of_knees_without_rights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number, plane in enumerate(("axial", "coronal", "sagittal")):
        (tmp_path / "in" / "valid" / plane).mkdir(parents=True)
        stack = np.arange(3 * 4 * 4, dtype=np.uint8).reshape(3, 4, 4) + np.uint8(number)
        np.save(tmp_path / "in" / "valid" / plane / "1130.npy", stack)
    with monkeypatch.context() as patched:
        deny(patched, tmp_path / "in" / "valid" / "coronal")
        inventory = built("mrnet", tmp_path / "in", tmp_path / "out", "release")
    assert {file.facts["view"] for file in inventory.of_kind("slice")} == {"axial", "sagittal"}
    assert any(
        "valid/coronal: cannot be listed (Permission denied). Mend its permissions" in x for x in faults(inventory)
    )
    assert any(refusal.lost == "coronal stack" for refusal in inventory.refusals)
