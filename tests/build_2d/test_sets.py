"""MedMNIST, PanNuke, MedSegBench, Kvasir-SEG, ROCO-QA and USData: the same result everywhere, and what it is."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import make_sets as make
import numpy as np
import pytest
from making import built, root
from PIL import Image

from medheb.build.inventory import Inventory
from medheb.build.source import ProtocolName
from medheb.manifest.load import load_dataset

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT.parent / "shared" / "spec" / "medmnist_medsegbench.tsv"
MEDMNIST = ["pathmnist", "chestmnist", "dermamnist", "octmnist", "tissuemnist", "bloodmnist"]
MEDMNIST += ["organamnist", "organcmnist", "organsmnist"]
MEDSEGBENCH = ["isic_2018", "uw_skin_cancer", "usforkidney", "ultrasound_nerve", "polypgen"]
# Merkle roots of our own builds of the inputs in make_sets.py; a change of one is a change of the benchmark.
ROOTS: dict[str, str] = {
    "pathmnist release": "325057ebe51e4bd5",
    "pathmnist corrected": "325057ebe51e4bd5",
    "chestmnist release": "1c6b0b99ddf79000",
    "chestmnist corrected": "1c6b0b99ddf79000",
    "isic_2018 release": "c1ee3b917fc97189",
    "isic_2018 corrected": "c9823742436bdbbb",
    "usforkidney release": "f8e017bcbd268523",
    "usforkidney corrected": "ed429d5cfcce1c41",
    "polypgen release": "1a272fb8b8c7a7bc",
    "polypgen corrected": "88a1fd42d481a580",
    "kvasir_seg release": "a62c43738f35aa68",
    "kvasir_seg corrected": "c52efd6978cd75f9",
    "pannuke release": "1fc7324e156e4aff",
    "pannuke corrected": "19213b51209cee47",
    "roco_vqa release": "f56673a7eea91459",
    "roco_vqa corrected": "a4bdc978c1d266f1",
    "usdata release": "1b80f9dfc0f198b9",
    "usdata corrected": "1b80f9dfc0f198b9",
}


def build(name: str, tmp_path: Path, protocol: ProtocolName = "corrected") -> Inventory:
    make.LAYERS[name](tmp_path / "in", 1)
    return built(name, tmp_path / "in", tmp_path / protocol, protocol)


def facts(made: Inventory, kind: str, *names: str) -> dict[str, tuple[object, ...]]:
    return {file.path: tuple(file.facts.get(name) for name in names) for file in made.of_kind(kind)}


def size_of(made: Inventory, tmp_path: Path, protocol: str, path: str) -> tuple[int, int]:
    with Image.open(tmp_path / protocol / made.images / path) as image:
        return image.size


@pytest.mark.parametrize("name", make.LAYERS)
@pytest.mark.parametrize("protocol", ["release", "corrected"])
def test_golden_roots(name: str, protocol: ProtocolName, tmp_path: Path) -> None:
    made = build(name, tmp_path, protocol)
    assert root(made) == ROOTS[f"{name} {protocol}"]
    for file in made.files:
        if file.content.startswith("pix") and file.facts["kind"] != "array":
            assert {"case", "group", "member", "transform", "mode", "width", "height"} <= file.facts.keys(), file.path


def test_another_order_of_files_workers_and_hash_seed_change_nothing(tmp_path: Path) -> None:
    environment = os.environ | {"PYTHONHASHSEED": "4711", "TZ": "Asia/Tokyo", "LC_ALL": "C"}
    path = os.pathsep.join([str(ROOT / "tests" / "build_3d"), environment.get("PYTHONPATH", "")])
    command = [sys.executable, make.__file__, str(tmp_path)]
    done = subprocess.run(command, env=environment | {"PYTHONPATH": path}, check=True, capture_output=True, text=True)
    assert json.loads(done.stdout) == ROOTS


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
    assert "2 rows without a finding, in selection/labels.csv only" in made.notes


def test_crops_of_masks_as_published_and_corrected(tmp_path: Path) -> None:
    made = build("isic_2018", tmp_path, "release")
    release = set(facts(made, "crop"))
    assert "images/train_00001_isic2018_crop.png" not in release, "under 28 pixels"
    assert "images/train_00002_isic2018.png" not in {file.path for file in made.files}, "empty mask"
    assert size_of(made, tmp_path, "release", "images/train_00000_isic2018_crop.png") == (35, 32)
    made = built("isic_2018", tmp_path / "in", tmp_path / "corrected", "corrected")
    assert size_of(made, tmp_path, "corrected", "images/train_00001_isic2018_crop.png") == (28, 28)
    assert size_of(made, tmp_path, "corrected", "images/train_00003_isic2018_crop.png") == (42, 36), "both parts"
    assert "1 pictures that have an empty mask" in made.notes
    assert {file.facts["label"] for file in made.of_kind("crop")} == {"skin lesion"}


def test_polyps_lose_a_row_and_a_column_as_published(tmp_path: Path) -> None:
    made = build("polypgen", tmp_path, "release")
    assert size_of(made, tmp_path, "release", "images/train_00000_polyp.png") == (34, 31)
    assert "polypgen_512/test/images_C1/00000.png" in {file.path for file in made.of_kind("array")}
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
    assert "9 nuclei with an empty mask, without a crop" in made.notes
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
