"""Folders without rights in sets of kept pictures: each is named, whatever the recipe, and nothing crashes."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from make_kept import DATASETS, lay_aptos, lay_brain, lay_isic, lay_kvasir, lay_omni, lay_pmc, lay_rfmid
from making import deny, faults

from medheb.build.inventory import read_header
from medheb.build.run import build_from
from medheb.core.errors import MedhebError

LAYS: dict[str, Callable[[Path], None]] = {
    "brain_tumor_mri": lay_brain,
    "kvasir": lay_kvasir,
    "aptos_2019": lay_aptos,
    "isic_2019": lay_isic,
    "rfmid": lay_rfmid,
    "pmc_vqa": lay_pmc,
    "omnimedvqa": lay_omni,
}


def texts(dataset: str, files: Path, out: Path) -> list[str]:
    try:
        return faults(build_from(DATASETS[dataset], files, out, "release", "release"))
    except MedhebError as error:
        listed = [read_header(path) for path in out.rglob("*.inventory.json")]
        return [str(error), *(refusal.where for header in listed for refusal in header.refusals)]


@pytest.mark.parametrize("dataset", LAYS)
def test_every_folder_without_rights_is_named_2d(dataset: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    LAYS[dataset](tmp_path / "laid")
    folders = sorted(path.relative_to(tmp_path / "laid") for path in (tmp_path / "laid").rglob("*") if path.is_dir())
    for number, below in enumerate([Path(), *folders][:6]):
        if "Training_Set" in below.parts:
            continue  # nothing is read there
        files = tmp_path / f"in{number}"
        shutil.copytree(tmp_path / "laid", files)
        folder = files / below
        with monkeypatch.context() as patched:
            deny(patched, folder)
            told = texts(dataset, files, tmp_path / f"out{number}")
        named = {str(folder), *(str(path) for path in folder.rglob("*"))}
        assert any(name in text for text in told for name in named), (folder, told)


def test_a_class_folder_without_rights_loses_itself_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lay_brain(tmp_path / "in")
    locked = tmp_path / "in" / "archive" / "Testing" / "glioma"
    with monkeypatch.context() as patched:
        deny(patched, locked)
        made = build_from(DATASETS["brain_tumor_mri"], tmp_path / "in", tmp_path / "out", "release", "release")
    assert [text for text in faults(made) if f"{locked}: cannot be listed (Permission denied)" in text]
    tested = {file.facts["label"] for file in made.of_kind("picture") if file.facts["split"] == "test"}
    assert tested == {"meningioma", "no tumor", "pituitary"}


def test_a_class_folder_may_be_a_link(tmp_path: Path) -> None:
    lay_brain(tmp_path / "in")
    place = tmp_path / "in" / "archive" / "Testing" / "glioma"
    place.rename(tmp_path / "elsewhere")
    place.symlink_to(tmp_path / "elsewhere")
    (place.parent / "again").symlink_to(place.parent)
    made = build_from(DATASETS["brain_tumor_mri"], tmp_path / "in", tmp_path / "out", "release", "release")
    assert {"glioma"} <= {file.facts["label"] for file in made.of_kind("picture") if file.facts["split"] == "test"}
