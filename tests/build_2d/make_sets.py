"""Small archives, tables and folders in the layout of their hosts: MedMNIST, PanNuke, MedSegBench, Kvasir-SEG, ROCO-QA,
USData. Every picture has pixels of its own, and nothing is lossy, so that digests hold on every machine.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

PICTURE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
ORGANS = {
    "breast": ("new_Mammary2", "Mammary_report"),
    "thyroid": ("new_Thyroid2", "Thyroid_report"),
    "liver": ("new_Liver2", "Liver_report"),
}


def pixels(level: int, height: int = 40, width: int = 48, colours: int = 3) -> np.ndarray:
    """A picture (H, W) or (H, W, colours) that no two levels share."""
    y, x = np.mgrid[:height, :width]
    planes = [(x * 3 + y * (5 + k) + 31 * level + 17 * k) % 251 for k in range(max(colours, 1))]
    stacked = np.stack(planes, axis=-1).astype(np.uint8)
    return stacked if colours else stacked[..., 0]


def mask(*boxes: tuple[int, int, int, int], height: int = 40, width: int = 48, value: int = 1) -> np.ndarray:
    """A mask with boxes (left, top, right, bottom), ends excluded."""
    plane = np.zeros((height, width), np.uint8)
    for left, top, right, bottom in boxes:
        plane[top:bottom, left:right] = value
    return plane


def png(values: np.ndarray, kind: str = "PNG") -> bytes:
    """A picture file."""
    stream = BytesIO()
    Image.fromarray(values).save(stream, kind)
    return stream.getvalue()


def put(path: Path, content: bytes | str) -> None:
    """A file with its folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


def put_npz(path: Path, arrays: dict[str, np.ndarray], order: int = 1) -> None:
    """A compressed archive, its members in the given order or the reverse."""
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(path, **dict(list(arrays.items())[::order]))


def medmnist(colours: int = 3, classes: int = 9) -> dict[str, np.ndarray]:
    """A set of 28 pixels a side: 3, 2 and 4 rows."""
    arrays = {}
    for split, count in (("train", 3), ("val", 2), ("test", 4)):
        arrays[f"{split}_images"] = np.stack([pixels(row + 7 * count, 28, 28, colours) for row in range(count)])
        arrays[f"{split}_labels"] = np.array([[(row * 2 + count) % classes] for row in range(count)], np.uint8)
    return arrays


def lay_pathmnist(top: Path, order: int = 1) -> None:
    put_npz(top / "pathmnist_224.npz", medmnist(), order)


def lay_chestmnist(top: Path, order: int = 1) -> None:
    arrays = medmnist(colours=0)
    for split, rows in (("train", [[0], [], [1, 13]]), ("val", [[2], [12]]), ("test", [[3], [3, 4], [5], []])):
        labels = np.zeros((len(rows), 14), np.uint8)
        for row, found in enumerate(rows):
            labels[row, found] = 1
        arrays[f"{split}_labels"] = labels
    put_npz(top / "chestmnist_224.npz", arrays, order)


def segmented(colours: int, value: int = 1) -> dict[str, np.ndarray]:
    """Pictures with masks: a usual one, a small one, an empty one, two parts; and one row each for val and test."""
    boxes: dict[str, list[list[tuple[int, int, int, int]]]] = {
        "train": [[(5, 4, 40, 36)], [(20, 20, 23, 22)], [], [(2, 2, 9, 9), (30, 30, 44, 38)]],
        "val": [[(0, 0, 48, 40)]],
        "test": [[(10, 6, 45, 39)]],
    }
    arrays = {}
    for split, rows in boxes.items():
        arrays[f"{split}_images"] = np.stack([pixels(row + len(rows), colours=colours) for row in range(len(rows))])
        arrays[f"{split}_label"] = np.stack([mask(*found, value=value) for found in rows])
    return arrays


def lay_isic_2018(top: Path, order: int = 1) -> None:
    put_npz(top / "isic2018_512.npz", segmented(3), order)


def lay_usforkidney(top: Path, order: int = 1) -> None:
    put_npz(top / "usforkidney_512.npz", segmented(0, value=255), order)


def lay_polypgen(top: Path, order: int = 1) -> None:
    arrays = segmented(3)
    arrays["test_images_C1"], arrays["test_label_C1"] = arrays["test_images"], arrays["test_label"]
    put_npz(top / "polypgen_512.npz", arrays, order)


def box(left: object, top: object, right: object, bottom: object) -> dict[str, object]:
    """A box as Kvasir-SEG's file has it."""
    return {"label": "polyp", "xmin": left, "ymin": top, "xmax": right, "ymax": bottom}


def lay_kvasir_seg(top: Path, order: int = 1) -> None:
    boxes = {
        "cju0": [box(4, 4, 8, 8), box(5, 5, 40, 36)],
        "cju1": [box(20, 20, 26, 28)],
        "cju2": [box("3.9", "2", "44", "30")],
        "cju3": [box(-4, -3, 90, 90)],
    }
    names = list(boxes)[::order]
    for name in names:
        # The names say JPEG; PNG is what keeps its pixels.
        put(top / "Kvasir-SEG" / "images" / f"{name}.jpg", png(pixels(int(name[-1]))))
    entries = {name: {"height": 40, "width": 48, "bbox": boxes[name]} for name in names}
    put(top / "Kvasir-SEG" / "kavsir_bboxes.json", json.dumps(entries))
    lines = [f"{'test' if name == 'cju1' else 'train'},{name}.png" for name in names]
    put(top / "split.csv", "\r\n".join(["split,original_image_path", *lines]) + "\r\n")


def cell(content: bytes | None, path: str | None = None) -> dict[str, Any]:
    """A picture cell of a hub's table."""
    return {"bytes": content, "path": path}


def put_tiles(path: Path, rows: Sequence[tuple[object, object, list[np.ndarray], list[int]]]) -> None:
    """A table of PanNuke: picture cell, tissue, masks, kinds of nuclei; two rows a row group."""
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.table(
        {
            "image": pa.array([row[0] for row in rows], PICTURE),
            "instances": pa.array([[cell(png(plane)) for plane in row[2]] for row in rows], pa.list_(PICTURE)),
            "categories": pa.array([row[3] for row in rows], pa.list_(pa.int64())),
            "tissue": pa.array([row[1] for row in rows]),
        }
    )
    pq.write_table(table, path, row_group_size=2)


def lay_pannuke(top: Path, order: int = 1) -> None:
    lines = []
    for fold in (1, 2, 3)[::order]:
        rows = []
        for row in range(3):
            masks = [mask((3, 3, 40, 36)), mask((10, 10, 16 + row, 17)), mask(), mask((45, 1, 48, 4))]
            rows.append((cell(png(pixels(10 * fold + row))), row, masks, [0, 1, 2, 1]))
            name = ["Adrenal Gland", "Bile Duct", "Bladder"][row]
            lines.append(f"{name}/fold{fold}_{row:08d}.png,{'test' if fold == 2 else 'train'}")
        put_tiles(top / "data" / f"fold{fold}-00000-of-00001.parquet", rows)
    put(top / "PanNuke_split.csv", "\ufeffimage_path ; split\n" + "\n".join(line.replace(",", " ; ") for line in lines))


def lay_roco_vqa(top: Path, order: int = 1) -> None:
    names = [
        "Vaild-00000-of-00001-1ddc94eb806f44ae",
        "Train-00000-of-00001-91a106d1a22c7cc9",
        "Valid-00001-of-00002",
        "Test-00000-of-00001-91a106d1a22c7cc9",
        "Valid-00000-of-00002",
    ]
    (top / "data").mkdir(parents=True, exist_ok=True)
    for place, name in list(enumerate(names))[::order]:
        table = {
            "image": pa.array([cell(png(pixels(3 * place + row))) for row in range(2)], PICTURE),
            "question": pa.array([f"what is {place}{row}?" for row in range(2)]),
            "answer": pa.array([None if (place, row) == (1, 1) else f"it is {place}" for row in range(2)]),
        }
        pq.write_table(pa.table(table), top / "data" / f"{name}.parquet", row_group_size=1)


def reports(organ: str, level: int) -> dict[str, list[dict[str, Any]]]:
    """Reports of one organ: two to train, one each to validate and test, two pictures each."""
    uids = {"train": ["1", "2"], "val": ["3"], "test": ["4"]}
    return {
        split: [
            {
                "uid": uid,
                "finding": f"{organ} 回声均匀 {uid}",
                "image_path": [f"{uid}_1.jpeg", f"{uid}_2.jpeg"],
                "labels": level,
                "split": split,
            }
            for uid in found
        ]
        for split, found in uids.items()
    }


def lay_usdata(top: Path, order: int = 1) -> None:
    for level, (organ, (table, folder)) in list(enumerate(ORGANS.items()))[::order]:
        content = reports(organ, level)
        put(top / "USData" / f"{table}.json", "\ufeff" + json.dumps(content, ensure_ascii=False))
        for number, found in enumerate(report for part in content.values() for report in part):
            for index, name in enumerate(found["image_path"]):
                picture = png(pixels(40 * level + 4 * number + index, colours=0))
                put(top / "USData" / folder / name, picture)


LAYERS: dict[str, Callable[[Path, int], None]] = {
    "pathmnist": lay_pathmnist,
    "chestmnist": lay_chestmnist,
    "isic_2018": lay_isic_2018,
    "usforkidney": lay_usforkidney,
    "polypgen": lay_polypgen,
    "kvasir_seg": lay_kvasir_seg,
    "pannuke": lay_pannuke,
    "roco_vqa": lay_roco_vqa,
    "usdata": lay_usdata,
}
