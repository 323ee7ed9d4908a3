"""A run over scans that the tests make themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import make_phantoms as make
import pytest
from make_phantoms import RunMaker

from medheb.manifest.load import Run


@pytest.fixture
def run_of(tmp_path: Path) -> RunMaker:
    """Make a run of the given sources; each is (id, recipe name, options) with its files laid out by ``lay``."""

    def maker(*sources: tuple[str, str, dict[str, Any]], images: str = "3D_Images/{}") -> Run:
        return make.run_of(tmp_path, sources, images)

    return maker
