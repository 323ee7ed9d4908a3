"""Every source of pictures and texts: what its recipe makes of small inputs, the same in any circumstances."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import make_all
import pytest

from medheb.audit.expected import expected_path, read_expected
from medheb.build.source import ProtocolName
from medheb.manifest.load import load_datasets

ROOT = Path(__file__).resolve().parents[2]
# Merkle roots; a change of one is a change of the benchmark: ``python tests/audit/golden_inputs.py --update``.
ROOTS = {name: item.L2 for name, item in read_expected(expected_path("inputs", ROOT)).items.items()}
FACTS = {"split", "group", "member", "transform", "mode", "width", "height"}
# Under the published rule the crops of one picture lie on both sides.
WITHOUT_SPLIT = {("pannuke", "release", "region_picture")}


def test_every_source_is_here() -> None:
    sources = load_datasets(ROOT / "manifests" / "datasets").values()
    assert set(make_all.LAYERS) == {source.id for source in sources if source.form in {"2d", "text"}}


@pytest.mark.parametrize(("name", "protocol"), make_all.CASES)
def test_golden_roots_and_facts(name: str, protocol: ProtocolName, tmp_path: Path) -> None:
    make_all.LAYERS[name](tmp_path / "in", 1)
    made = make_all.make(name, tmp_path / "in", tmp_path / "out", protocol)
    assert make_all.root(made) == ROOTS[f"{name} {protocol}"]
    for file in made.files:
        assert "kind" in file.facts, file.path
        if file.content.startswith("pix"):
            both_sides = (name, protocol, file.facts["kind"]) in WITHOUT_SPLIT
            assert file.facts.keys() >= FACTS - ({"split"} if both_sides else set()), file.path


def test_another_order_of_files_workers_and_hash_seed_change_nothing(tmp_path: Path) -> None:
    environment = os.environ | {"PYTHONHASHSEED": "4711", "TZ": "Asia/Tokyo", "LC_ALL": "C"}
    environment["PYTHONPATH"] = os.pathsep.join([*make_all.ROOMS, environment.get("PYTHONPATH", "")])
    command = [sys.executable, make_all.__file__, str(tmp_path)]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True, umask=0o077)
    found = json.loads(done.stdout.splitlines()[-1])
    assert {name: ROOTS[name] for name in found} == found
    assert len(found) == len(make_all.CASES)


def test_two_workers_leave_the_same_inventory(tmp_path: Path) -> None:
    make_all.LAYERS["vindr_cxr"](tmp_path / "in", 1)
    one, two = (
        make_all.make("vindr_cxr", tmp_path / "in", tmp_path / f"out{workers}", "corrected", workers)
        for workers in (1, 2)
    )
    assert one == two
