"""MedMNIST, PanNuke, MedSegBench, Kvasir-SEG, ROCO-QA and USData: what their recipes make."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import make_sets as make
import numpy as np
import pytest
from making import built
from PIL import Image

from medheb.build.inventory import Inventory
from medheb.build.source import ProtocolName
from medheb.manifest.load import load_dataset

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT.parent / "shared" / "spec" / "medmnist_medsegbench.tsv"
MEDMNIST = ["pathmnist", "chestmnist", "dermamnist", "octmnist", "tissuemnist", "bloodmnist"]
MEDMNIST += ["organamnist", "organcmnist", "organsmnist"]
MEDSEGBENCH = ["isic_2018", "uw_skin_cancer", "usforkidney", "ultrasound_nerve", "polypgen"]


def build(name: str, tmp_path: Path, protocol: ProtocolName = "corrected") -> Inventory:
    make.LAYERS[name](tmp_path / "in", 1)
    return built(name, tmp_path / "in", tmp_path / protocol, protocol)


def facts(made: Inventory, kind: str, *names: str) -> dict[str, tuple[object, ...]]:
    return {file.path: tuple(file.facts.get(name) for name in names) for file in made.of_kind(kind)}


def size_of(made: Inventory, tmp_path: Path, protocol: str, path: str) -> tuple[int, int]:
    with Image.open(tmp_path / protocol / made.images / path) as image:
        return image.size


@pytest.mark.parametrize("name", MEDMNIST)
def test_label_texts_are_the_publishers(name: str) -> None:
    if not TABLE.is_file():
        pytest.skip(f"no table of the publishers' label texts at {TABLE}")
    with TABLE.open(encoding="utf-8", newline="") as stream:
        rows = [row for row in csv.DictReader(stream, delimiter="\t") if row["flag"] == name]
    assert len(rows) == 4, "one a size"
    options = load_dataset(ROOT / "manifests" / "datasets" / f"{name}.yaml").recipe.options
    for row in rows:
        texts = json.loads(row["labels"])
        assert options["labels"] == [texts[str(number)] for number in range(len(texts))]
    assert options.get("multi_label", False) == (rows[0]["task"].startswith("multi-label"))


@pytest.mark.parametrize("name", MEDSEGBENCH)
def test_masks_are_what_the_publisher_calls_foreground(name: str) -> None:
    if not TABLE.is_file():
        pytest.skip(f"no table of the publishers' label texts at {TABLE}")
    manifest = load_dataset(ROOT / "manifests" / "datasets" / f"{name}.yaml")
    options = manifest.recipe.options
    with TABLE.open(encoding="utf-8", newline="") as stream:
        rows = [row for row in csv.DictReader(stream, delimiter="\t") if row["flag"] == options["archive"]]
    [row] = [row for row in rows if int(row["size"]) == options["size"]]
    assert (row["file_name"], row["md5"]) == (manifest.files[0].path, manifest.files[0].md5)
    assert json.loads(row["labels"]) == {"0": "background", "1": "foreground"}, "above 0 is the region"
    assert "train_label" in row["npz_keys"].split(",")
    assert "label" in options.get("masks", ["label"])


def test_chestmnist_rows_by_their_number_of_findings(tmp_path: Path) -> None:
    made = build("chestmnist", tmp_path)
    single = facts(made, "picture", "label", "split")
    assert single["output_images/test/infiltration/test_000000.png"] == ("infiltration", "test")
    assert single["output_images/val/pleural/val_000001.png"] == ("pleural", "valid")
    assert len(single) == 5
    assert facts(made, "several", "label") == {
        "several_findings/train/train_000002.png": ("cardiomegaly | hernia",),
        "several_findings/test/test_000001.png": ("infiltration | mass",),
    }
    table = (tmp_path / "corrected" / made.images / "selection" / "labels.csv").read_text().splitlines()
    assert table[0] == "split,row,labels,picture"
    assert "train,1,," in table, "a row without a finding is listed, not written"
    assert len(table) == 1 + 3 + 2 + 4
    assert "rows without a finding, in selection/labels.csv only: 2" in made.notes


def test_crops_of_masks_as_published_and_corrected(tmp_path: Path) -> None:
    made = build("isic_2018", tmp_path, "release")
    release = set(facts(made, "crop"))
    assert "images/train_00001_isic2018_crop.png" not in release, "under 28 pixels"
    assert "images/train_00002_isic2018.png" not in {file.path for file in made.files}, "empty mask"
    assert size_of(made, tmp_path, "release", "images/train_00000_isic2018_crop.png") == (35, 32)
    made = built("isic_2018", tmp_path / "in", tmp_path / "corrected", "corrected")
    assert size_of(made, tmp_path, "corrected", "images/train_00001_isic2018_crop.png") == (28, 28)
    assert size_of(made, tmp_path, "corrected", "images/train_00003_isic2018_crop.png") == (42, 36), "both parts"
    assert "pictures that have an empty mask: 1" in made.notes
    assert {file.facts["label"] for file in made.of_kind("crop")} == {"skin lesion"}


def test_polyps_lose_a_row_and_a_column_as_published(tmp_path: Path) -> None:
    made = build("polypgen", tmp_path, "release")
    assert size_of(made, tmp_path, "release", "images/train_00000_polyp.png") == (34, 31)
    arrays = facts(made, "array", "label", "split", "group")
    assert arrays["polypgen_512/train/images/00001.png"] == ("polyp", "train", "train_00001")
    again = {path: found for path, found in arrays.items() if "/test/images_C1/" in path or "/test/label_C1/" in path}
    assert again, "arrays of one centre repeat pictures of the whole"
    assert {found[2] for found in again.values()} <= {"test_00000", "test_00001", "test_00002", "test_00003"}
    assert set(facts(made, "picture", "group")["images/train_00000.png"]) == {"train_00000"}
    made = built("polypgen", tmp_path / "in", tmp_path / "corrected", "corrected")
    assert size_of(made, tmp_path, "corrected", "images/train_00000_polyp.png") == (35, 32)
    assert not made.of_kind("array")


def test_grey_stays_grey_where_corrected(tmp_path: Path) -> None:
    for protocol, mode in (("release", "RGB"), ("corrected", "L")):
        made = build("usforkidney", tmp_path, protocol)  # type: ignore[arg-type]
        path = tmp_path / protocol / made.images / "images" / "val_00000_usforkidney.png"
        with Image.open(path) as image:
            assert image.mode == mode
            assert np.asarray(image.convert("L")).tobytes() == make.pixels(1, colours=0).tobytes()


def test_the_largest_box_of_kvasir(tmp_path: Path) -> None:
    made = build("kvasir_seg", tmp_path, "release")
    assert facts(made, "crop", "transform", "split") == {
        "images/train_cju0_polyp.png": ("crop 5,5,40,36", "train"),
        "images/test_cju1_polyp.png": ("crop 20,20,26,28", "test"),
        "images/train_cju2_polyp.png": ("crop 3,2,44,30", "train"),
        "images/train_cju3_polyp.png": ("crop 0,0,48,40", "train"),
    }
    made = built("kvasir_seg", tmp_path / "in", tmp_path / "corrected", "corrected")
    assert facts(made, "crop", "transform")["images/test_cju1_polyp.png"] == ("crop 9,10,37,38",)
    assert "4 pictures: PNG under the name of a JPEG file" in made.notes


def test_nuclei_and_their_sides(tmp_path: Path) -> None:
    made = build("pannuke", tmp_path, "release")
    crops = facts(made, "crop", "label", "split", "enlarged")
    stem = "PanNuke_VG/crops/fold1-00000-of-00001/fold1-00000-of-00001_000000"
    assert crops[f"{stem}_neoplastic_000.png"] == ("Neoplastic", "test", False)
    assert crops[f"{stem}_inflammatory_001.png"] == ("Inflammatory", "train", True)
    assert f"{stem}_connective_002.png" not in crops, "empty mask"
    assert "nuclei with an empty mask, without a crop: 9" in made.notes
    made = built("pannuke", tmp_path / "in", tmp_path / "corrected", "corrected")
    crops = facts(made, "crop", "split")
    assert {side for (side,) in crops.values()} == {"train", "test"}
    assert all((side == "test") == ("fold2-" in path) for path, (side,) in crops.items()), "one side a picture"
    tissue = tmp_path / "corrected" / "2D_Images" / "PanNuke" / "test_images" / "Bile Duct" / "fold2_00000001.png"
    again = tmp_path / "corrected" / "2D_Images" / "PanNuke_VG" / "images" / "fold2-00000-of-00001"
    assert tissue.read_bytes() == (again / "fold2-00000-of-00001_000001.png").read_bytes()


def test_questions_of_roco_keep_their_numbers(tmp_path: Path) -> None:
    made = build("roco_vqa", tmp_path, "release")
    rows = json.loads((tmp_path / "release" / made.images / "dataset.json").read_text())
    assert [row["ImageName"] for row in rows][-2:] == ["Valid_sample_000009.jpg", "Valid_sample_000010.jpg"]
    assert rows[3]["Answer"] is None
    made = built("roco_vqa", tmp_path / "in", tmp_path / "corrected", "corrected")
    pictures = facts(made, "picture", "question", "answer", "split")
    assert pictures["images/Vaild_sample_000001.jpg"] == ("what is 00?", "it is 0", "valid")
    assert "images/Train_sample_000004.jpg" not in pictures
    assert [(refusal.fault, Path(refusal.where).name) for refusal in made.refusals] == [
        ("has no answer", "Train-00000-of-00001-91a106d1a22c7cc9.parquet, row 1")
    ]


def test_reports_of_usdata_name_their_pictures(tmp_path: Path) -> None:
    made = build("usdata", tmp_path)
    assert made.protocol is None
    lines = (tmp_path / "corrected" / made.images / "reports.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 12
    row = json.loads(lines[0])
    assert row["id"] == "breast/1"
    assert row["report"] == "breast 回声均匀 1"
    assert row["pictures"] == ["Mammary_report/1_1.jpeg", "Mammary_report/1_2.jpeg"]
    assert facts(made, "picture", "split", "group")["Liver_report/4_2.jpeg"] == ("test", "liver/4")
    original = tmp_path / "in" / "USData" / "Liver_report" / "4_2.jpeg"
    assert (tmp_path / "corrected" / made.images / "Liver_report" / "4_2.jpeg").read_bytes() == original.read_bytes()


def test_equal_pictures_are_told_once_for_each_place_of_the_source(tmp_path: Path) -> None:
    """Second places that the recipe makes are no duplicates, and a picture without a split is in no other."""
    again = "pictures whose pixels another one of the source has, too: "
    for protocol in ("release", "corrected"):
        made = build("pannuke", tmp_path, protocol)  # type: ignore[arg-type]
        assert not any(note.startswith(again) or "more than one split" in note for note in made.notes)
    make.lay_pannuke(tmp_path / "twice")
    table = tmp_path / "twice" / "data" / "fold3-00000-of-00001.parquet"
    table.write_bytes((tmp_path / "twice" / "data" / "fold1-00000-of-00001.parquet").read_bytes())
    made = built("pannuke", tmp_path / "twice", tmp_path / "out", "corrected")
    assert any(note.startswith(again) for note in made.notes)
