"""What is wrong with a row or file is said about that row or file, and the rest is built."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import make_sets as make
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from making import built
from PIL import Image

from medheb.build.inventory import Inventory
from medheb.core.errors import MedhebError


def faults(made: Inventory) -> dict[str, str]:
    """Fault by the name of its file and row."""
    return {refusal.where.rpartition("/")[2]: refusal.fault for refusal in made.refusals}


def bomb() -> bytes:
    """A small PNG that declares 30,000 x 30,000 pixels."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", 30_000, 30_000, 8, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(100))) + chunk(b"IEND", b"")
    )


def encoded(mode: str, kind: str, **options: Any) -> bytes:
    stream = BytesIO()
    Image.fromarray(make.pixels(3)).convert(mode).save(stream, kind, **options)
    return stream.getvalue()


# --- MedMNIST -------------------------------------------------------------------------------------------------------

Change = Callable[[dict[str, np.ndarray]], None]


def mnist(
    tmp_path: Path, change: Change, protocol: str = "corrected", options: dict[str, Any] | None = None
) -> Inventory:
    arrays = make.medmnist()
    change(arrays)
    make.put_npz(tmp_path / "in" / "pathmnist_224.npz", arrays)
    return built("pathmnist", tmp_path / "in", tmp_path / "out", protocol, options=options)  # type: ignore[arg-type]


def test_a_label_outside_the_classes(tmp_path: Path) -> None:
    def change(arrays: dict[str, np.ndarray]) -> None:
        arrays["test_labels"][2] = 99

    made = mnist(tmp_path, change)
    assert faults(made) == {
        "pathmnist_224.npz: test_images, row 2": "has label 99, outside the 9 classes of the set",
    }
    assert len(made.of_kind("picture")) == 8
    assert "cases, files or rows that could not be used: 1; the inventory names each" in made.notes
    made = mnist(tmp_path, change, "release")
    assert "output_images/test/99/test_000002.png" in {file.path for file in made.files}
    assert [(remark.where, remark.oddity) for remark in made.remarks] == [
        ("pathmnist_224.npz: test_images, row 2", "has label 99, outside the 9 classes of the set")
    ]


@pytest.mark.parametrize(
    ("member", "value", "fault"),
    [
        ("val_images", np.zeros((2, 28, 28), np.uint16), "holds uint16 values, not 8 bit pictures"),
        ("val_images", np.zeros((2, 28, 28, 2), np.uint8), r"no rows of grey, RGB or RGBA pictures"),
        ("val_labels", np.array([[0.5], [1.0]]), "has 1 labels of float64 a row where 1 whole numbers should be"),
        ("val_labels", np.zeros((2, 14), np.uint8), "has 14 labels of uint8 a row where 1 whole numbers should be"),
    ],
)
def test_a_part_that_is_no_pictures_with_labels_leaves_the_others(
    tmp_path: Path, member: str, value: np.ndarray, fault: str
) -> None:
    made = mnist(tmp_path, lambda arrays: arrays.update({member: value}))
    (refusal,) = made.refusals
    assert fault.replace("\\", "") in refusal.fault
    assert "pathmnist_224.npz" in refusal.where
    assert len(made.of_kind("picture")) == 7


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda arrays: arrays.pop("val_images"), "holds no array val_images"),
        (lambda arrays: arrays.update(val_labels=np.zeros((3, 1), np.uint8)), "holds 2 pictures but 3 labels of val"),
        (
            lambda arrays: arrays.update(val_labels=np.array([[None], [1]])),
            "holds pickled objects, which could run code",
        ),
    ],
)
def test_an_archive_without_its_arrays_gives_nothing(tmp_path: Path, change: Change, fault: str) -> None:
    with pytest.raises(MedhebError, match=fault):
        mnist(tmp_path, change)


def test_the_archive_of_the_wanted_size(tmp_path: Path) -> None:
    make.put_npz(tmp_path / "in" / "pathmnist_64.npz", make.medmnist())
    made = built("pathmnist", tmp_path / "in", tmp_path / "out")
    assert made.notes == ("pictures of 64 pixels: the folder has no archive of 224, the size of the manifest",)
    make.put_npz(tmp_path / "in" / "pathmnist.npz", make.medmnist())
    with pytest.raises(MedhebError, match="holds pathmnist in sizes 28, 64, but not 224"):
        built("pathmnist", tmp_path / "in", tmp_path / "out")
    assert built("pathmnist", tmp_path / "in", tmp_path / "out", options={"size": 28}).notes == ()
    with pytest.raises(MedhebError, match="size"):
        built("pathmnist", tmp_path / "in", tmp_path / "out", options={"size": 32})


@pytest.mark.parametrize("label", ["a/b", "..", " blank", ""])
def test_a_label_text_that_cannot_name_a_folder(tmp_path: Path, label: str) -> None:
    with pytest.raises(MedhebError, match="class texts that can name a folder"):
        mnist(tmp_path, lambda _: None, options={"labels": ["x", label]})


def test_a_cut_archive_is_named(tmp_path: Path) -> None:
    path = tmp_path / "in" / "pathmnist_224.npz"
    make.put_npz(path, make.medmnist())
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(MedhebError, match="is not a NumPy archive"):
        built("pathmnist", tmp_path / "in", tmp_path / "out")


def test_labels_other_than_0_and_1_of_several_findings(tmp_path: Path) -> None:
    make.lay_chestmnist(tmp_path / "in")
    with np.load(tmp_path / "in" / "chestmnist_224.npz") as archive:
        arrays = dict(archive)
    arrays["test_labels"][0, 0] = 2
    make.put_npz(tmp_path / "in" / "chestmnist_224.npz", arrays)
    with pytest.raises(MedhebError, match="holds labels other than 0 and 1"):
        built("chestmnist", tmp_path / "in", tmp_path / "out")


# --- PanNuke --------------------------------------------------------------------------------------------------------


def tiles(tmp_path: Path, cells: list[object], tissues: list[object] | None = None, extra: str = "") -> Path:
    """Folds of which the first has the given cells, one nucleus each."""
    top = tmp_path / "in"
    make.lay_pannuke(top)
    plane = make.mask((3, 3, 40, 36))
    tissues = tissues or [0] * len(cells)
    rows = [(cell, tissue, [plane], [0]) for cell, tissue in zip(cells, tissues, strict=True)]
    make.put_tiles(top / "data" / "fold1-00000-of-00001.parquet", rows)
    lines = [f"Adrenal Gland/fold1_{row:08d}.png,test" for row in range(1, len(cells))]
    listed = (top / "PanNuke_split.csv").read_text(encoding="utf-8")
    make.put(top / "PanNuke_split.csv", listed + "\n" + "\n".join(lines).replace(",", ";") + extra)
    return top


def test_pictures_that_are_none(tmp_path: Path) -> None:
    good = make.png(make.pixels(1))
    cells: list[object] = [b"", b"<html><body>Not found", good[: len(good) // 2], bomb(), bytes(50), good, None]
    made = built("pannuke", tiles(tmp_path, [make.cell(c) for c in cells]), tmp_path / "out")  # type: ignore[arg-type]
    table = "fold1-00000-of-00001.parquet"
    assert faults(made) == {
        f"{table}, row 0": "is empty (0 bytes)",
        f"{table}, row 1": "is a web page, not a picture",
        f"{table}, row 2": "is a picture whose end is missing",
        f"{table}, row 3": "declares far more pixels than any real picture has: a decompression bomb",
        f"{table}, row 4": "holds zero bytes only (50)",
        f"{table}, row 6": "holds no picture",
    }
    assert len(made.of_kind("picture")) == 7
    assert len(made.of_kind("region_picture")) == 7
    assert "cases, files or rows that could not be used: 6; the inventory names each" in made.notes


def test_unusual_pictures_become_rgb_and_are_counted(tmp_path: Path) -> None:
    deep = Image.fromarray(make.pixels(2, colours=0).astype(np.uint16) * 200)
    stream = BytesIO()
    deep.save(stream, "PNG")
    exif = Image.Exif()
    exif[274] = 6
    cells: list[object] = [
        encoded("CMYK", "TIFF"),
        encoded("P", "PNG"),
        encoded("LA", "PNG"),
        stream.getvalue(),
        encoded("L", "PNG"),
        encoded("RGB", "PNG", exif=exif.tobytes()),
    ]
    top = tiles(tmp_path, [make.cell(c) for c in cells])  # type: ignore[arg-type]
    made = built("pannuke", top, tmp_path / "out")
    assert made.refusals == ()
    folder = tmp_path / "out" / made.images
    found = {file.path for file in made.of_kind("picture") if file.path.startswith("train_images/Adrenal")}
    assert len(found) + sum(f.path.startswith("test_images/Adrenal") for f in made.of_kind("picture")) == 8
    for file in made.of_kind("picture"):
        with Image.open(folder / file.path) as image:
            assert (image.mode, image.size) == ("RGB", (48, 40)), "masks lie over stored pixels: nothing is turned"
    done = {str(file.facts["transform"]) for file in made.of_kind("picture")}
    deep_as_rgb = "more than 8 bits, stretched to 8; grey to RGB"
    assert {"as stored", "CMYK to RGB", "P to RGB", "grey to RGB", deep_as_rgb} <= done
    counted = [note for note in made.notes if note[0].isdigit()]
    assert "1 picture: CMYK to RGB" in counted
    assert "1 picture: P to RGB" in counted
    assert any("more than 8 bits" in note for note in counted)
    assert any("alpha" in note for note in counted)
    made = built("pannuke", top, tmp_path / "release", "release")
    modes = set()
    for file in made.of_kind("picture"):
        with Image.open(tmp_path / "release" / made.images / file.path) as image:
            modes.add(image.mode)
    assert modes == {"RGB", "P", "LA", "I;16", "L"}, "as the published program keeps them"


def test_samples_that_no_png_holds(tmp_path: Path) -> None:
    stream = BytesIO()
    Image.fromarray(make.pixels(2, colours=0).astype(np.int32) * 1000).save(stream, "TIFF")
    cells: list[object] = [make.cell(stream.getvalue()), make.cell(make.png(make.pixels(1)))]
    top = tiles(tmp_path, cells)
    made = built("pannuke", top, tmp_path / "out", "release")
    assert faults(made) == {"fold1-00000-of-00001.parquet, row 0": "has samples that do not fit into 16 bits"}
    assert len(made.of_kind("picture")) == 7
    assert built("pannuke", top, tmp_path / "corrected").refusals == (), "stretched to 8 bits there"


@pytest.mark.parametrize(
    ("tissues", "fault"),
    [
        ([0, 19], "has tissue 19, outside the 19 of the set"),
        ([0, -1], "has tissue -1, outside the 19 of the set"),
        ([0.0, 0.5], "has tissue 0.5, outside the 19 of the set"),
        (["0", "skin"], "has tissue 'skin', which is no number"),
        ([0, None], "has no tissue"),
        ([0, 7], "is not in PanNuke_split.csv as Head and Neck/fold1_00000001.png"),
    ],
)
def test_a_tissue_outside_the_set(tmp_path: Path, tissues: list[object], fault: str) -> None:
    cells = [make.cell(make.png(make.pixels(n))) for n in range(2)]
    made = built("pannuke", tiles(tmp_path, list(cells), tissues), tmp_path / "out")
    assert faults(made) == {"fold1-00000-of-00001.parquet, row 1": fault}
    assert len(made.of_kind("region_picture")) == 8, "its nuclei need no tissue"


def test_a_list_that_names_a_picture_twice_or_with_another_word(tmp_path: Path) -> None:
    cells: list[object] = [make.cell(make.png(make.pixels(n))) for n in range(2)]
    top = tiles(tmp_path, cells, extra="\nAdrenal Gland/fold1_00000001.png;train")
    made = built("pannuke", top, tmp_path / "out")
    [(where, fault)] = faults(made).items()
    assert (where, fault[:46]) == ("PanNuke_split.csv, line 12", "lists Adrenal Gland/fold1_00000001.png a secon")
    assert "train_images/Adrenal Gland/fold1_00000000.png" in {file.path for file in made.files}, "the rest is built"
    lines = (top / "PanNuke_split.csv").read_text(encoding="utf-8").splitlines()[:-2]
    make.put(top / "PanNuke_split.csv", "\n".join([*lines, "Adrenal Gland/fold1_00000001.png;fold3"]))
    made = built("pannuke", top, tmp_path / "out")
    assert faults(made) == {"PanNuke_split.csv, line 11": "has the split 'fold3'"}


@pytest.mark.parametrize(
    ("masks", "kinds", "fault"),
    [
        ([make.mask((0, 0, 9, 9))], [5], "is of kind 5, outside the 5 of the set"),
        ([make.mask((0, 0, 9, 9), width=30)], [1], "has a mask of 30 x 40 over a picture of 48 x 40"),
        ([make.mask((0, 0, 9, 9))] * 2, [1], "has 2 masks but 1 kinds of nuclei"),
    ],
)
def test_nuclei_that_cannot_be_cut_out(tmp_path: Path, masks: list[np.ndarray], kinds: list[int], fault: str) -> None:
    top = tmp_path / "in"
    make.lay_pannuke(top)
    path = top / "data" / "fold1-00000-of-00001.parquet"
    make.put_tiles(path, [(make.cell(make.png(make.pixels(1))), 0, masks, kinds)])
    made = built("pannuke", top, tmp_path / "out")
    assert [refusal.fault for refusal in made.refusals] == [fault]
    assert not [file for file in made.of_kind("crop") if "fold1" in file.path]
    assert len(made.of_kind("picture")) == 7


def test_tables_that_are_missing_damaged_or_named_alike(tmp_path: Path) -> None:
    top = tmp_path / "in"
    make.lay_pannuke(top)
    (top / "data" / "fold3-00000-of-00001.parquet").unlink()
    make.put(top / "data" / "more.parquet", b"PAR1")
    pq.write_table(pa.table({"a": [1]}), top / "data" / "other.parquet")
    made = built("pannuke", top, tmp_path / "out")
    found = faults(made)
    assert found["fold3-00000-of-00001.parquet"] == "is missing"
    assert found["more.parquet"].startswith("is not a parquet file")
    assert found["other.parquet"] == "has no column categories, image, instances: no nuclei of it"
    make.put(top / "data" / "more (.parquet", b"PAR1")
    with pytest.raises(MedhebError, match="holds two tables whose names differ in blanks or signs only"):
        built("pannuke", top, tmp_path / "out")


def test_without_the_published_list(tmp_path: Path) -> None:
    top = tmp_path / "in"
    make.lay_pannuke(top)
    (top / "PanNuke_split.csv").unlink()
    made = built("pannuke", top, tmp_path / "out", "release")
    assert "no PanNuke_split.csv: no class folders, only nuclei" in made.notes
    assert not made.of_kind("picture")
    made = built("pannuke", top, tmp_path / "out")
    assert "the split is ours, 7:3 by a keyed hash of the group: no published list was at hand" in made.notes
    assert len(made.of_kind("picture")) == 9


# --- MedSegBench and Kvasir-SEG -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "fault", "pictures"),
    [
        (lambda a: a.update(val_label=a["val_label"][:0]), None, 0),
        (lambda a: a.update(val_label=np.concatenate([a["val_label"]] * 2)), "holds 1 pictures but 2 masks of val", 4),
        (lambda a: a.pop("val_label"), "holds no masks of val: no labels, label, label_C1, masks, mask", 4),
        (lambda a: a.update(val_label=a["val_label"][:, :30]), "has shape (40, 48, 3) but a mask of (30, 48)", 4),
        (lambda a: a.update(val_images=a["val_images"] * 2.0), "holds fractions that are not from 0 to 1", 4),
        (lambda a: a.update(val_images=a["val_images"].astype(np.int32)), "holds int32 values, not 8 bit pictures", 4),
        (lambda a: a.update(val_images=a["val_images"][..., :2]), "has shape (40, 48, 2), which is no picture", 4),
    ],
)
def test_masks_and_pictures_that_do_not_fit(tmp_path: Path, change: Change, fault: str | None, pictures: int) -> None:
    arrays = make.segmented(3)
    change(arrays)
    make.put_npz(tmp_path / "in" / "isic2018_512.npz", arrays)
    if fault is None:
        with pytest.raises(MedhebError, match=r"val_label\.npy: has the empty shape"):
            built("isic_2018", tmp_path / "in", tmp_path / "out")
        return
    made = built("isic_2018", tmp_path / "in", tmp_path / "out")
    assert [refusal.fault for refusal in made.refusals] == [fault]
    assert len(made.of_kind("picture")) == pictures
    assert len(made.of_kind("crop")) == pictures


def kvasir(tmp_path: Path, boxes: dict[str, Any] | str, protocol: str = "corrected") -> Inventory:
    make.lay_kvasir_seg(tmp_path / "in")
    text = boxes if isinstance(boxes, str) else json.dumps(boxes)
    make.put(tmp_path / "in" / "Kvasir-SEG" / "kavsir_bboxes.json", text)
    return built("kvasir_seg", tmp_path / "in", tmp_path / "out", protocol)  # type: ignore[arg-type]


def test_boxes_that_are_none(tmp_path: Path) -> None:
    boxes = {
        "cju0": {"bbox": [make.box(5, 5, 40, 36), make.box("x", 1, 2, 3), {"label": "polyp"}]},
        "cju1": {"bbox": [make.box(50, 50, 60, 60)]},
        "cju2": {"bbox": []},
        "cju3": {"bbox": [make.box(40, 36, 5, 5)]},
        "gone": {"bbox": [make.box(1, 1, 9, 9)]},
        "odd": 7,
    }
    make.lay_kvasir_seg(tmp_path / "in")
    listed = (tmp_path / "in" / "split.csv").read_text() + "gone ,x\n"
    make.put(tmp_path / "in" / "split.csv", listed.replace("gone ,x", "train,gone.png\ntest,odd.png"))
    made_boxes = json.dumps(boxes)
    make.put(tmp_path / "in" / "Kvasir-SEG" / "kavsir_bboxes.json", made_boxes)
    made = built("kvasir_seg", tmp_path / "in", tmp_path / "out")
    assert faults(made) == {
        "kavsir_bboxes.json, cju0, box 1": "has a corner that is no number: x1 'x'",
        "kavsir_bboxes.json, cju0, box 2": "has no x1",
        "kavsir_bboxes.json, cju1": "has no box with a pixel in the picture",
        "kavsir_bboxes.json, cju2": "has no box",
        "gone.jpg": "is missing",
        "kavsir_bboxes.json, odd": "has no list 'bbox'",
    }
    crops = {file.path: file.facts["transform"] for file in made.of_kind("crop")}
    assert crops == {
        "images/train_cju0_polyp.png": "crop 5,5,40,36",
        "images/train_cju3_polyp.png": "crop 5,5,40,36",
    }, "swapped corners are put in order"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('{"cju0": {}}\n{"cju1": {}}\n', "holds one JSON value a line"),
        ('{"cju0": {}, "cju0": {}}', "a key stands twice"),
        ("[]", "is no table of picture ids"),
    ],
)
def test_a_box_file_that_is_none(tmp_path: Path, text: str, fault: str) -> None:
    with pytest.raises(MedhebError, match=fault):
        kvasir(tmp_path, text)


def test_kvasir_without_the_published_list(tmp_path: Path) -> None:
    make.lay_kvasir_seg(tmp_path / "in")
    (tmp_path / "in" / "split.csv").unlink()
    with pytest.raises(MedhebError, match=r"has no split\.csv, without which nothing was published"):
        built("kvasir_seg", tmp_path / "in", tmp_path / "out", "release")
    made = built("kvasir_seg", tmp_path / "in", tmp_path / "out")
    assert "the split is ours, 7:3 by a keyed hash of the group: no published list was at hand" in made.notes
    assert len(made.of_kind("crop")) == 4


def test_a_picture_in_no_list_and_a_list_with_two_words(tmp_path: Path) -> None:
    make.lay_kvasir_seg(tmp_path / "in")
    split_list = tmp_path / "in" / "split.csv"
    make.put(split_list, split_list.read_text().replace("cju2", "cjuX"))
    made = built("kvasir_seg", tmp_path / "in", tmp_path / "out")
    assert faults(made) == {"kavsir_bboxes.json, cju2": "is not in split.csv"}
    for text, fault, name in (
        ("train,cju0.png\n", "lists a picture a second time", "cju0"),
        ("fold1,cju1.png\n", "neither train nor test", "cju0"),
        ("train,cju1.png,more\n", "has more cells than the header", "cju0"),
    ):
        rest = "train,cju2.png\ntrain,cju3.png\n"
        make.put(split_list, f"split,original_image_path\ntest,{name}.png\n{text}{rest}")
        made = built("kvasir_seg", tmp_path / "in", tmp_path / "out")
        assert fault in faults(made)["split.csv, line 3"]
        assert "images/train_cju2.png" in {file.path for file in made.files}, "the rest is built"


# --- ROCO-QA and USData ---------------------------------------------------------------------------------------------


def test_figures_that_are_none_keep_their_number(tmp_path: Path) -> None:
    top = tmp_path / "in"
    make.lay_roco_vqa(top)
    cells = [b"", bomb(), encoded("CMYK", "JPEG"), make.png(make.pixels(9))]
    table = {
        "image": pa.array([make.cell(content) for content in cells], make.PICTURE),
        "question": pa.array(["a", "b", "c", None]),
        "answer": pa.array(["a", "b", "c", "d"]),
    }
    path = top / "data" / "Vaild-00000-of-00001-1ddc94eb806f44ae.parquet"
    pq.write_table(pa.table(table), path)
    made = built("roco_vqa", top, tmp_path / "out")
    assert list(faults(made).items())[:3] == [
        (f"{path.name}, row 0", "is empty (0 bytes)"),
        (f"{path.name}, row 1", "declares far more pixels than any real picture has: a decompression bomb"),
        (f"{path.name}, row 3", "has no question"),
    ]
    found = sorted(file.path for file in made.of_kind("picture"))
    assert "images/Vaild_sample_000003.jpg" in found
    assert "images/Train_sample_000005.jpg" in found, "left-out rows are counted"


def test_a_missing_table_of_roco_stops_the_build(tmp_path: Path) -> None:
    make.lay_roco_vqa(tmp_path / "in")
    (tmp_path / "in" / "data" / "Valid-00001-of-00002.parquet").unlink()
    for protocol in ("release", "corrected"):
        with pytest.raises(MedhebError, match="is missing") as caught:
            built("roco_vqa", tmp_path / "in", tmp_path / "out", protocol)  # type: ignore[arg-type]
        assert "Valid-00001-of-00002.parquet" in str(caught.value)


def test_reports_that_are_none(tmp_path: Path) -> None:
    top = tmp_path / "in"
    make.lay_usdata(top)
    path = top / "USData" / "new_Liver2.json"
    content = make.reports("liver", 2)
    good = content["train"][0]
    content["train"] += [
        good | {"image_path": ["4_1.jpeg"]},
        good | {"uid": "7", "image_path": ["1_2.jpeg"]},
        good | {"uid": "8", "image_path": ["gone.jpeg"]},
        good | {"uid": "9", "image_path": ["../../x.jpeg"]},
        good | {"uid": "10", "image_path": [], "finding": "x"},
        good | {"uid": "11", "finding": " ", "image_path": ["y.jpeg"]},
        good | {"uid": None, "image_path": ["z.jpeg"]},
        7,  # type: ignore[list-item]
    ]
    make.put(path, json.dumps(content))
    (top / "USData" / "new_Thyroid2.json").unlink()
    broken = top / "USData" / "Mammary_report" / "3_2.jpeg"
    make.put(broken, broken.read_bytes()[:80])
    made = built("usdata", top, tmp_path / "out")
    name = "new_Liver2.json, train report"
    found = faults(made)
    assert found == {
        "3_2.jpeg": found["3_2.jpeg"],
        "new_Thyroid2.json": "is missing: no reports of the thyroid",
        f"{name} 2": "has the uid of an earlier report",
        f"{name} 3": "names a picture of an earlier report",
        f"{name} 4": "names a picture that is not in the download",
        f"{name} 5": found[f"{name} 5"],
        f"{name} 6": "lists no pictures",
        f"{name} 7": "has no finding",
        f"{name} 8": "has no uid",
        f"{name} 9": "is no report",
    }
    assert "damaged" in found["3_2.jpeg"] or "missing" in found["3_2.jpeg"]
    assert found[f"{name} 5"].startswith("names a picture whose path is not a path inside its folder")
    assert len(made.of_kind("picture")) == 2 * 3 + 2 * 4, "both pictures of a report with a bad one are left out"


def test_a_report_may_have_the_number_0(tmp_path: Path) -> None:
    make.lay_usdata(tmp_path / "in")
    path = tmp_path / "in" / "USData" / "new_Liver2.json"
    content = make.reports("liver", 2)
    content["train"][0]["uid"] = 0
    make.put(path, json.dumps(content))
    made = built("usdata", tmp_path / "in", tmp_path / "out")
    assert not made.refusals
    assert "liver/0" in {file.facts.get("case") for file in made.of_kind("picture")}


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('{"uid": 1}\n{"uid": 2}', "holds one JSON value a line"),
        ('{"train": [], "fold2": []}', "has a split that is none of"),
        ('{"train": 7}', "is no table of report lists by split"),
    ],
)
def test_a_table_of_reports_that_is_none(tmp_path: Path, text: str, fault: str) -> None:
    make.lay_usdata(tmp_path / "in")
    make.put(tmp_path / "in" / "USData" / "new_Liver2.json", text)
    with pytest.raises(MedhebError, match=fault):
        built("usdata", tmp_path / "in", tmp_path / "out")
