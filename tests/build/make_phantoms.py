"""Small scans with labels, and runs over them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import nibabel
import numpy as np

from medheb.core.layout import Layout
from medheb.core.status import OK, write_status
from medheb.manifest.config import Config
from medheb.manifest.dataset import Dataset
from medheb.manifest.load import Run
from medheb.manifest.protocol import Protocol

RunMaker = Callable[..., Run]
NAMES = {1: "liver", 2: "kidney_left", 3: "kidney_right", 4: "vertebrae_T12"}
ORGANS: dict[str, Any] = {
    "scan": "scan.nii.gz",
    "format": "nifti",
    "modality": "CT",
    "grey": {"kind": "window", "level": 40, "width": 400},
    "label_map": "labels.nii.gz",
    "crops": {"per_label": 2, "field_of_view": 40, "side": 32},
    "slices": {"step": 2, "longest": 48},
    "volumes": {"per_label": 3, "field_of_view": 40, "side": 32},
}
BRAIN: dict[str, Any] = {
    "scan": "scan.nii.gz",
    "modality": "CT",
    "grey": {"kind": "window", "level": 40, "width": 400},
    "foreground": -500,
    "min_share": 0.01,
    "levels": 4,
    "per_level": 2,
    "slab_mm": 2,
    "margin": 1.1,
    "side": 32,
}


def body() -> tuple[np.ndarray, np.ndarray]:
    """A scan (HU) and its labels in RAS order, 40 x 30 x 20 voxels of 3 mm."""
    scan = np.full((40, 30, 20), -1000, dtype=np.int16)
    scan[4:36, 4:26, :] = 0
    labels = np.zeros(scan.shape, dtype=np.uint8)
    labels[24:34, 12:24, 2:18] = 1  # the patient's right: large x
    labels[8:13, 8:13, 4:12] = 2
    labels[27:32, 5:10, 4:12] = 3
    labels[18:22, 6:12, 8:16] = 4
    for value, grey in ((1, 60), (2, 120), (3, 130), (4, 700)):
        scan[labels == value] = grey
    return scan, labels


def save(path: Path, array: np.ndarray, names: dict[int, str] | None = None, shift: float = 0.0) -> None:
    """Save as NIfTI of 3 mm voxels, with a label table if names are given."""
    affine = np.diag([3.0, 3.0, 3.0, 1.0])
    affine[0, 3] = shift
    image = nibabel.Nifti1Image(array, affine)
    if names:
        rows = "\n".join(f'<Label Key="{key}" Red="0"><![CDATA[{name}]]></Label>' for key, name in names.items())
        image.header.extensions.append(nibabel.nifti1.Nifti1Extension(0, f"<T>{rows}</T>".encode()))
    path.parent.mkdir(parents=True, exist_ok=True)
    nibabel.save(image, path)


def lay_person(files: Path) -> None:
    """Scan and label map of one person."""
    scan, labels = body()
    save(files / "scan.nii.gz", scan)
    save(files / "labels.nii.gz", labels, NAMES)


def manifest(identifier: str, recipe: str, options: dict[str, Any], images: str) -> Dataset:
    return Dataset.model_validate(
        {
            "id": identifier,
            "title": f"test source {identifier}",
            "form": "3d",
            "modality": ["CT"],
            "access": "open",
            "licence": {"spdx": "CC0-1.0", "url": "https://example.org"},
            "redistribution": True,
            "show_content": True,
            "host": {"kind": "package", "name": "none", "version": "1", "format": "wheel"},
            "files": [{"path": "none.whl", "bytes": 1, "sha256": None, "digest_source": "made by a test"}],
            "unpack": {"include": ["*"]},
            "recipe": {"name": recipe, "version": 1, "options": options},
            "images": images,
            "links": ["https://example.org"],
            "citation": "none",
        }
    )


def run_of(folder: Path, sources: Sequence[tuple[str, str, dict[str, Any]]], images: str) -> Run:
    """A run over sources that count as fetched; their files are still to be laid out."""
    layout = Layout(folder / "sources", folder / "MedHEB", folder / "results")
    datasets = {
        identifier: manifest(identifier, recipe, options, images.format(identifier))
        for identifier, recipe, options in sources
    }
    for identifier in datasets:
        layout.source_files(identifier).mkdir(parents=True)
        write_status(layout.source_status(identifier), OK)
    protocol = Protocol(
        name="corrected",
        title="test",
        ties="expected",
        candidate_identity="content",
        text_cleaning=False,
        tie_tolerance=1e-6,
    )
    return Run(Config(), layout, datasets, {}, {}, protocol)
