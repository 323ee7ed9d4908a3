"""The demo once more, under other circumstances: the same roots, scores and ranks as the finished one."""

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
# Differ in all that must not matter: folder, number of jobs and threads, hash seed, locale, time zone, umask.
ELSEWHERE = {"PYTHONHASHSEED": "4242", "LC_ALL": "C", "LANG": "C", "TZ": "Pacific/Chatham"}


def medheb(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "medheb", *DEMO, *arguments], cwd=folder, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def second(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository in another folder, with its own results; only downloads are copied."""
    if not (FIRST / "audit" / "roots.json").is_file():
        pytest.skip("there is no finished demo to compare with: run `make demo` first")
    folder = tmp_path_factory.mktemp("elsewhere") / "größe" / "run"
    folder.mkdir(parents=True)
    for name in ("Snakefile", "workflow", "profiles", "envs", "manifests", "scripts"):
        (folder / name).symlink_to(ROOT / name)
    shutil.copytree(ROOT / "config", folder / "config")
    shutil.copytree(FIRST / "sources" / "archives", folder / "results" / "demo" / "sources" / "archives")
    command = [sys.executable, "-m", "medheb", "run", "--config", "config/demo.yaml", "--cores", "1"]
    result = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **ELSEWHERE},
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        umask=0o077,
    )
    assert result.returncode == 0, (result.stdout + result.stderr)[-5000:]
    return folder


def beside_bytes_of_pictures(roots: Roots) -> dict[str, Any]:
    """All of ``roots.json``, but L1 where it covers bytes of PNG files, which no one promises."""
    content = roots.model_dump()
    for part in (*content["sources"].values(), content["embeddings"], *content["embeddings"]["entries"].values()):
        part.get("roots", part.get("digests")).pop("L1", None)
    content["overall"].pop("L1")
    return content


@pytest.mark.slow
def test_two_demos_have_the_same_roots_scores_and_ranks(second: Path) -> None:
    other = second / "results" / "demo"
    one, two = (read_roots(folder / "audit" / "roots.json") for folder in (FIRST, other))
    assert beside_bytes_of_pictures(one) == beside_bytes_of_pictures(two)
    assert all(source.state == "built" and source.roots["L2"] for source in one.sources.values())
    names = sorted(path.relative_to(FIRST) for path in (FIRST / "scores").glob("*/*.json"))
    assert len(names) == 60
    for name in names:
        assert score_content(read_score(FIRST / name)) == score_content(read_score(other / name)), name
        assert read_ranks((FIRST / name).with_suffix(".parquet")) == read_ranks((other / name).with_suffix(".parquet"))


@pytest.mark.slow
def test_the_audit_of_one_demo_holds_for_the_other(second: Path) -> None:
    audits = [str(folder / "audit") for folder in (FIRST, second / "results" / "demo")]
    result = medheb(second, "audit", "compare", *audits, "--json")
    found = Comparison.model_validate_json(result.stdout)
    assert found.verdict in ("IDENTICAL", "EQUIVALENT"), result.stdout[-5000:]
    assert found.exit_code == 0
    assert all(set(unit.counts) <= {"IDENTICAL", "EQUIVALENT"} for unit in found.units), result.stdout[-5000:]
    verified = medheb(second, "audit", "verify")
    assert verified.returncode == 0, verified.stdout[-5000:]
