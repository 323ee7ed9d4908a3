"""Small inputs of the sources of volumes; see ``small_inputs``."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

ROOMS = [str(Path(__file__).resolve().parents[1] / room) for room in ("build_2d", "build_3d", "build_text")]
sys.path += [room for room in ROOMS if room not in sys.path]

import make_volumes  # noqa: E402
from make_kept import put  # noqa: E402
from PIL import Image  # noqa: E402


def table(path: Path, header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows([header, *rows])


def ct_rate(top: Path) -> None:
    data = top / "dataset"
    for part, table_name in (("valid", "validation"), ("train", "train")):
        scans = [f"{part}_{n}_a" for n in range(1, 4)]
        for number, scan in enumerate(scans):
            volume = make_volumes.chest(20, number + 10 * (part == "train"))
            make_volumes.save(data / f"{part}_fixed" / scan[:-2] / scan / f"{scan}_1.nii.gz", volume)
        names = [f"{scan}_1.nii.gz" for scan in scans]
        marks = [[name, *(int(place == number % 2) for place in range(2))] for number, name in enumerate(names)]
        table(
            data / "multi_abnormality_labels" / f"{part}_predicted_labels.csv",
            ["VolumeName", "Emphysema", "Nodule"],
            marks,
        )
        header = ["VolumeName", "ClinicalInformation_EN", "Findings_EN", "Impressions_EN"]
        rows = [[name, "", f"Seen in {name[:7]}.", "Stable."] for name in names]
        table(data / "radiology_text_reports" / f"{table_name}_reports.csv", header, rows)
        turns = [
            {
                "id": f"short_answer_{number}",
                "image": name,
                "conversations": [
                    {"from": "human", "value": "<image>\nWhat is seen?<short_answer>"},
                    {"from": "gpt", "value": f"It is {number}."},
                ],
            }
            for number, name in enumerate(names)
        ]
        put(data / "vqa" / f"{part}_vqa.json", json.dumps(turns))


def radgenome(top: Path) -> None:
    data = top / "dataset"
    for part, name in (("valid", "validation"), ("train", "train")):
        scans = [f"{part}_{n}" for n in range(1, 4)]
        for number, scan in enumerate(scans):
            path = data / f"{part}_preprocessed" / scan / f"{scan}a" / f"{scan}_a_1.nii.gz"
            volume = make_volumes.chest(66, number + 10 * (part == "train")).astype(np.float32)
            make_volumes.save(path, volume, np.eye(4))
        names = [f"{scan}_a_1.nii.gz" for scan in scans]
        files = data / "radgenome_files"
        rows = [[volume, "lung", f"Report of {volume[:7]}."] for volume in names]
        table(files / f"{name}_region_report.csv", ["Volumename", "Anatomy", "Sentence"], rows)
        rows = [[volume, "lung", f"finding {number}"] for number, volume in enumerate(names)]
        table(files / f"{name}_vqa_abnormality.csv", ["Volumename", "Anatomy", "Abnormality"], rows)


def brats_men(top: Path) -> None:
    cases = [f"BraTS-MEN-0000{number}-000" for number in range(1, 5)]
    for number, case in enumerate(cases):
        path = top / "BraTS-MEN-Train" / case / f"{case}-t1n.nii.gz"
        make_volumes.save(path, make_volumes.head(seed=number))
    split = {"BraTS_MEN": {"train": [f"{cases[3]}-t1c"], "test": [f"{case}-t2f" for case in cases[:3]]}}
    put(top / "train_val_test_split.json", json.dumps(split))
    put(top / "BraTS_MEN" / "impression.json", json.dumps({case: f"A mass {case[-7:-4]}." for case in cases}))


def brats_ped(top: Path) -> None:
    for part, first in (("Training", 0), ("Validation", 40)):
        for number in range(1, 4):
            name = f"BraTS-PED-{first + number:05d}-000"
            for place, modality in enumerate(("t1n", "t2w")):
                path = top / f"{make_volumes.PED}{part}Data" / name / f"{name}-{modality}.nii.gz"
                make_volumes.save(path, make_volumes.head(70, 4, first + number + 100 * place))


def cirrmri600(top: Path) -> None:
    people = {"test": (1, 2, 3, 4), "train": (11, 12, 13)}
    for number, sequence in enumerate(("T1", "T2")):
        rows = []
        for split, patients in people.items():
            for patient in patients:
                path = top / f"Cirrhosis_{sequence}_3D" / f"{split}_images" / f"{patient}.nii.gz"
                make_volumes.save(path, make_volumes.head(40, seed=patient + 50 * number))
                rows.append([patient, split])
        table(top / f"Cirrhosis_{sequence}_slide_folders.csv", ["folder_name", "split"], rows)
        healthy = top / "Healthy_subjects" / f"{sequence}_W_Healthy" / f"{sequence}_images" / "1.nii.gz"
        make_volumes.save(healthy, make_volumes.head(44, seed=20 + number))
    grades = [[patient, 50, 1 + patient % 2] for patients in people.values() for patient in patients]
    table(top / "Metadata" / "T1_age_gender_evaluation.csv", ["Patient ID", "Age", "Radiological Evaluation"], grades)


def synthrad(top: Path) -> None:
    for place, (region, letter) in enumerate((("brain", "B"), ("pelvis", "P"))):
        for number in range(14):
            folder = top / "Task1" / region / f"1{letter}A{number:03d}"
            make_volumes.save(folder / "ct.nii.gz", make_volumes.chest(66, 10 * place + number))
            make_volumes.save(folder / "mr.nii.gz", make_volumes.head(66, 9, 10 * place + number))


def han_seg(top: Path) -> None:
    for number in range(1, 9):
        case = top / "HaN-Seg" / "set_1" / f"case_{number:02d}"
        make_volumes.save(case / f"case_{number:02d}_IMG_CT.nrrd", make_volumes.chest(70, number))
        make_volumes.save(case / f"case_{number:02d}_IMG_MR_T1.nrrd", make_volumes.head(40, seed=number))


def m3d(top: Path) -> None:
    columns = [
        "Image Path",
        "Text",
        "Question Type",
        "Question",
        *(f"Choice {x}" for x in "ABCD"),
        "Answer",
        "Answer Choice",
    ]
    listed: dict[str, list[dict[str, str]]] = {"train": [], "test": []}
    questions: dict[str, list[list[object]]] = {"train": [], "test": []}
    for number in range(6):
        case, part = f"00{5000 + number}", "train" if number > 3 else "test"
        folder = top / "M3D_Cap" / "ct_quizze" / "ct_quizze_00" / case / "Axial"
        folder.mkdir(parents=True)
        for frame in range(4):
            Image.fromarray(np.full((16, 12), 9 * number + frame, np.uint8)).save(folder / f"{frame}.jpeg")
        put(folder.parent / "text.txt", f"Title: A\nstudy_findings:\n A mass {number}.\ndiscussion:\nNone.\n")
        path = f"M3D_Cap_npy/ct_quizze/{case}/Axial.npy"
        listed[part].append({"image": path, "text": ""})
        questions[part].append(
            [
                path,
                "",
                "1",
                f"Which {number}?",
                "Axial",
                "Coronal",
                "Sagittal",
                "None",
                ("Axial", "Coronal")[number % 2],
                "AB"[number % 2],
            ]
        )
    put(top / "M3D_Cap" / "M3D_Cap.json", json.dumps(listed))
    for name, rows in (("test", "test"), ("test5k", "test"), ("train", "train")):
        table(top / f"M3D_VQA_{name}.csv", columns, questions[rows])


def mmdental(top: Path) -> None:
    visits = [[n, "M", 30, f"pain {n}", f"Caries {n}", f"Filling {n}"] for n in range(100, 112)]
    header = ["Filename", "Sex", "Age", "Chief complaint", "Diagnosis", "Treatment plan"]
    table(top / "MMDental" / "medical_records.csv", header, visits)
    for seed, (case, *_) in enumerate(visits):
        draw = np.random.Generator(np.random.PCG64(seed))
        values = draw.integers(-1000, 2000, (24, 22, 30)).astype(np.int16)
        values[:2] = 0
        path = top / "MMDental" / str(case) / f"{case}.nii.gz"
        make_volumes.save(path, values, np.diag([-0.3, 0.3, 0.3, 1.0]))


def mrnet(top: Path) -> None:
    for part, first in (("train", 0), ("valid", 1130)):
        cases = [f"{first + number:04d}" for number in range(8)]
        for place, plane in enumerate(("axial", "coronal", "sagittal")):
            (top / "MRNet-v1.0" / part / plane).mkdir(parents=True)
            for case in cases:
                draw = np.random.Generator(np.random.PCG64(int(case) + 10_000 * place))
                np.save(
                    top / "MRNet-v1.0" / part / plane / f"{case}.npy",
                    draw.integers(0, 250, (12, 12, 14)).astype("uint8"),
                )
        marks = {"abnormal": (0, 1, 1, 1), "acl": (0, 0, 1, 0), "meniscus": (0, 0, 0, 1)}
        for finding, values in marks.items():
            lines = [f"{case},{values[number % 4]}" for number, case in enumerate(cases)]
            put(top / "MRNet-v1.0" / f"{part}-{finding}.csv", "\n".join(lines) + "\n")


def medmnist3d(name: str) -> Callable[[Path], None]:
    """Volumes of 64 slices, two of each of two classes in each part."""

    def lay(top: Path) -> None:
        arrays: dict[str, np.ndarray] = {}
        for seed, split in enumerate(("train", "val", "test")):
            draw = np.random.Generator(np.random.PCG64(seed))
            arrays[f"{split}_images"] = draw.integers(0, 256, (4, 64, 6, 5)).astype(np.uint8)
            arrays[f"{split}_labels"] = (np.arange(4)[:, None] % 2).astype(np.uint8)
        top.mkdir(parents=True)
        np.savez_compressed(top / f"{name}_64.npz", **arrays)  # type: ignore[arg-type]

    return lay


LAYERS: dict[str, Callable[[Path], object]] = {
    "brats_men": brats_men,
    "brats_ped": brats_ped,
    "cirrmri600": cirrmri600,
    "ct_rate": ct_rate,
    "han_seg": han_seg,
    "m3d": m3d,
    "mmdental": mmdental,
    "mrnet": mrnet,
    "radgenome_chest_ct": radgenome,
    "synthrad2023": synthrad,
    **{name: medmnist3d(name) for name in ("nodulemnist3d", "organmnist3d", "synapsemnist3d")},
}
