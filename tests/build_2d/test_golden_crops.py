"""Published pictures and crops of polyps, skin and ultrasound against ours."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from golden import FOLDER, Fact, Golden, Made

# Script, its folder of results, and the sources that fill it.
SCRIPTS = {
    "gastrointestinal": ("Gastronintestinal", {"polypgen": "polypgen_512", "kvasir_seg": None}),
    "skin_image": ("Skin_Image", {"isic_2018": "isic2018_512", "uw_skin_cancer": "uwaterlooskincancer_512"}),
    "ultrasound": ("Ultrasound", {"usforkidney": "usforkidney_512", "ultrasound_nerve": "ultrasoundnerve_512"}),
}


def gather(made: dict[str, Made]) -> dict[str, Fact]:
    """Pictures of all sources of a script, by the paths that they share in the published tree."""
    found: dict[str, Fact] = {}
    for build in made.values():
        assert not found.keys() & build.pictures.keys(), "two sources would write one file"
        found |= build.pictures
    return found


def npy_fact(path: Path) -> list[Any]:
    """Facts of an array file as the golden folder states them."""
    sys.path.insert(0, str(FOLDER))
    try:
        import facts  # type: ignore[import-not-found]
    finally:
        sys.path.remove(str(FOLDER))
    fact: list[Any] = facts.npy_fact(path)
    return fact


@pytest.mark.parametrize("script", SCRIPTS)
def test_crops_as_published(golden: Golden, tmp_path: Path, script: str) -> None:
    folder, sources = SCRIPTS[script]
    made = {dataset: golden.build(dataset, script, tmp_path) for dataset in sources}
    pictures = gather(made)
    report = golden.compare(script, pictures, lambda path: path.removeprefix(f"{folder}/"))
    assert report.good, report
    expected = golden.expected(script)
    assert len(pictures) == expected["counts"]["images"]
    arrays = {f.path: m.folder / f.path for m in made.values() for f in m.inventory.files if f.path.endswith(".npy")}
    assert len(arrays) == expected["counts"]["npy"]
    for path, fact in expected["npy"].items():
        assert npy_fact(arrays[path.removeprefix(f"{folder}/")]) == fact, path
    print(report, f"and {len(expected['npy'])} arrays")


@pytest.mark.parametrize("script", SCRIPTS)
def test_both_sources_meet_in_the_folder_of_the_task(golden: Golden, tmp_path: Path, script: str) -> None:
    _, sources = SCRIPTS[script]
    made = [golden.build(dataset, script, tmp_path, "corrected") for dataset in sources]
    top = made[0].folder.parent / "images"
    inside = {path.name for build in made for path in (build.folder / "images").iterdir()}
    assert {path.name for path in top.iterdir()} == inside
    assert all(path.is_symlink() and path.read_bytes() for path in top.iterdir())
    sizes = [min(fact[1:3]) for build in made for path, fact in build.pictures.items() if "images/" in path]
    assert min(sizes) >= 28, "no crop of a corrected build is smaller"
    assert all(build.inventory.of_kind("crop") for build in made)
