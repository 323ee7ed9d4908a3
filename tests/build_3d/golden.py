"""What the published scripts wrote for small inputs, held against what our recipes write for the same inputs.

The inputs are made by a script that lies outside the repository, in ``../shared/golden``; tests that need it are
skipped with that reason where it is absent. Usable from every test room::

    from golden import Golden, golden  # in conftest.py: the fixture

    def test_published_pictures(golden: Golden, tmp_path: Path) -> None:
        made = golden.build("brats_men", "brats_men", tmp_path)
        report = golden.compare("brats_men", made, lambda path: path.removeprefix("Train_slides/t1n/"))
        assert report.good, report
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from medheb.build.inventory import Inventory
from medheb.build.run import build_from
from medheb.build.source import Projector, ProtocolName
from medheb.manifest.dataset import Dataset
from medheb.manifest.load import load_dataset

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT.parent / "shared" / "golden"
PICTURES = {".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp"}

Fact = list[Any]
"""[mode, width, height, sha256 of "mode|width|height|" and the samples], and of a palette its sha256."""


def fact_of(path: Path) -> Fact:
    """The facts of a picture file, as the golden folder states them."""
    with Image.open(path) as image:
        image.load()
        head = f"{image.mode}|{image.width}|{image.height}|".encode()
        fact = [image.mode, image.width, image.height, hashlib.sha256(head + image.tobytes()).hexdigest()]
        if image.mode == "P":
            fact.append(hashlib.sha256(bytes(image.getpalette("RGB") or [])).hexdigest())
        return fact


@dataclass
class Made:
    """A build: its inventory and the facts of its pictures by path below the image folder."""

    inventory: Inventory
    folder: Path
    pictures: dict[str, Fact]


@dataclass
class Report:
    """How many of the published pictures were found and equal."""

    script: str
    compared: int = 0
    matched: int = 0
    missing: list[str] = field(default_factory=list)
    differing: list[str] = field(default_factory=list)

    @property
    def good(self) -> bool:
        """True if there was something to compare and all of it is equal."""
        return 0 < self.compared == self.matched

    def __str__(self) -> str:
        text = f"{self.script}: {self.matched}/{self.compared} published pictures"
        return f"{text}; missing {self.missing[:3]}, differing {self.differing[:3]}"


@cache
def _expected() -> dict[str, Any]:
    content: dict[str, Any] = json.loads((FOLDER / "expected_half.json").read_text())["scripts"]
    return content


class Golden:
    """The golden folder. Inputs are made once per session and name."""

    def __init__(self, work: Path) -> None:
        self._work = work
        self._made: dict[str, Path] = {}

    def inputs(self, name: str) -> Path:
        """Folder of the named inputs, laid out as the source's own download."""
        if name not in self._made:
            command = [sys.executable, str(FOLDER / "make_inputs.py"), "--out", str(self._work), "--only", name]
            subprocess.run(command, check=True, capture_output=True)
            self._made[name] = self._work / name
        return self._made[name]

    def expected(self, script: str) -> dict[str, Any]:
        """All that is known of one script's outputs: ``images``, ``npy``, ``json``, ``csv``, ``counts``."""
        outputs: dict[str, Any] = _expected()[script]["outputs"]
        return outputs

    def dataset(self, dataset_id: str) -> Dataset:
        """The real manifest of a source."""
        return load_dataset(ROOT / "manifests" / "datasets" / f"{dataset_id}.yaml")

    def build(
        self,
        dataset: str | Dataset,
        inputs: str,
        out: Path,
        protocol: ProtocolName = "release",
        projector: Projector = "release",
        others: Mapping[str, Path] | None = None,
    ) -> Made:
        """Build a source (id of a real manifest, or one of the test's own) from the named inputs into ``out``."""
        if isinstance(dataset, str):
            dataset = self.dataset(dataset)
        inventory = build_from(dataset, self.inputs(inputs), out, protocol, projector, others=others)
        folder = out / dataset.images
        pictures = {
            file.path: fact_of(folder / file.path)
            for file in inventory.files
            if Path(file.path).suffix.lower() in PICTURES
        }
        return Made(inventory, folder, pictures)

    def compare(
        self, script: str, made: Mapping[str, Fact] | Made, place: Callable[[str], str | None] = lambda path: path
    ) -> Report:
        """Hold the published pictures against ours.

        Args:
            script: name in ``expected_half.json``.
            made: our pictures by path.
            place: published path to ours, or ``None`` for a picture that is left out on purpose.
        """
        pictures = made.pictures if isinstance(made, Made) else made
        random = _expected()[script]["not_reproducible"] or {}
        report = Report(script)
        for path, fact in sorted(self.expected(script).get("images", {}).items()):
            ours = place(path)
            if ours is None or path in random:
                continue
            report.compared += 1
            if ours not in pictures:
                report.missing.append(path)
            elif pictures[ours] != fact:
                report.differing.append(path)
            else:
                report.matched += 1
        return report


@pytest.fixture(scope="session")
def golden() -> Iterator[Golden]:
    """The golden folder, or a visible skip."""
    if not (FOLDER / "make_inputs.py").is_file():
        pytest.skip(f"no golden inputs of the published scripts at {FOLDER}")
    with tempfile.TemporaryDirectory() as work:
        yield Golden(Path(work))
