"""Small X-ray sources in their publishers' own layouts, and builds of them with the real manifests."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pydicom
from golden import ROOT
from PIL import Image
from pydicom import uid
from pydicom.dataset import Dataset, FileMetaDataset

from medheb.build.inventory import BuiltFile, Inventory
from medheb.build.run import build_from
from medheb.build.source import ProtocolName
from medheb.core.digests import merkle_root
from medheb.manifest.dataset import Dataset as Manifest
from medheb.manifest.load import load_dataset

WIDTH, HEIGHT = 120, 90
SHORT = 12


def manifest(dataset: str, **options: Any) -> Manifest:
    """The real manifest of a source, some options changed."""
    real = load_dataset(ROOT / "manifests" / "datasets" / f"{dataset}.yaml")
    recipe = real.recipe.model_copy(update={"options": real.recipe.options | options})
    return real.model_copy(update={"recipe": recipe})


def build(
    dataset: str, files: Path, out: Path, protocol: ProtocolName = "corrected", workers: int = 1, **options: Any
) -> Inventory:
    """Build a source of the real manifests."""
    return build_from(manifest(dataset, **options), files, out, protocol, "release", workers=workers)


def root_of(inventory: Inventory) -> str:
    """Merkle root over the content of all files."""
    return merkle_root({file.path: file.content for file in inventory.files})


def digests(inventory: Inventory, kind: str) -> dict[str, str]:
    """Shortened content digests of the files of one kind."""
    return {file.path: file.content.rpartition(":")[2][:SHORT] for file in inventory.of_kind(kind)}


def faults(inventory: Inventory) -> list[str]:
    """Each refusal as a sentence, folders left out."""
    return sorted(f"{refusal.where.rpartition('/')[2]} {refusal.fault}" for refusal in inventory.refusals)


def by_path(inventory: Inventory) -> dict[str, BuiltFile]:
    """Files by path."""
    return {file.path: file for file in inventory.files}


def rows(path: Path) -> list[dict[str, Any]]:
    """A JSON lines file."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def grey(seed: int, height: int = HEIGHT, width: int = WIDTH) -> np.ndarray:
    """A picture of noise, the same everywhere."""
    values: np.ndarray = np.random.default_rng(seed).integers(0, 256, (height, width), dtype=np.uint8)
    return values


def put_picture(path: Path, values: np.ndarray) -> None:
    """Write PNG or JPEG, by the suffix."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(values).save(path)


def put_dicom(path: Path, values: np.ndarray, **elements: Any) -> None:
    """Write an uncompressed DICOM file; an element that is None is taken out."""
    made = Dataset()
    made.file_meta = FileMetaDataset()
    made.file_meta.TransferSyntaxUID = uid.ExplicitVRLittleEndian
    made.file_meta.MediaStorageSOPClassUID = uid.DigitalXRayImageStorageForPresentation
    made.file_meta.MediaStorageSOPInstanceUID = "1.2.3"
    made.Modality = "DX"
    made.Rows, made.Columns = values.shape
    made.SamplesPerPixel, made.PhotometricInterpretation = 1, "MONOCHROME2"
    made.BitsAllocated = made.BitsStored = 8 * values.dtype.itemsize
    made.HighBit, made.PixelRepresentation = made.BitsStored - 1, 0
    made.add_new("PixelData", "OW", values.tobytes())
    for name, value in elements.items():
        if value is None:
            delattr(made, name)
        else:
            setattr(made, name, value)
    path.parent.mkdir(parents=True, exist_ok=True)
    pydicom.dcmwrite(path, made, enforce_file_format=True)


def put_table(path: Path, header: Sequence[str], lines: Sequence[Sequence[object]], delimiter: str = ",") -> None:
    """Write a table, packed if its name ends in .gz."""
    stream = io.StringIO()
    writer = csv.writer(stream, delimiter=delimiter, lineterminator="\n")
    writer.writerows([header, *lines])
    content = stream.getvalue().encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)


def put_mimic(root: Path, studies: int = 8, reports: Path | None = None) -> None:
    """A copy of MIMIC-CXR-JPG with its tables; of every third study the lateral picture comes first in the table.

    Args:
        root: of the project.
        studies: how many; all odd ones are test.
        reports: root of the project with the reports, None for the same.
    """
    metadata, split = [], []
    for number in range(studies):
        subject, study = str(10000000 + 1000 * number), str(50000000 + number)
        folder = f"files/p{subject[:2]}/p{subject}/s{study}"
        for view, name in (("LATERAL", f"aa{number}"), ("AP", f"bb{number}"), ("PA", f"cc{number}")):
            if number == 5 and view != "LATERAL":
                continue
            metadata.append([name, subject, study, view])
            split.append([name, study, subject, "test" if number % 2 else "train"])
            put_picture(root / folder / f"{name}.jpg", grey(10 * number + len(view)))
        text = (reports or root) / f"{folder}.txt"
        text.parent.mkdir(parents=True, exist_ok=True)
        text.write_text(
            f" FINAL REPORT\n EXAMINATION: CHEST\n\n FINDINGS:\n Clear lungs\n of number {number}.\n\n"
            f" IMPRESSION: Nothing new, ___ {number}.\n"
        )
    put_table(
        root / "mimic-cxr-2.0.0-metadata.csv.gz", ["dicom_id", "subject_id", "study_id", "ViewPosition"], metadata
    )
    put_table(root / "mimic-cxr-2.0.0-split.csv.gz", ["dicom_id", "study_id", "subject_id", "split"], split)


VINDR = ["image_id", "rad_id", "class_name", "x_min", "y_min", "x_max", "y_max"]


def put_vindr(root: Path, train: Sequence[Sequence[object]], test: Sequence[Sequence[object]]) -> None:
    """Official tables of VinDr-CXR and a DICOM file for each of their pictures."""
    put_table(root / "annotations" / "annotations_train.csv", VINDR, train)
    put_table(root / "annotations" / "annotations_test.csv", VINDR, test)
    for split, lines in (("train", train), ("test", test)):
        for place, name in enumerate(sorted({str(line[0]) for line in lines})):
            values = grey(place).astype(np.uint16) * 16
            put_dicom(root / split / f"{name}.dicom", values, BitsStored=12, HighBit=11)


LT = ["subject_id", "study_id", "dicom_id", "path"]
LT_LABELS = ["Edema", "Fracture", "Pneumonia"]


def lt_rows(count: int) -> list[list[object]]:
    """One-hot rows of MIMIC-CXR-LT over the made studies, picture ``cc``; every tenth has two labels."""
    lines: list[list[object]] = []
    for number in range(count):
        subject, study = 10000000 + 1000 * (number % 8), 50000000 + number
        hot = [int(number % 3 == place or (number % 10 == 9 and place == 0)) for place in range(3)]
        lines.append([subject, study, f"cc{number}", f"files/p10/p{subject}/s{study}/cc{number}.jpg", *hot])
    return lines


def put_imagenome(root: Path, boxes: Sequence[Sequence[object]]) -> None:
    """The gold part of Chest ImaGenome in its official layout, corners in its own odd order of columns.

    Args:
        root: of the project.
        boxes: image, name, x1, y1, x2, y2; every image is picture ``bb1``, ``bb2`` ... of the made studies.
    """
    header = ["image_id", "x1", "bbox_name", "original_x1", "original_x2", "original_y1", "original_y2"]
    lines = [[image, 1, name, x1, x2, y1, y2] for image, name, x1, y1, x2, y2 in boxes]
    put_table(root / "gold_dataset" / "gold_bbox_coordinate_annotations_1000images.csv", header, lines)
    text = "image_id\tpatient_id\tstudy_id\tsentence\n"
    for number in range(1, 5):
        text += f'bb{number}.dcm\t{10000000 + 1000 * number}\t{50000000 + number}\tit says "stable\n'
    text += "bb1.dcm\t9\t9\tthe first row counts\n"
    (root / "gold_dataset" / "gold_all_sentences_500pts_1000studies.txt").write_text(text)


def put_silver(root: Path) -> None:
    """Scene graphs of Chest ImaGenome for pictures ``bb0`` to ``bb4``, of which ``bb2`` is to be avoided."""
    silver = root / "silver_dataset"
    (silver / "scene_graph").mkdir(parents=True)
    for split, numbers in {"train": (0, 1, 2), "valid": (3,), "test": (4,)}.items():
        lines = [[n, 10000000 + 1000 * n, 50000000 + n, f"bb{n}"] for n in numbers]
        put_table(silver / "splits" / f"{split}.csv", ["", "subject_id", "study_id", "dicom_id"], lines)
    put_table(silver / "splits" / "images_to_avoid.csv", ["", "dicom_id"], [[0, "bb2"]])
    corners = {"original_x1": 5, "original_y1": 5, "original_x2": 50, "original_y2": 50}
    objects = [{"bbox_name": "spine", **corners}, {"bbox_name": "carina", "original_x1": None}]
    for number in range(5):
        (silver / "scene_graph" / f"bb{number}_SceneGraph.json").write_text(json.dumps({"objects": objects}))


CHEXPERT = [
    "path_to_image",
    "path_to_dcm",
    "frontal_lateral",
    "deid_patient_id",
    "report",
    "section_findings",
    "section_impression",
    "split",
]


def put_chexpert(root: Path, patients: int = 6) -> None:
    """Two valid patients, the rest train; every study has a lateral and a frontal picture."""
    lines, labels = [], []
    for number in range(patients):
        split = "valid" if number < 2 else "train"
        for view in ("view1_frontal", "view2_lateral"):
            path = f"{split}/patient{number}/study1/{view}.jpg"
            kind = "Frontal" if "frontal" in view else "Lateral"
            text = f'findings,\n"of" {number}' if number != 1 else ""
            lines.append([path, "", kind, f"patient{number}", "long", text, f"impression {number}", split])
            labels.append({"path_to_image": path, "Edema": 1 if number % 2 else 0, "Fracture": None, "No Finding": 0})
            put_picture(root / "PNG" / "PNG" / Path(path).with_suffix(".png"), grey(number))
    labels[6]["Edema"], labels[6]["Fracture"] = 1, -1
    put_table(root / "df_chexpert_plus_240401.csv", CHEXPERT, lines)
    (root / "chexbert_labels").mkdir()
    content = "\n".join(json.dumps(row) for row in labels) + "\n"
    (root / "chexbert_labels" / "impression_fixed.json").write_text(content)


MAMMO = ["study_id", "series_id", "image_id", "finding_categories", "xmin", "ymin", "xmax", "ymax", "split"]


def put_mammo(root: Path, lines: Sequence[Sequence[object]]) -> None:
    """The official table of VinDr-Mammo and a DICOM file for each of its pictures."""
    put_table(root / "finding_annotations.csv", MAMMO, lines)
    for line in lines:
        values = grey(len(str(line[2]))).astype(np.uint16) * 4
        put_dicom(root / "images" / str(line[0]) / f"{line[2]}.dicom", values, Modality="MG", ImageLaterality="L")
