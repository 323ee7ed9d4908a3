"""Inputs of every source in its publisher's layout: small, yet large enough for each of its tasks to have rows."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ROOMS = [str(Path(__file__).resolve().parents[1] / room) for room in ("build_2d", "build_3d", "build_text")]
sys.path += [room for room in ROOMS if room not in sys.path]

import make_all  # noqa: E402
import make_kept  # noqa: E402
import make_sets  # noqa: E402
import make_texts  # noqa: E402
import make_xrays  # noqa: E402
import small_volumes  # noqa: E402
from make_kept import picture, put  # noqa: E402
from small_volumes import table  # noqa: E402

DATASETS = make_kept.DATASETS
FEW = 8
FINDINGS = ("Edema", "Fracture", "Pneumonia")


# pictures
def medmnist(name: str) -> Callable[[Path], None]:
    """Archives of 28 pixels: in each part two pictures of each of three classes."""
    options = DATASETS[name].recipe.options
    grey = 0 if name.startswith("organ") or name in {"octmnist", "tissuemnist", "chestmnist"} else 3

    def lay(top: Path) -> None:
        arrays: dict[str, np.ndarray] = {}
        for place, split in enumerate(("train", "val", "test")):
            found = [make_sets.pixels(40 * place + row, 28, 28, grey) for row in range(6)]
            arrays[f"{split}_images"] = np.stack(found)
            labels = np.arange(6, dtype=np.uint8)[:, None] % 3
            arrays[f"{split}_labels"] = np.eye(14, dtype=np.uint8)[labels[:, 0]] if name == "chestmnist" else labels
        make_sets.put_npz(top / f"{options['archive']}_224.npz", arrays)

    return lay


def brain(top: Path) -> None:
    for part, first in (("Testing", 0), ("Training", 120)):
        for place, name in enumerate(("glioma", "meningioma", "notumor", "pituitary")):
            for number in range(2):
                level = first + 20 * place + 7 * number
                put(top / part / name / f"{name}{number}.jpg", picture(level, kind="JPEG", size=(15, 7)))


def aptos(top: Path) -> None:
    table(top / "train.csv", ["id_code", "diagnosis"], [[f"{n:012x}", n % 5] for n in range(40)])
    for number in range(40):
        put(top / "train_images" / f"{number:012x}.png", picture(number))


def isic(top: Path) -> None:
    names = ["MEL", "NV", "BCC", "AK", "BKL", "DF", "VASC", "SCC", "UNK"]
    for part, first in (("Test", 0), ("Training", 100)):
        rows = [[f"ISIC_{first + n:07d}", *(float(place == n % 3) for place in range(9))] for n in range(9)]
        table(top / f"ISIC_2019_{part}_GroundTruth.csv", ["image", *names], rows)
        for number in range(9):
            path = top / f"ISIC_2019_{part}_Input" / f"ISIC_{first + number:07d}.jpg"
            put(path, picture(first + 5 * number, kind="JPEG"))


def rfmid(top: Path) -> None:
    names = list(DATASETS["rfmid"].recipe.options["labels"])
    flags = [[int(place == number % 3) for place in range(len(names))] for number in range(9)]
    table(
        top / "RFMiD_Testing_Labels.csv",
        ["ID", "Disease_Risk", *names],
        [[n + 1, 1, *row] for n, row in enumerate(flags)],
    )
    for number in range(9):
        put(top / "Test" / f"{number + 1}.png", picture(number))


def hub(*names: str, width: int, column: str = "image", **more: Callable[[int], object]) -> Callable[[Path], None]:
    """Parquet files of questions; pictures of another ``width`` for each source, since equal ones would be a leak."""

    def lay(top: Path) -> None:
        for place, name in enumerate(names):
            columns: dict[str, list[Any]] = {
                column: [{"bytes": picture(30 * place + n, size=(width, 7)), "path": None} for n in range(20)],
                "question": [f"what is {n}?" for n in range(20)],
                "answer": [f"it is {place} {n % 7}" for n in range(20)],
            }
            columns |= {key: [make(n) for n in range(20)] for key, make in more.items()}
            (top / name).parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(pa.table(columns), top / name)

    return lay


def pmc(top: Path) -> None:
    columns = ["Figure_path", "Question", "Answer", "Choice A", "Choice B", "Choice C", "Choice D", "Answer_label"]
    for part in ("test", "train"):
        rows = []
        for number in range(6):
            name, own = f"{part}{number}.jpg", [f"{letter}:{letter} {part} {number}" for letter in "ABCD"]
            rows.append([name, f"what {number}", own[number % 4], *own, "ABCD"[number % 4]])
            put(top / "images" / name, picture(10 * number + len(part), kind="JPEG"))
        table(top / f"{part}.csv", columns, rows)


def omni(top: Path) -> None:
    rows = [
        make_kept.question(n, gt_answer=("MR.", "CT.")[n % 2], question_id=f"q{n}", question=f"What is {n}?")
        for n in range(6)
    ]
    put(top / "QA_information" / "Open-access" / "Chest CT Scan.json", json.dumps(rows))
    for number in range(6):
        put(top / "Images" / "Chest CT Scan" / f"{number}.png", picture(number))


def pannuke(top: Path) -> None:
    lines = []
    for fold in (1, 2, 3):
        rows = []
        for row in range(6):
            # The published rule makes large nuclei the test; pictures of the third fold have none.
            large = (3 + row, 3, 40, 36) if fold < 3 else (20, 20, 26 + row, 27)
            masks = [make_sets.mask(large), make_sets.mask((10, 10, 16 + row, 17))]
            rows.append((make_sets.cell(make_sets.png(make_sets.pixels(10 * fold + row))), row % 3, masks, [0, 1]))
            name = ["Adrenal Gland", "Bile Duct", "Bladder"][row % 3]
            lines.append(f"{name}/fold{fold}_{row:08d}.png ; {'test' if fold == 2 else 'train'}")
        make_sets.put_tiles(top / "data" / f"fold{fold}-00000-of-00001.parquet", rows)
    put(top / "PanNuke_split.csv", "image_path ; split\n" + "\n".join(lines))


def roco(top: Path) -> None:
    names = ("Vaild-00000-of-00001-1ddc94eb806f44ae", "Train-00000-of-00001-91a106d1a22c7cc9")
    names += ("Valid-00001-of-00002", "Test-00000-of-00001-91a106d1a22c7cc9", "Valid-00000-of-00002")
    hub(*(f"data/{name}.parquet" for name in names), width=10)(top)


def chexpert(top: Path) -> None:
    names, lines, labels = FINDINGS, [], []
    for number in range(18):
        path = f"valid/patient{number}/study1/view1_frontal.jpg"
        lines.append([path, "", "Frontal", f"patient{number}", "long", f"seen {number}", f"so {number}", "valid"])
        labels.append({"path_to_image": path} | {name: int(place == number % 3) for place, name in enumerate(names)})
        make_xrays.put_picture(top / "PNG" / "PNG" / Path(path).with_suffix(".png"), make_xrays.grey(number))
    make_xrays.put_table(top / "df_chexpert_plus_240401.csv", make_xrays.CHEXPERT, lines)
    put(top / "chexbert_labels" / "impression_fixed.json", "".join(json.dumps(row) + "\n" for row in labels))


def vindr_cxr(top: Path) -> None:
    make_xrays.put_vindr(top, [[f"tr{n}", "R1", "ILD", 5, 5, 50, 50] for n in range(3)], make_all.BOXES)
    # Pictures of their own: the made ones are those of other sources too, which would be a leak.
    for number, path in enumerate(sorted(top.rglob("*.dicom"))):
        values = make_xrays.grey(200 + number, 94, 126).astype(np.uint16) * 16
        make_xrays.put_dicom(path, values, BitsStored=12, HighBit=11)


def vindr_mammo(top: Path) -> None:
    rows = [[f"s{n % 2}", "q", f"m{n}", "['Mass']", 10, 10, 60, 60, "test" if n % 2 else "training"] for n in range(6)]
    make_xrays.put_mammo(top, rows)
    for number, path in enumerate(sorted(top.rglob("*.dicom"))):
        values = make_xrays.grey(300 + number, 98, 130).astype(np.uint16) * 4
        make_xrays.put_dicom(path, values, Modality="MG", ImageLaterality="L")


def mimic(top: Path) -> None:
    make_xrays.put_mimic(top / "mimic")
    options = DATASETS["mimic_cxr"].recipe.options
    rows = [
        [
            10000000 + 1000 * n,
            50000000 + n,
            *("1.0" if name in (FINDINGS[n % 3], "Edema") else "" for name in options["labels"]),
        ]
        for n in range(8)
    ]
    header = ["subject_id", "study_id", *options["labels"]]
    make_xrays.put_table(top / "mimic" / "mimic-cxr-2.0.0-chexpert.csv.gz", header, rows)


def mimic_lt(top: Path) -> None:
    make_xrays.put_mimic(top / "mimic")
    header, rows = [*make_xrays.LT, *make_xrays.LT_LABELS], make_xrays.lt_rows(8)
    for part, first in (("test", 1), ("train", 0)):
        make_xrays.put_table(top / "labels" / f"mimic-cxr-lt_single-label_{part}.csv", header, rows[first::2])


def mimic_vqa(top: Path) -> None:
    make_xrays.put_mimic(top / "mimic")
    lines = [[50000000 + n, "presence", f"question {n}?", ("yes", "no", "left")[n % 3]] for n in range(8)]
    header = ["study_id", "question_type", "question", "answer"]
    make_xrays.put_table(top / "vqa" / "medical_cxr_vqa_questions.csv", header, lines)


# texts
def medical_qa(top: Path) -> None:
    make_texts.json_lines(
        top / "corpus.jsonl", [{"_id": f"a{n}", "title": "", "text": f"Answer {n}."} for n in range(FEW)]
    )
    make_texts.json_lines(top / "queries.jsonl", [{"_id": f"q{n}", "text": f"Question {n}?"} for n in range(FEW)])
    rows = [{"query-id": f"q{n}", "corpus-id": f"a{n}", "score": 1} for n in range(FEW)]
    make_texts.json_lines(top / "qrels" / "test.jsonl", rows)


def pubmedqa(top: Path) -> None:
    rows = {
        str(n): {
            "QUESTION": f"Does {n}?",
            "CONTEXTS": [f"Text {n}."],
            "LONG_ANSWER": f"Answer {n}",
            "YEAR": None,
            "final_decision": "yes",
        }
        for n in range(1, 10)
    }
    put(top / "data" / "ori_pqal.json", json.dumps(rows))
    put(top / "data" / "test_ground_truth.json", json.dumps({str(n): "yes" for n in range(1, 6)}))


MEDMNIST = [name for name, dataset in DATASETS.items() if dataset.recipe.name == "medmnist2d"]
LAYERS: dict[str, Callable[[Path], object]] = {
    # What the builds' own tests use, where that is enough.
    **{name: (lambda top, lay=lay: lay(top, 1)) for name, lay in make_all.LAYERS.items()},
    **small_volumes.LAYERS,
    **{name: medmnist(name) for name in MEDMNIST},
    "aptos_2019": aptos,
    "brain_tumor_mri": brain,
    "chexpert_plus": chexpert,
    "isic_2019": isic,
    "medical_qa_retrieval": medical_qa,
    "medpix_vqa": hub("train-0.parquet", width=11, column="image_id", case_id=lambda n: f"MPX{n}", mode=lambda n: "CT"),
    "mimic_cxr": mimic,
    "mimic_cxr_lt": mimic_lt,
    "mimic_cxr_vqa": mimic_vqa,
    "omnimedvqa": omni,
    "pannuke": pannuke,
    "path_vqa": hub("data/test-0.parquet", "data/train-0.parquet", width=12),
    "pmc_vqa": pmc,
    "pubmedqa": pubmedqa,
    "radimagenet_vqa": hub(
        "benchmark/test-0.parquet",
        "instruct/train-0.parquet",
        width=14,
        choices=lambda n: ["a", f"b{n}"],
        question_type=lambda _: "open",
        metadata=lambda n: {"correct_text": f"text {n % 5}"},
    ),
    "rfmid": rfmid,
    "roco_vqa": roco,
    "vindr_cxr": vindr_cxr,
    "vindr_mammo": vindr_mammo,
    "vqa_rad": hub("data/test-0.parquet", "data/train-0.parquet", width=13),
}
