"""Small CT and MR volumes in the sources' own layouts, and a program that builds them all and prints their roots."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import nibabel
import numpy as np
import SimpleITK as sitk  # noqa: N813
from making import root

from medheb.build.inventory import Inventory
from medheb.build.run import build_from
from medheb.build.source import Projector, ProtocolName
from medheb.manifest.load import load_dataset

MANIFESTS = Path(__file__).resolve().parents[2] / "manifests" / "datasets"
LPS = np.diag([-1.0, -1.0, 2.0, 1.0])
PED = "ASNR-MICCAI-BraTS2023-PED-Challenge-"


def chest(count: int = 20, seed: int = 0) -> np.ndarray:
    """Chest CT in HU, int16 (32, 28, count), LPS: air, body, two lungs, spine at the back, a heart on the left."""
    x, y = np.meshgrid(np.arange(32) - 15.5, np.arange(28) - 13.5, indexing="ij")
    plane = np.full((32, 28), -1000)
    plane[(x / 14) ** 2 + (y / 11) ** 2 < 1] = 40
    for side in (-6, 6):
        plane[((x - side) / 4) ** 2 + ((y + 1) / 6) ** 2 < 1] = -850
    plane[(x - 3) ** 2 + (y + 4) ** 2 < 9] = 60
    plane[x**2 + (y - 7) ** 2 < 6] = 500
    volume = np.repeat(plane[:, :, None], count, axis=2)
    noise = np.random.Generator(np.random.PCG64(seed)).integers(-8, 9, volume.shape)
    return (volume + noise).astype(np.int16)


def head(count: int = 70, first: int = 4, seed: int = 0) -> np.ndarray:
    """Head MR, int16 (24, 20, count): signal from slice ``first`` to as far from the end, with a gap at 30 to 34."""
    x, y, z = np.meshgrid(np.arange(24) - 11.5, np.arange(20) - 9.5, np.arange(count), indexing="ij")
    volume = np.where((x / 10) ** 2 + (y / 8) ** 2 < 1, 300 + 11 * (x + 12) + 5 * z, 0)
    volume[:, :, [z for z in range(count) if not first <= z < count - first or 30 <= z < 35]] = 0
    noise = np.random.Generator(np.random.PCG64(seed)).integers(0, 40, volume.shape)
    return np.where(volume > 0, volume + noise, 0).astype(np.int16)


def save(path: Path, volume: np.ndarray, affine: np.ndarray | None = LPS) -> Path:
    """Write a NIfTI or NRRD file; without an affine the header states no orientation."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.name.endswith(".nrrd"):
        sitk.WriteImage(sitk.GetImageFromArray(volume.T), str(path), useCompression=True)
        return path
    image = nibabel.Nifti1Image(volume, affine)
    if affine is None:
        image.header.set_zooms((1.0, 1.0, 2.0))
    nibabel.save(image, path)
    return path


def reorder(path: Path, codes: str) -> None:
    """Store a NIfTI file's voxels in another axis order, header with it."""
    image = nibabel.load(path)
    orientations = nibabel.orientations
    turn = orientations.ornt_transform(orientations.io_orientation(image.affine), orientations.axcodes2ornt(codes))
    nibabel.save(image.as_reoriented(turn), path)


def ct_rate(top: Path) -> None:
    """Two scans of one patient and one of another, tables of labels and of scans that show no chest."""
    data = top / "dataset"
    for number, scan in enumerate(("valid_1_a", "valid_1_b", "valid_2_a")):
        save(data / "valid_fixed" / scan[:7] / scan / f"{scan}_1.nii.gz", chest(20 + number, number))
    save(data / "valid_fixed" / "valid_1" / "valid_1_a" / "valid_1_a_2.nii.gz", chest(9))
    for folder, name, text in (
        ("multi_abnormality_labels", "valid_predicted_labels.csv", "VolumeName,Emphysema,Lung nodule\n"),
        ("metadata", "no_chest_valid.txt", "valid_2_a_1.nii.gz\n"),
    ):
        (data / folder).mkdir()
        (data / folder / name).write_text(text)
    with (data / "multi_abnormality_labels" / "valid_predicted_labels.csv").open("a") as table:
        table.write("valid_1_a_1.nii.gz,1,1\nvalid_1_b_1.nii.gz,0,1\nvalid_2_a_1.nii.gz,0,0\n")


def radgenome(top: Path) -> None:
    """Two scans, nested; headers that claim RAS."""
    for number, place in enumerate(("valid_1/valid_1a/valid_1_a_1", "valid_1/valid_1b/valid_1_b_1")):
        path = top / "dataset" / "valid_preprocessed" / f"{place}.nii.gz"
        save(path, chest(66 + number, number).astype(np.float32), np.eye(4))


def brats_men(top: Path) -> None:
    """Three cases, of which the split lists two for the test, and a replacement of one."""
    cases = [f"BraTS-MEN-0000{number}-000" for number in (1, 2, 3)]
    for number, case in enumerate(cases):
        save(top / "Training" / "BraTS-MEN-Train" / case / f"{case}-t1n.nii.gz", head(seed=number))
        save(top / "Training" / "BraTS-MEN-Train" / case / f"{case}-seg.nii.gz", head(seed=9) // 900)
    save(top / "BraTS-MEN-TRAIN-FIX-V4" / cases[0] / f"{cases[0]}-t1n.nii.gz", head(seed=7))
    split = {"BraTS_MEN": {"train": [f"{cases[2]}-t1c"], "test": [f"{case}-t2f" for case in cases[:2]]}}
    (top / "train_val_test_split.json").write_text(json.dumps(split))
    (top / "BraTS_MEN").mkdir()
    (top / "BraTS_MEN" / "impression.json").write_text(json.dumps(dict.fromkeys(cases, "A mass.")))


def brats_ped(top: Path) -> None:
    """One case of either part; the training archive nests its folder."""
    for folder, case in ((f"{PED}TrainingData/{PED}TrainingData", "00001"), (f"{PED}ValidationData", "00002")):
        for number, modality in enumerate(("t1n", "t2w", "seg")):
            name = f"BraTS-PED-{case}-000"
            save(top / folder / name / f"{name}-{modality}.nii.gz", head(70, 4 + 8 * number, number))


def cirrmri600(top: Path) -> None:
    """Patients 1 and 2, a healthy person, masks under the same names, tables that disagree on patient 2."""
    for number, sequence in enumerate(("T1", "T2")):
        for split, patient in (("test", 1), ("train", 2)):
            for kind in ("images", "masks"):
                volume = head(40, seed=patient + number)
                path = top / f"Cirrhosis_{sequence}_3D" / f"{split}_{kind}" / f"{patient}.nii.gz"
                save(path, volume if kind == "images" else (volume > 500).astype(np.int16))
        healthy = top / "Healthy_subjects" / f"{sequence}_W_Healthy" / f"{sequence}_images" / "1.nii.gz"
        save(healthy, head(44, seed=20 + number))
    for name, text in (
        ("Cirrhosis_T1_slide_folders.csv", "folder_name,split\r\n1,test\r\n2,train\r\nhealthy_1,test\r\n"),
        ("Cirrhosis_T2_slide_folders.csv", "folder_name,split\r\n1,test\r\n2,valid\r\n"),
        (
            "Metadata/T1_age_gender_evaluation.csv",
            "\ufeffPatient ID,Age,Radiological Evaluation\r\n1,50,3\r\n2,61,1\r\n",
        ),
    ):
        (top / name).parent.mkdir(exist_ok=True)
        (top / name).write_bytes(text.encode())


def han_seg(top: Path) -> None:
    """One case with CT, MR and a mask."""
    case = top / "HaN-Seg" / "set_1" / "case_01"
    save(case / "case_01_IMG_CT.nrrd", chest(70))
    save(case / "case_01_IMG_MR_T1.nrrd", head(40))
    save(case / "case_01_OAR_Brainstem.seg.nrrd", head(40) // 900)


def synthrad2023(top: Path) -> None:
    """One case of either region."""
    for number, case in enumerate(("brain/1BA001", "pelvis/1PA001")):
        save(top / "Task1" / case / "ct.nii.gz", chest(66, number))
        save(top / "Task1" / case / "mr.nii.gz", head(66, 9, number))
        save(top / "Task1" / case / "mask.nii.gz", np.ones((4, 4, 4), np.int16))
    (top / "Task1" / "brain" / "overview").mkdir()


LAYS: dict[str, Callable[[Path], None]] = {
    "brats_men": brats_men,
    "brats_ped": brats_ped,
    "cirrmri600": cirrmri600,
    "ct_rate": ct_rate,
    "han_seg": han_seg,
    "radgenome_chest_ct": radgenome,
    "synthrad2023": synthrad2023,
}


def build(
    dataset: str,
    files: Path,
    out: Path,
    protocol: ProtocolName = "release",
    projector: Projector | None = None,
    workers: int = 1,
) -> Inventory:
    """Build a source of the real manifests; X-rays with the protocol's own projector."""
    chosen = projector or ("release" if protocol == "release" else "cone")
    return build_from(load_dataset(MANIFESTS / f"{dataset}.yaml"), files, out, protocol, chosen, workers)


def backwards(files: Path, copy: Path) -> None:
    """Copy a folder, its files made in reverse order."""
    for path in sorted((path for path in files.rglob("*") if path.is_file()), reverse=True):
        target = copy / path.relative_to(files)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())


def main(arguments: Sequence[str]) -> None:
    """``FILES OUT``: build every source below FILES, CT-RATE with two workers, and print their roots as JSON."""
    files, out = Path(arguments[0]), Path(arguments[1])
    roots = {
        dataset: root(build(dataset, files / dataset, out, workers=2 if dataset == "ct_rate" else 1))
        for dataset in LAYS
    }
    print(json.dumps(roots))


if __name__ == "__main__":
    main(sys.argv[1:])
