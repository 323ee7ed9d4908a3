"""Published pictures of PanNuke, class folders and nuclei, against ours."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path

from golden import Golden


def test_tissues_as_published(golden: Golden, tmp_path: Path) -> None:
    made = golden.build("pannuke", "pannuke_cls", tmp_path)
    report = golden.compare("pannuke_cls", made)
    assert report.good, report
    assert len(made.pictures) == golden.expected("pannuke_cls")["counts"]["images"]
    print(report)


def test_nuclei_as_published(golden: Golden, tmp_path: Path) -> None:
    """All pictures but the 50 drawings for people to look at, whose style is not known and which no task uses."""
    made = golden.build("pannuke", "pannuke_vg", tmp_path)

    def place(path: str) -> str | None:
        return None if "/visualizations/" in path else path.replace("PanNuke/", "PanNuke_VG/", 1)

    report = golden.compare("pannuke_vg", made, place)
    assert report.good, report
    expected = golden.expected("pannuke_vg")
    assert len(made.pictures) == expected["counts"]["images"] - 50
    groups: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for file in made.inventory.of_kind("crop"):
        groups[str(file.facts["case"]), str(file.facts["label"])].add(str(file.facts["split"]))
    sides = Counter(split for splits in groups.values() for split in splits)
    assert sides["test"] == expected["json"]["captured_test.json"]["rows"]
    assert sides["train"] == expected["json"]["captured_train.json"]["rows"]
    assert (tmp_path / "2D_Images" / "PanNuke_VG" / "images" / "more_data_fold_2_b").is_dir()
    print(report)
