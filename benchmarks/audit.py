"""Figures of the audit: ``python benchmarks/audit.py [--pictures N]``. One line each, as in ``run.py``.

Recording and verifying PNGs of 256x256 pixels at levels L1 and L2, beside what reading, hashing and decoding them must
cost on the same cores in the same run, and a fast check. 100,000 pictures are the full figure; fewer give its ratio.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path

import numpy as np
from PIL import Image
from run import show

from medheb.build.inventory import BuiltFile, Inventory, write_inventory
from medheb.core.digests import content_digest, sha256_bytes
from medheb.core.layout import Layout
from medheb.core.status import OK
from medheb.manifest.config import Config
from medheb.manifest.dataset import Dataset
from medheb.manifest.load import Run
from medheb.manifest.protocol import Protocol

FEW, SIDE = 4_000, 256
SOURCE, FOLDER = "pictures", "2D_Images/pictures"
WORKERS = len(os.sched_getaffinity(0))
STEP = """
import sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from audit import Nothing, run_of
from peak import peak_mb
from medheb.audit.provenance import write_provenance
from medheb.audit.record import record_digests
from medheb.audit.roots import write_roots
from medheb.audit.verify import verify
run = run_of(Path(sys.argv[2]))
started = time.monotonic()
if sys.argv[3] == "record":
    record_digests(run, "pictures", int(sys.argv[4]))
    seconds = time.monotonic() - started
    write_provenance(run, write_roots(run), Nothing())
else:
    found = verify(run, workers=int(sys.argv[4]), sample_seed=1 if sys.argv[3] == "fast" else None)
    seconds = time.monotonic() - started
    assert found.verdict == "IDENTICAL", found.verdict
print(seconds, peak_mb())
"""


class Nothing:
    """Rules of a workflow that has none."""

    def __getattr__(self, name: str) -> Callable[..., str]:
        return lambda *names: ""


def run_of(folder: Path) -> Run:
    """A run with one source and nothing else."""
    manifest = Dataset.model_validate(
        {
            "id": SOURCE,
            "title": "Made-up pictures",
            "form": "2d",
            "modality": ["X-ray"],
            "access": "open",
            "licence": {"spdx": "CC0-1.0", "url": "https://example.org"},
            "redistribution": True,
            "show_content": True,
            "host": {"kind": "package", "name": "none", "version": "1.0", "format": "wheel"},
            "files": [{"path": "a.whl", "bytes": 1, "sha256": "0" * 64, "digest_source": "made up"}],
            "recipe": {"name": "pictures", "version": 1},
            "images": FOLDER,
            "links": ["https://example.org"],
            "citation": "Nobody",
        }
    )
    protocol = Protocol(
        name="corrected",
        title="Benchmark",
        ties="expected",
        candidate_identity="content",
        text_cleaning=False,
        tie_tolerance=0,
    )
    layout = Layout(folder / "sources", folder / "MedHEB", folder / "results")
    return Run(Config(), layout, {SOURCE: manifest}, {}, {}, protocol)


def make_pictures(run: Run, count: int) -> list[Path]:
    """Pictures with structure and noise, about 40 KB each, and their inventory; beyond FEW they are hard links."""
    rng = np.random.default_rng(0)
    y, x = np.mgrid[:SIDE, :SIDE]
    noise = rng.normal(0, 6, (16, SIDE, SIDE))
    files: list[BuiltFile] = []
    paths: list[Path] = []
    for number in range(count):
        name = f"{number // 1000:03}/{number:06}.png"
        path = run.layout.benchmark / FOLDER / name
        path.parent.mkdir(parents=True, exist_ok=True)
        paths.append(path)
        if number >= FEW:
            path.hardlink_to(paths[number - FEW])
            files.append(files[number - FEW].model_copy(update={"path": name}))
            continue
        picture = 128 + 60 * np.sin(x / (20 + number % 7)) * np.cos((y + number) / 17) + noise[number % 16]
        Image.fromarray(picture.clip(0, 255).astype(np.uint8)).save(path, compress_level=1)
        content = path.read_bytes()
        files.append(
            BuiltFile(
                path=name, bytes=len(content), sha256=sha256_bytes(content), content=content_digest(path, content)
            )
        )
    inventory = Inventory(
        dataset=SOURCE, images=FOLDER, recipe="pictures", recipe_version=1, status=OK, files=tuple(files)
    )
    write_inventory(run.layout.inventory(FOLDER, SOURCE), inventory)
    return paths


def least(path: Path) -> str:
    """What one picture must cost: read, hash, decode, hash the samples."""
    content = path.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    with Image.open(BytesIO(content)) as image:
        return digest + hashlib.sha256(image.tobytes()).hexdigest()


def bound(paths: list[Path]) -> float:
    """Seconds for :func:`least` of all pictures on all cores."""
    started = time.monotonic()
    with ThreadPoolExecutor(WORKERS) as pool:
        for _ in pool.map(least, paths, chunksize=64):
            pass
    return time.monotonic() - started


def step(folder: Path, what: str) -> tuple[float, float]:
    """Seconds of one step, and peak MB of its process."""
    here = str(Path(__file__).resolve().parent)
    command = [sys.executable, "-c", STEP, here, str(folder), what, str(WORKERS)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    seconds, megabytes = map(float, output.split())
    return seconds, megabytes


def bench_audit(count: int) -> None:
    """Record, verify and fast verify; ratios of throughput to the bound, more is better."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = make_pictures(run_of(folder), count)
        # The bound before and after each step: other work on the machine comes and goes.
        before = bound(paths)
        record, record_mb = step(folder, "record")
        between = bound(paths)
        full, full_mb = step(folder, "verify")
        after = bound(paths)
        fast, fast_mb = step(folder, "fast")
    show(
        "audit",
        pictures=count,
        record_seconds=record,
        record_of_bound=(before + between) / 2 / record,
        record_mb=record_mb,
        verify_seconds=full,
        verify_of_bound=(between + after) / 2 / full,
        verify_mb=full_mb,
        fast_seconds=fast,
        fast_mb=fast_mb,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pictures", type=int, default=FEW)
    bench_audit(parser.parse_args().pictures)
