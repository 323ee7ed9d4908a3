"""A whole benchmark in a folder: two made-up persons, one code list, three tasks, the two canaries.

Everything is made on the spot, packed into a wheel, and goes through the very rules of the real workflow.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import shutil
import subprocess
import sys
import zipfile
from io import BytesIO
from pathlib import Path

import nibabel as nib
import numpy as np
import yaml

from medheb.manifest.task import TASK_COLUMNS

ROOT = Path(__file__).resolve().parents[2]
ORGANS = (
    "liver", "spleen", "heart", "aorta", "stomach", "pancreas", "colon", "trachea", "kidney_left", "kidney_right",
    "urinary_bladder", "gallbladder",
)  # fmt: skip
SIDE, DEPTH, SPACING = 72, 24, 3.0
CODES = 24
WHEEL = "tinydata-1.0-py3-none-any.whl"


def nifti(array: np.ndarray) -> bytes:
    """A .nii.gz without a time stamp."""
    image = nib.Nifti1Image(array, np.diag([SPACING, SPACING, SPACING, 1.0]))
    return gzip.compress(image.to_bytes(), mtime=0)


def person(seed: int) -> dict[str, bytes]:
    """A scan in HU with twelve boxes of different brightness, and a mask for each."""
    rng = np.random.default_rng(seed)
    scan = np.full((SIDE, SIDE, DEPTH), -100, dtype=np.int16)
    scan += rng.integers(-20, 20, scan.shape, dtype=np.int16)
    files: dict[str, bytes] = {}
    for number, organ in enumerate(ORGANS):
        mask = np.zeros(scan.shape, dtype=np.uint8)
        x, y = 4 + 18 * (number % 4) + seed % 3, 4 + 22 * (number // 4)
        mask[x : x + 11, y : y + 14, 3:-3] = 1
        scan[mask > 0] = -60 + 25 * number + rng.integers(-5, 5)
        files[f"{organ}.nii.gz"] = nifti(mask)
    return {"ct.nii.gz": nifti(scan), **files}


def code_list() -> bytes:
    """An XML in the layout of the ICD-10-CM tabular list."""
    diagnoses = "".join(
        f"<diag><name>A{code:02d}</name><desc>Title number {code}</desc>"
        f"<inclusionTerm><note>Term number {code}</note></inclusionTerm></diag>"
        for code in range(CODES)
    )
    return (
        '<?xml version="1.0" encoding="utf-8"?><ICD10CM.tabular><chapter><name>1</name><desc>Made up</desc>'
        f'<section id="A00-A99"><desc>All</desc>{diagnoses}</section></chapter></ICD10CM.tabular>'
    ).encode()


def write_wheel(folder: Path) -> bytes:
    """The package that all sources come from."""
    members = {
        f"tinydata/{who}/{name}": content
        for who, seed in (("x", 1), ("y", 2))
        for name, content in person(seed).items()
    }
    members["tinydata/codes.xml"] = code_list()
    members["tinydata-1.0.dist-info/METADATA"] = b"Metadata-Version: 2.1\nName: tinydata\nVersion: 1.0\n"
    members["tinydata-1.0.dist-info/WHEEL"] = (
        b"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    )
    members["tinydata-1.0.dist-info/RECORD"] = "".join(f"{name},,\n" for name in members).encode()
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    (folder / WHEEL).write_bytes(buffer.getvalue())
    return buffer.getvalue()


def manifest(identifier: str, form: str, include: str, images: str, recipe: dict, wheel: bytes) -> dict:
    """One access manifest."""
    return {
        "id": identifier,
        "title": f"Made-up source {identifier}",
        "form": form,
        "modality": ["CT" if form == "3d" else "text"],
        "access": "open",
        "licence": {"spdx": "CC0-1.0", "url": "https://example.org/terms"},
        "redistribution": True,
        "show_content": True,
        "host": {"kind": "package", "name": "tinydata", "version": "1.0", "format": "wheel"},
        "files": [
            {
                "path": WHEEL,
                "bytes": len(wheel),
                "sha256": hashlib.sha256(wheel).hexdigest(),
                "digest_source": "made by the tests",
            }
        ],
        "unpack": {"include": [include], "max_bytes": 50_000_000, "max_ratio": 500},
        "recipe": recipe,
        "images": images,
        "links": ["https://example.org"],
        "citation": "Nobody, nowhere.",
    }


def organ_recipe(who: str) -> dict:
    """Settings of the organ recipe for one person."""
    return {
        "name": "organ_volume",
        "version": 1,
        "options": {
            "scan": f"tinydata/{who}/ct.nii.gz",
            "format": "nifti",
            "modality": "CT",
            "grey": {"kind": "window", "level": 40, "width": 400},
            "masks": {organ: f"tinydata/{who}/{organ}.nii.gz" for organ in ORGANS},
            "crops": {"per_label": 2, "field_of_view": 60, "side": 48},
            "slices": {"step": 4, "longest": 64},
            "volumes": {"per_label": 2, "field_of_view": 60, "side": 48},
        },
    }


def make_workspace(folder: Path) -> Path:
    """A folder in which ``snakemake all`` runs the tiny benchmark."""
    folder.mkdir(parents=True)
    for name in ("Snakefile", "workflow", "profiles", "slurm", "envs"):
        (folder / name).symlink_to(ROOT / name)
    (folder / "config").mkdir()
    sets = folder / "manifests" / "tiny"
    (sets / "datasets").mkdir(parents=True)
    (folder / "manifests" / "protocols").symlink_to(ROOT / "manifests" / "protocols")
    (sets / "rules.yaml").symlink_to(ROOT / "manifests" / "demo" / "rules.yaml")
    (folder / "shelf").mkdir()
    wheel = write_wheel(folder / "shelf")
    for source in (
        manifest("person_x", "3d", "tinydata/x/*", "3D_Images/Person_X", organ_recipe("x"), wheel),
        manifest("person_y", "3d", "tinydata/y/*", "3D_Images/Person_Y", organ_recipe("y"), wheel),
        manifest("codes", "text", "tinydata/codes.xml", "Text_Data/codes", {"name": "icd10cm", "version": 1}, wheel),
    ):
        (sets / "datasets" / f"{source['id']}.yaml").write_text(yaml.safe_dump(source))
    rows = [
        list(TASK_COLUMNS),
        ["Organ_cls", "2D_Task/Organ/Organ_test.json", "2d", "image-label", "id", "local", "person_x", "3D_Images",
         "label", "Represent the given image with the following question:", "Which organ is this?"],
        ["Organ_i2i", "2D_Task/Organ/Organ_i2i_test.json", "2d", "image-image", "id", "local", "person_x+person_y",
         "3D_Images", "same_label_image", "Find the same category image with the provided image:", ""],
        ["Codes_t2t", "Text_Task/Codes/Codes_test.json", "text", "text-text", "id", "global", "codes", "",
         "text_pairs", "Find the diagnosis title of the given term:", "<row>"],
    ]  # fmt: skip
    (sets / "tasks.tsv").write_text(
        "\n".join("\t".join([*row, *[""] * (len(TASK_COLUMNS) - len(row))]) for row in rows) + "\n"
    )
    canaries = [
        {"id": name, "title": f"{name} vectors", "canary": True, "adapter": {"name": name}}
        for name in ("random", "constant")
    ]
    (sets / "models.yaml").write_text(yaml.safe_dump({"models": canaries}))
    settings = {"manifests": "manifests/tiny", "accept": "open", "evaluate": {"bootstrap_resamples": 200}}
    (folder / "config" / "config.yaml").write_text(yaml.safe_dump(settings))
    return folder


def environment(folder: Path, **extra: str) -> dict[str, str]:
    """Environment of a run: pip looks only into the workspace's own shelf."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PIP_")}
    return {
        **kept,
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
        "PIP_CONFIG_FILE": "/dev/null",
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(folder / "shelf"),
        **extra,
    }


def snakemake(folder: Path, *arguments: str, **extra: str) -> subprocess.CompletedProcess[str]:
    """Run Snakemake in the workspace."""
    command = [sys.executable, "-m", "snakemake", *arguments]
    return subprocess.run(
        command, cwd=folder, env=environment(folder, **extra), capture_output=True, text=True, check=False
    )


def medheb(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command of ours in the workspace."""
    command = [sys.executable, "-m", "medheb", *arguments]
    return subprocess.run(command, cwd=folder, env=environment(folder), capture_output=True, text=True, check=False)


def roots(folder: Path) -> dict:
    """The audit roots of a finished run."""
    content: dict = json.loads((folder / "results" / "audit" / "roots.json").read_text())
    return content


def copy_workspace(source: Path, target: Path) -> Path:
    """A finished run to experiment on, Snakemake's memory included."""
    shutil.copytree(source, target, symlinks=True)
    return target
