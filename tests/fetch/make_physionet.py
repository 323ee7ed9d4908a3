"""A made-up PhysioNet project in every layout that users have, and a run that names it as a local copy."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from medheb.core.layout import Layout
from medheb.manifest.config import Config
from medheb.manifest.dataset import Dataset, Licence, Recipe
from medheb.manifest.hosts import PhysioNetHost
from medheb.manifest.load import Run
from medheb.manifest.protocol import Protocol
from medheb.manifest.task import Task

SLUG, VERSION = "toy-chest", "1.0.0"
SUBJECT, STUDY, IMAGE = "19999999", "59999999", "0f0f0f0f-canary"
PICTURE = f"files/p19/p{SUBJECT}/s{STUDY}/{IMAGE}.jpg"
REPORT = f"files/p19/p{SUBJECT}/s{STUDY}.txt"
BLANKS = "notes on two words.csv"
CONTENT: dict[str, bytes] = {
    "LICENSE.txt": b"terms\n",
    BLANKS: b"subject,label\n19999999,effusion-canary\n",
    "split.csv.gz": b"split of made-up people",
    REPORT: b"report-canary: a made-up finding\n",
    PICTURE: b"picture" * 1000,
    f"files/p18/p18888888/s58888888/{IMAGE}-other.jpg": b"another" * 1000,
}
CANARIES = (SUBJECT, STUDY, "18888888", "58888888", "0f0f0f0f", "canary", "effusion")
NEEDED = ("*.csv", "*.csv.gz", "files/*.txt", "files/*.jpg")


def sums_text(content: Mapping[str, bytes], separator: str = " ") -> str:
    """List of digests; PhysioNet's own has one blank."""
    return "".join(f"{hashlib.sha256(content[name]).hexdigest()}{separator}{name}\n" for name in sorted(content))


def fill(root: Path, content: Mapping[str, bytes] = CONTENT, separator: str = " ") -> Path:
    """Write a project's files and its list into ``root``."""
    for name, value in content.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(value)
    (root / "SHA256SUMS.txt").write_text(sums_text(content, separator))
    return root


def wget_tree(folder: Path) -> tuple[Path, Path]:
    top = folder / "physionet.org"
    root = fill(top / "files" / SLUG / VERSION)
    for inner in [root, *(path for path in root.rglob("*") if path.is_dir())]:
        (inner / "index.html").write_text("<html>")
    (top / "robots.txt").write_text("User-agent: *\n")
    return top, root


def zip_folder(folder: Path) -> tuple[Path, Path]:
    return folder / "unzipped", fill(folder / "unzipped" / f"toy-chest-a-set-of-made-up-films-{VERSION}")


def bucket_copy(folder: Path) -> tuple[Path, Path]:
    return folder / "buckets", fill(folder / "buckets" / f"{SLUG}-{VERSION}.physionet.org")


def s3_sync(folder: Path) -> tuple[Path, Path]:
    return folder / "synced", fill(folder / "synced" / SLUG / VERSION)


def bare_root(folder: Path) -> tuple[Path, Path]:
    return folder / "my copy", fill(folder / "my copy")


# Each gives the folder that a user would name, and the project's root in it.
LAYOUTS: dict[str, tuple[str, Callable[[Path], tuple[Path, Path]]]] = {
    "wget": ("wget tree", wget_tree),
    "zip": ("ZIP folder", zip_folder),
    "gsutil": ("bucket copy", bucket_copy),
    "s3": ("bucket copy", s3_sync),
    "bare": ("bare root", bare_root),
}


def physionet(versions: Sequence[str] = (VERSION,), needed: Sequence[str] = NEEDED) -> PhysioNetHost:
    return PhysioNetHost(kind="physionet", slug=SLUG, versions=tuple(versions), needed=tuple(needed))


def source(host: Any, **changes: Any) -> Dataset:
    """A credentialed source."""
    fields: dict[str, Any] = {
        "id": "toy",
        "title": "A made-up source",
        "form": "2d",
        "modality": ("X-ray",),
        "access": "credentialed",
        "licence": Licence(spdx=None, url="https://example.org/terms"),
        "redistribution": False,
        "show_content": False,
        "host": host,
        "files": (),
        "files_note": "listed by the copy itself",
        "recipe": Recipe(name="sample", version=1),
        "images": "2D_Images/toy",
        "links": ("https://example.org",),
        "citation": "The tests",
    }
    return Dataset.model_validate(fields | changes)


def run_with(folder: Path, dataset: Dataset, copy: Path | None, tasks: Sequence[Task] = ()) -> Run:
    """A run of one source whose folders lie in ``folder``."""
    protocol = Protocol(
        name="corrected",
        title="Tests",
        ties="expected",
        candidate_identity="content",
        text_cleaning=False,
        tie_tolerance=0,
    )
    return Run(
        config=Config(local_copies={dataset.id: str(copy)} if copy else {}),
        layout=Layout(folder / "sources", folder / "MedHEB", folder / "results"),
        datasets={dataset.id: dataset},
        tasks={task.task: task for task in tasks},
        models={},
        protocol=protocol,
    )
