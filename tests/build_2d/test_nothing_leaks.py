"""Sources whose terms forbid to show their data: no cell, label or name of theirs in what a build prints or logs."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path

import make_all
import make_kept
import make_sets
import make_xrays
import pytest

from medheb.build.telling import lines_of
from medheb.core.errors import MedhebError
from medheb.manifest.load import load_dataset

SECRET = "leakedword"  # in small letters and plain, as words of our own sentences are


def text(path: str, *changes: tuple[str, str]) -> Callable[[Path], None]:
    """Replace texts in a file, below a folder."""

    def change(top: Path) -> None:
        content = (top / path).read_text(encoding="utf-8")
        for old, new in changes:
            assert old in content
            content = content.replace(old, new)
        (top / path).write_text(content, encoding="utf-8")

    return change


def whole(path: str, content: str) -> Callable[[Path], None]:
    """Other content of a file."""
    return lambda top: make_sets.put(top / path, content)


def strange_class(top: Path) -> None:
    make_kept.put(top / "archive" / "Testing" / SECRET / f"{SECRET}.jpg", make_kept.picture(1))


def strange_finding(top: Path) -> None:
    make_xrays.put_table(
        top / "annotations" / "annotations_test.csv", make_xrays.VINDR, [["te1", "", SECRET, 1, 1, 40, 40]]
    )


def strange_category(top: Path) -> None:
    line = ["s1", "q", "m1", f"['{SECRET}']", 10, 10, 60, 60, "test"]
    make_xrays.put_table(top / "finding_annotations.csv", make_xrays.MAMMO, [line])


OMNI = "OmniMedVQA/QA_information/Open-access/Chest CT Scan.json"
KVASIR = "Kvasir-SEG/kavsir_bboxes.json"
CASES: dict[str, tuple[str, Callable[[Path], None]]] = {
    "a class": ("aptos_2019", text("train.csv", (",3\n", f",{SECRET}\n"))),
    "an id": ("aptos_2019", text("train.csv", ("000000000001,", f"{SECRET},"))),
    "no header": ("aptos_2019", whole("train.csv", f"{SECRET},2\n{SECRET},3\n")),
    "no header, one word twice": ("isic_2019", whole("t/ISIC_2019_Test_GroundTruth.csv", f"{SECRET},{SECRET}\n1,2\n")),
    "a flag": ("isic_2019", text("t/ISIC_2019_Test_GroundTruth.csv", ("1.0,0.0", f"{SECRET},0.0"))),
    "a folder": ("brain_tumor_mri", strange_class),
    "an answer": ("omnimedvqa", text(OMNI, ('"gt_answer": "CT."', f'"gt_answer": "{SECRET}"'))),
    "a picture": ("omnimedvqa", text(OMNI, ("Images/", f"{SECRET}/"))),
    "a key twice": ("omnimedvqa", whole(OMNI, json.dumps({SECRET: 1})[:-1] + f', "{SECRET}": 2}}')),
    "a choice": ("pmc_vqa", text("test.csv", (" A:one , A:one ", f" A:{SECRET} , A:one "), (",A\n", ",\n"))),
    "a split": ("usdata", text("USData/new_Liver2.json", ('"train"', f'"{SECRET}"'))),
    "a listed picture": (
        "kvasir_seg",
        whole("split.csv", f"split,original_image_path\ntrain,{SECRET}.jpg\ntest,{SECRET}.jpg\n"),
    ),
    "a word of a list": ("kvasir_seg", whole("split.csv", f"split,original_image_path\n{SECRET},cju0.jpg\n")),
    "a finding": ("vindr_cxr", strange_finding),
    "a category": ("vindr_mammo", strange_category),
}


@pytest.mark.parametrize("name", CASES)
def test_a_word_of_the_data(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    dataset, change = CASES[name]
    manifest = load_dataset(make_all.MANIFESTS / f"{dataset}.yaml")
    assert not manifest.show_content
    make_all.LAYERS[dataset](tmp_path / "in", 1)
    change(tmp_path / "in")
    caplog.set_level(logging.DEBUG)
    try:
        made = make_all.make(dataset, tmp_path / "in", tmp_path / "out", "corrected")
        assert made.refusals
        said = [*made.notes, *lines_of(made, manifest.show_content)]
    except MedhebError as error:
        said = [str(error)]
    assert said
    assert SECRET not in "\n".join([*said, caplog.text, *capfd.readouterr()])


def test_a_source_that_gives_nothing_says_what_to_do(tmp_path: Path) -> None:
    make_all.LAYERS["aptos_2019"](tmp_path / "in", 1)
    for path in (tmp_path / "in" / "train_images").iterdir():
        path.write_bytes(b"<!DOCTYPE html>" if path.name < "000000000003" else bytes(500))
    with pytest.raises(MedhebError) as caught:
        make_all.make("aptos_2019", tmp_path / "in", tmp_path / "out", "corrected")
    assert "gave no files; 30 could not be used" in caught.value.fault
    assert "holds zero bytes only ... (27); is a web page, not a picture (3)" in caught.value.fault
    assert caught.value.remedy.startswith("Fetch the source again; if the file stays so, report it to the publisher")
