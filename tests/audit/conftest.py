"""Fixtures: a small finished run, recorded or not yet. It is made once and copied, since every write is flushed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from audit_bench import FOLDERS, Bench, write_roots

from medheb.audit.record import record_digests


@pytest.fixture(scope="session")
def templates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders ``recorded`` (everything) and ``whole`` (without the blocked source)."""
    root = tmp_path_factory.mktemp("audit")
    bench = Bench(root / "recorded")
    for name in FOLDERS:
        record_digests(bench.run, name)
    write_roots(bench.run)
    shutil.copytree(root / "recorded", root / "whole")
    write_roots(Bench(root / "whole", fresh=False).without_beta().run)
    return root


@pytest.fixture
def recorded(templates: Path, tmp_path: Path) -> Bench:
    """A finished run with its audit folder; one source is blocked."""
    shutil.copytree(templates / "recorded", tmp_path, dirs_exist_ok=True)
    return Bench(tmp_path, fresh=False)


@pytest.fixture
def bench(recorded: Bench) -> Bench:
    """A finished run without an audit folder."""
    shutil.rmtree(recorded.layout.audit)
    return recorded


@pytest.fixture
def whole(templates: Path, tmp_path: Path) -> Bench:
    """A finished run with its audit folder, without the blocked source."""
    shutil.copytree(templates / "whole", tmp_path, dirs_exist_ok=True)
    return Bench(tmp_path, fresh=False).without_beta()
