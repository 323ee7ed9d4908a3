"""One finished run of the tiny benchmark, shared by all tests of this folder."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.append(str(Path(__file__).parents[1] / "fetch"))  # its loopback servers

from tiny_benchmark import copy_workspace, make_workspace, snakemake


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run; never change it."""
    folder = make_workspace(tmp_path_factory.mktemp("finished") / "run")
    result = snakemake(folder, "all")
    assert result.returncode == 0, result.stdout + result.stderr
    return folder


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    """A copy of the finished run to damage."""
    return copy_workspace(finished, tmp_path / "run")
