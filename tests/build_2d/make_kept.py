"""Small sets whose pictures are kept as they are, in the layouts of their hosts."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from medheb.manifest.load import load_datasets

DATASETS = load_datasets(Path(__file__).parents[2] / "manifests" / "datasets")


def picture(level: int, mode: str = "RGB", kind: str = "PNG", size: tuple[int, int] = (9, 7)) -> bytes:
    """A small picture that no two levels share."""
    rows = np.add.outer(np.arange(size[1]), np.arange(size[0])) * 3 + level
    stream = BytesIO()
    Image.fromarray(rows.astype(np.uint8)).convert(mode).save(stream, kind)
    return stream.getvalue()


def put(path: Path, content: bytes | str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


def lay_brain(top: Path, order: int = 1) -> None:
    classes = ["glioma", "meningioma", "notumor", "pituitary"]
    for place, name in list(enumerate(classes))[::order]:
        for number in range(3):
            put(top / "archive" / "Testing" / name / f"{name}_{number}.jpg", picture(40 * place + number, kind="JPEG"))
    put(top / "archive" / "Training" / "glioma" / "x.jpg", picture(9, kind="JPEG"))


def lay_kvasir(top: Path, order: int = 1) -> None:
    names = list(DATASETS["kvasir"].recipe.options["labels"])
    for place, name in list(enumerate(names))[::order]:
        for number in range(8):
            put(top / "kvasir-dataset" / name / f"{place}{number}.jpg", picture(8 * place + number))


def lay_aptos(top: Path, order: int = 1) -> None:
    rows = [f"{number:012x},{number % 5}" for number in range(30)]
    put(top / "train.csv", "\ufeffid_code,diagnosis\r\n" + "\r\n".join(rows[::order]) + "\r\n")
    for number in range(30):
        put(top / "train_images" / f"{number:012x}.png", picture(number // 2))


def lay_isic(top: Path, order: int = 1) -> None:
    names = ["MEL", "NV", "BCC", "AK", "BKL", "DF", "VASC", "SCC", "UNK"]
    rows = [
        f"ISIC_{number:07d}," + ",".join("1.0" if place == number else "0.0" for place in range(9)) + ",1.0"
        for number in range(9)
    ]
    put(
        top / "t" / "ISIC_2019_Test_GroundTruth.csv",
        "\n".join(["image," + ",".join(names) + ",score_weight", *rows[::order]]),
    )
    nested = top / "t" / "ISIC_2019_Test_Input" / "ISIC_2019_Test_Input"
    for number in range(9):
        put(nested / f"ISIC_{number:07d}.jpg", picture(number, kind="JPEG"))


def lay_rfmid(top: Path, order: int = 1) -> None:
    names = list(DATASETS["rfmid"].recipe.options["labels"])
    header = ["ID", "Disease_Risk ", *(f"{name} " for name in names)]
    flags = [[0] * 45, [1, *[0] * 44], [0, 1, *[0] * 43], [1, 1, *[0] * 43]]
    rows = [[number + 1, int(any(row)), *row] for number, row in enumerate(flags)]
    folder = top / "Test_Set" / "Test_Set"
    folder.mkdir(parents=True)
    with (folder / "RFMiD_Testing_Labels.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows([header, *rows[::order]])
    for number in range(4):
        put(folder / "Test" / f"{number + 1}.png", picture(number))
        put(top / "Training_Set" / "Training_Set" / "Training" / f"{number + 1}.png", picture(100 + number))


def lay_path_vqa(top: Path, order: int = 1) -> None:
    for split, rows in {"test": 5, "train": 3}.items():
        table = {
            "image": [{"bytes": picture(number, kind="JPEG"), "path": None} for number in range(rows)],
            "question": [f"what is {number}?" for number in range(rows)],
            "answer": ["yes"] * rows,
        }
        path = top / "data" / f"{split}-00000-of-00001-abc.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table(table), path, row_group_size=2)


def lay_medpix(top: Path, order: int = 1) -> None:
    table = {
        "image_id": [{"bytes": picture(number // 2), "path": None} for number in range(12)],
        "case_id": [f"MPX{1000 + number // 2}" for number in range(12)],
        "question": [f"what is {number}?" for number in range(12)],
        "answer": ["yes"] * 12,
        "mode": ["test"] * 12,
    }
    path = top / "data" / "train-00000-of-00007-abc.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(table), path)


def lay_pmc(top: Path, order: int = 1) -> None:
    rows = [
        [f" PMC1_Fig{number}.jpg ", f"what {number}", " A:one ", " A:one ", " B:two", " C:three", " D: four ", "A"]
        for number in range(3)
    ]
    columns = ["Figure_path", "Question", "Answer", "Choice A", "Choice B", "Choice C", "Choice D", "Answer_label"]
    top.mkdir(parents=True, exist_ok=True)
    with (top / "test.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows([columns, *rows[::order]])
    for number in range(3):
        put(top / "images" / f"PMC1_Fig{number}.jpg", picture(number, kind="JPEG"))


def question(number: int, **changes: object) -> dict[str, object]:
    row: dict[str, object] = {
        "dataset": "Chest CT Scan",
        "question_id": f"c_{number}",
        "question_type": "Modality",
        "question": "What  modality?",
        "gt_answer": "CT.",
        "image_path": f"Images/Chest CT Scan/{number}.png",
        "option_A": "MR.",
        "option_B": "CT.",
        "modality_type": "CT",
    }
    return {**row, **changes}


def lay_omni(top: Path, order: int = 1) -> None:
    inner = top / "OmniMedVQA"
    rows = [question(number) for number in range(3)]
    put(inner / "QA_information" / "Open-access" / "Chest CT Scan.json", json.dumps(rows[::order]))
    put(inner / "QA_information" / "Restricted-access" / "x.json", "[]")
    for number in range(3):
        put(inner / "Images" / "Chest CT Scan" / f"{number}.png", picture(number))


def lay_lc25000(top: Path, order: int = 1) -> None:
    names = list(DATASETS["lc25000"].recipe.options["labels"])
    for place, name in list(enumerate(names))[::order]:
        for number in range(2):
            content = picture(20 * place + number, kind="PNG")
            put(top / "lung_colon_image_set" / "Test Set" / name / f"{name}{number}.jpeg", content)


def lay_vqa_rad(top: Path, order: int = 1) -> None:
    for split, rows in {"test": 3, "train": 4}.items():
        table = {
            "image": [{"bytes": picture(number // 2), "path": None} for number in range(rows)],
            "question": [f"what is {number}?" for number in range(rows)],
            "answer": ["no"] * rows,
        }
        path = top / "data" / f"{split}-00000-of-00001-e.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table(table), path)


def lay_radimagenet(top: Path, order: int = 1) -> None:
    rows = [
        ("B", ["a", "b"], None, picture(1)),
        ("A", ["a", "b"], "the text", picture(2)),
        ("lung", None, None, picture(3)),
    ]
    table = {
        "image": [{"bytes": row[3], "path": None} for row in rows],
        "question": ["what is it?"] * len(rows),
        "choices": [row[1] for row in rows],
        "answer": [row[0] for row in rows],
        "question_type": ["open"] * len(rows),
        "metadata": [{"correct_text": row[2]} for row in rows],
    }
    path = top / "benchmark" / "test-00000-of-00001.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(table), path)


LAYOUTS: dict[str, Callable[[Path, int], None]] = {
    "brain_tumor_mri": lay_brain,
    "kvasir": lay_kvasir,
    "lc25000": lay_lc25000,
    "aptos_2019": lay_aptos,
    "isic_2019": lay_isic,
    "rfmid": lay_rfmid,
    "path_vqa": lay_path_vqa,
    "vqa_rad": lay_vqa_rad,
    "radimagenet_vqa": lay_radimagenet,
    "medpix_vqa": lay_medpix,
    "pmc_vqa": lay_pmc,
    "omnimedvqa": lay_omni,
}
