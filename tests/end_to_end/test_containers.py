"""Rules in Apptainer images: which image, and the command as it is without one.

Apptainer itself is in no package of our test machines, so a stand-in of its command line notes the image and runs the
command beside it. That the images hold the right packages is tested in tests/workflow/test_environments.py.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from tiny_benchmark import make_workspace, snakemake

INVENTORY = "results/MedHEB/3D_Images/Person_X/person_x.inventory.json"
# apptainer exec --home HOME [--nv] [--bind FOLDER] IMAGE bash -c COMMAND
STAND_IN = """\
#!/usr/bin/env bash
set -eu
if [ "$1" = --version ]; then echo "apptainer version 1.3.4"; exit 0; fi
while [ "$1" != exec ]; do shift; done
shift
[ "$1" = --home ]
shift 2
gpu=
while [ "${{1%.sif}}" = "$1" ]; do [ "$1" != --nv ] || gpu=" --nv"; shift; done
echo "$1$gpu" >> {images}
shift
exec "$@"
"""


@pytest.fixture
def images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """File to which the stand-in writes the image of each command, and whether it gets the GPU's driver."""
    file = tmp_path / "images.txt"
    command = tmp_path / "bin" / "apptainer"
    command.parent.mkdir()
    command.write_text(STAND_IN.format(images=file))
    command.chmod(0o755)
    monkeypatch.setenv("PATH", str(command.parent), prepend=":")
    return file


@pytest.mark.parametrize(
    ("settings", "build_image"),
    [({}, "envs/core.sif"), ({"drr": {"projector": "deepdrr"}}, "envs/deepdrr.sif")],
    ids=["core", "deepdrr"],
)
def test_rules_run_in_the_image_that_has_what_they_need(
    tmp_path: Path, images: Path, settings: dict[str, object], build_image: str
) -> None:
    folder = make_workspace(tmp_path / "run")
    config = folder / "config" / "config.yaml"
    config.write_text(yaml.safe_dump(yaml.safe_load(config.read_text()) | settings))
    result = snakemake(folder, INVENTORY, "--sdm", "apptainer", "--apptainer-args=--nv")
    assert result.returncode == 0, result.stdout + result.stderr
    assert json.loads((folder / INVENTORY).read_text())["status"]["state"] == "ok"
    assert images.read_text().splitlines() == ["envs/core.sif --nv", f"{build_image} --nv"]
