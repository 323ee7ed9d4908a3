"""M3D, MMDental, MRNet and MedMNIST 3D: the same roots in any circumstances."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import make_stacks as make
import make_volumes
import numpy as np
from PIL import Image

from medheb.audit.expected import expected_path, read_expected

ROOT = Path(__file__).resolve().parents[2]


def test_file_order_workers_and_hash_seed_do_not_matter(tmp_path: Path) -> None:
    """On a change: ``python tests/audit/golden_inputs.py --update``."""
    for name, lay in make.LAYS.items():
        lay(tmp_path / "in" / name)
    make_volumes.backwards(tmp_path / "in", tmp_path / "copy")
    command = [sys.executable, make.__file__, str(tmp_path / "copy"), str(tmp_path / "out")]
    environment = os.environ | {"PYTHONHASHSEED": "7", "TZ": "Asia/Tokyo", "LC_ALL": "C"}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment, umask=0o077)
    found = json.loads(done.stdout)
    expected = read_expected(expected_path("inputs", ROOT)).items
    assert {name: expected[name].L2[: len(root)] for name, root in found.items()} == found
    assert len(found) == len(make.LAYS) * len(make.PROTOCOLS)


def test_frames_are_of_one_level_that_jpeg_keeps(tmp_path: Path) -> None:
    """So the roots of M3D do not hang on the library that wrote its frames here."""
    make.frames(tmp_path, range(101))
    for number in range(101):
        with Image.open(tmp_path / f"{number}.jpeg") as frame:
            assert np.unique(np.asarray(frame)).tolist() == [3 * number % 256]
