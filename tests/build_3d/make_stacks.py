"""Small M3D, MMDental, MRNet and MedMNIST 3D in their hosts' layouts, and a program that prints the roots of all 3D.

``make_volumes`` has the sources of CT and MR volumes.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import make_volumes
import nibabel
import numpy as np
from making import root
from PIL import Image

from medheb.build.m3d import plain
from medheb.build.source import ProtocolName
from medheb.manifest.load import load_dataset

PROTOCOLS: tuple[ProtocolName, ...] = ("release", "corrected")

REPORT = "Title: A\nstudy_findings:\n Mass in the\nliver. \ndiscussion:\nNone.\n"
COLUMNS = [
    "Image Path",
    "Text",
    "Question Type",
    "Question",
    *(f"Choice {x}" for x in "ABCD"),
    "Answer",
    "Answer Choice",
]
AXIAL = "Axial Pöschl"

HEADER = "Filename,Sex,Age,Chief complaint,Diagnosis,Treatment plan"
VISITS = """101,F,30,"pain, left\nlower","Caries, 36 ",Filling
7,M,,swelling,Cyst,Surgery
101,F,31,check,Healed,
"""
CENTRED = np.diag([-0.3, 0.3, 0.3, 1.0])

MARKS = {"1130": (0, 0, 0), "1131": (1, 0, 0), "1132": (1, 1, 0), "1133": (1, 0, 1), "1134": (1, 1, 1)}
PLANES = ("axial", "coronal", "sagittal")


def frames(folder: Path, numbers: range, ending: str = "jpeg", size: tuple[int, int] = (16, 12)) -> None:
    """Frames of one grey level each, which a JPEG keeps whatever library writes or reads it."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in numbers:
        Image.fromarray(np.full(size, 3 * number % 256, np.uint8)).save(folder / f"{number}.{ending}")


def question(case: str, series: str, text: str, right: str = "Axial", kind: str = "1") -> list[str]:
    """One row of M3D's tables of questions."""
    path = f"M3D_Cap_npy/ct_quizze/{case}/{series}.npy"
    return [path, "", kind, text, "Axial", "Coronal", "Sagittal", "None", right, "A"]


def tables(top: Path, rows: list[list[str]]) -> None:
    """M3D's two tables of questions."""
    for name in ("M3D_VQA_test.csv", "M3D_VQA_test5k.csv"):
        with (top / name).open("w", newline="", encoding="utf-8") as stream:
            csv.writer(stream).writerows([COLUMNS, *rows])


def m3d(top: Path, inner: str = "ct_quizze_00") -> Path:
    """One case of two series, one of one, and one of the part that is not wanted."""
    cases = top / "M3D_Cap" / "ct_quizze" / inner
    frames(cases / "005461" / AXIAL, range(1, 9))
    frames(cases / "005461" / AXIAL, range(9, 101), "png")
    frames(cases / "005461" / "Coronal", range(5))
    frames(cases / "005470" / "Axial", range(3))
    frames(top / "M3D_Cap" / "ct_case" / "000001" / "Axial", range(3))
    for case in ("005461", "005470"):
        (cases / case / "text.txt").write_text(REPORT)
    listed = {
        "train": [("ct_case", "000001", "Axial"), ("ct_quizze", "005470", "Axial")],
        "test": [("ct_quizze", "005461", plain(AXIAL)), ("ct_quizze", "005999", "Axial")],
        "test100": [("ct_quizze", "005461", plain(AXIAL))],
    }
    content = {
        name: [{"image": f"M3D_Cap_npy/{'/'.join(entry)}.npy", "text": ""} for entry in entries]
        for name, entries in listed.items()
    }
    (top / "M3D_Cap" / "M3D_Cap.json").write_text(json.dumps(content))
    tables(top, [question("005461", plain(AXIAL), "Which plane?"), question("005999", "Axial", "Which plane?")])
    return cases


def scan(seed: int = 0, shape: tuple[int, ...] = (24, 22, 30)) -> np.ndarray:
    """Noisy CBCT, int16, with an empty edge."""
    values = np.random.Generator(np.random.PCG64(seed)).integers(-1000, 2000, shape).astype(np.int16)
    values[:2] = 0
    return values


def put(path: Path, values: np.ndarray, affine: np.ndarray = CENTRED) -> Path:
    """Write a NIfTI volume."""
    path.parent.mkdir(parents=True, exist_ok=True)
    nibabel.save(nibabel.Nifti1Image(values, affine), path)
    return path


def mmdental(top: Path, nested: bool = True) -> Path:
    """Two patients, one of whom came twice; each volume in a folder of its own, or beside the table."""
    folder = top / "MMDental"
    for seed, case in enumerate(("101", "7")):
        put(folder / case / f"{case}.nii.gz" if nested else folder / f"{case}.nii.gz", scan(seed))
    (folder / "medical_records.csv").write_bytes(b"\xef\xbb\xbf" + f"{HEADER}\n{VISITS}".encode())
    return folder


def stack(count: int, seed: int, dtype: str = "uint8") -> np.ndarray:
    """Noisy slices, (count, 12, 14)."""
    values = np.random.Generator(np.random.PCG64(seed)).integers(0, 250, (count, 12, 14))
    return values.astype(dtype)


def mrnet(
    top: Path, cases: Sequence[str] = tuple(MARKS), name: str = "{part}-{finding}.csv", redivis: bool = False
) -> Path:
    """A case of each combination of marks in the validation part; tables as of either host."""
    folder = top / "MRNet-v1.0"
    for case in cases:
        for position, plane in enumerate(PLANES):
            (folder / "valid" / plane).mkdir(parents=True, exist_ok=True)
            np.save(folder / "valid" / plane / f"{case}.npy", stack(8 + 9 * position, int(case) + 10_000 * position))
    for position, finding in enumerate(("abnormal", "acl", "meniscus")):
        rows = [f"{case},{marks[position]}" for case, marks in MARKS.items()]
        if redivis:
            rows[0] = ",".join(f"_{cell}" for cell in rows[0].split(","))
        (folder / name.format(part="valid", finding=finding)).write_text("\n".join(rows) + "\n")
    return folder


def volumes(count: int, depth: int, seed: int) -> np.ndarray:
    """Noise, (count, depth, 6, 5)."""
    values = np.random.Generator(np.random.PCG64(seed)).integers(0, 256, (count, depth, 6, 5))
    return values.astype(np.uint8)


def arrays(depth: int = 64, test: int = 3, classes: int = 2) -> dict[str, np.ndarray]:
    """Members of a MedMNIST 3D archive: two training volumes, one of validation, ``test`` of the test."""
    parts = {"train": 2, "val": 1, "test": test}
    return {
        **{f"{part}_images": volumes(count, depth, seed) for seed, (part, count) in enumerate(parts.items())},
        **{f"{part}_labels": (np.arange(count)[:, None] % classes).astype(np.uint8) for part, count in parts.items()},
    }


def archive(folder: Path, content: Mapping[str, np.ndarray], name: str) -> Path:
    """Write a NumPy archive under any name."""
    folder.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(folder / "archive.npz", **content)
    return (folder / "archive.npz").rename(folder / name)


def medmnist(name: str, top: Path) -> Path:
    """A source of MedMNIST 3D with classes from its own vocabulary."""
    options = load_dataset(make_volumes.MANIFESTS / f"{name}.yaml").recipe.options
    return archive(top, arrays(classes=len(options["labels"])), options["archive"])


LAYS: dict[str, Callable[[Path], object]] = {
    "m3d": m3d,
    "mmdental": mmdental,
    "mrnet": mrnet,
    "nodulemnist3d": partial(medmnist, "nodulemnist3d"),
    "organmnist3d": partial(medmnist, "organmnist3d"),
    "synapsemnist3d": partial(medmnist, "synapsemnist3d"),
}


def main(arguments: Sequence[str]) -> None:
    """``FILES OUT``: build every source below FILES under both protocols with two workers; print the roots as JSON."""
    files, out = Path(arguments[0]), Path(arguments[1])
    roots = {
        f"{name} {protocol}": root(make_volumes.build(name, files / name, out / protocol, protocol, workers=2))
        for name in LAYS
        for protocol in PROTOCOLS
    }
    print(json.dumps(roots))


if __name__ == "__main__":
    main(sys.argv[1:])
