"""A run's folders, and a local folder that pip looks into instead of any index."""

from __future__ import annotations

from pathlib import Path

import pytest
from fetch_samples import WHEEL, WHEEL_MEMBERS, make_zip

from medheb.core.layout import Layout
from medheb.manifest.hosts import PackageHost


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """Folders of a run."""
    return Layout(tmp_path / "sources", tmp_path / "MedHEB", tmp_path / "results")


@pytest.fixture
def host() -> PackageHost:
    """The package in the local folder."""
    return PackageHost(kind="package", name="medheb-sample", version="1.0", format="wheel")


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that pip looks into instead of any index, with one wheel in it."""
    folder = tmp_path / "shelf"
    folder.mkdir()
    make_zip(folder / WHEEL, WHEEL_MEMBERS)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_CONSTRAINT"):
        monkeypatch.delenv(name, raising=False)
    return folder
