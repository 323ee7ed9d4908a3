"""A second demo beside the finished one, and what must be the same in both."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from medheb.audit.compare import Comparison
from medheb.audit.results import read_ranks, score_content
from medheb.audit.schema import Roots, read_roots
from medheb.evaluate.score import read_score

ROOT = Path(__file__).resolve().parents[2]
FIRST = ROOT / "results" / "demo"
DEMO = ("--config", "config/config.yaml", "--config", "config/demo.yaml")
# Beside the folder and the number of jobs and threads: what must not matter either.
ELSEWHERE = {**os.environ, "PYTHONHASHSEED": "4242", "LC_ALL": "C", "LANG": "C", "TZ": "Pacific/Chatham"}
SCORES = 64  # of 16 tasks and 4 models


def second_workspace(folder: Path) -> Path:
    """The repository's workflow in another folder, without results; only downloads are copied.

    Skips the test if there is no finished demo.
    """
    if not (FIRST / "audit" / "roots.json").is_file():
        pytest.skip("there is no finished demo to compare with: run `make demo` first")
    folder.mkdir(parents=True)
    for name in ("Snakefile", "workflow", "profiles", "envs", "manifests", "scripts"):
        (folder / name).symlink_to(ROOT / name)
    for name in ("config", "slurm"):
        shutil.copytree(ROOT / name, folder / name)
    shutil.copytree(FIRST / "sources" / "archives", folder / "results" / "demo" / "sources" / "archives")
    return folder


def medheb(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """``medheb`` on the demo in a workspace."""
    return subprocess.run(
        [sys.executable, "-m", "medheb", *DEMO, *arguments], cwd=folder, capture_output=True, text=True, check=False
    )


def beside_bytes_of_pictures(roots: Roots) -> dict[str, Any]:
    """All of ``roots.json``, but L1 where it covers bytes of PNG files, which no one promises."""
    content = roots.model_dump()
    for part in (*content["sources"].values(), content["embeddings"], *content["embeddings"]["entries"].values()):
        part.get("roots", part.get("digests")).pop("L1", None)
    content["overall"].pop("L1")
    return content


def assert_same_results(second: Path) -> None:
    """Roots, scores and ranks of both demos are equal."""
    other = second / "results" / "demo"
    one, two = (read_roots(folder / "audit" / "roots.json") for folder in (FIRST, other))
    assert beside_bytes_of_pictures(one) == beside_bytes_of_pictures(two)
    assert all(source.state == "built" and source.roots["L2"] for source in one.sources.values())
    names = sorted(path.relative_to(FIRST) for path in (FIRST / "scores").glob("*/*.json"))
    assert len(names) == SCORES
    for name in names:
        assert score_content(read_score(FIRST / name)) == score_content(read_score(other / name)), name
        assert read_ranks((FIRST / name).with_suffix(".parquet")) == read_ranks((other / name).with_suffix(".parquet"))


def assert_audits_agree(second: Path) -> None:
    """`medheb audit` says so too, of both records and of the second demo against its own."""
    audits = [str(folder / "audit") for folder in (FIRST, second / "results" / "demo")]
    result = medheb(second, "audit", "compare", *audits, "--json")
    found = Comparison.model_validate_json(result.stdout)
    assert found.verdict in ("IDENTICAL", "EQUIVALENT"), result.stdout[-5000:]
    assert found.exit_code == 0
    assert all(set(unit.counts) <= {"IDENTICAL", "EQUIVALENT"} for unit in found.units), result.stdout[-5000:]
    for check in (("verify",), ("expect",)):
        checked = medheb(second, "audit", *check)
        assert checked.returncode == 0, checked.stdout[-5000:] + checked.stderr[-1000:]
