"""A finished run, made once and copied for every test that changes it."""

from __future__ import annotations

import shutil
from pathlib import Path

import make_scores as make
import pytest

from medheb.manifest.load import Run


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished")
    make.fill(make.small_run(folder))
    return folder


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Run:
    """Eight tasks, four models, two sources; complete."""
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    return make.small_run(tmp_path)
