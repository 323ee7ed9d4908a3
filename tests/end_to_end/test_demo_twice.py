"""The demo once more, under other circumstances: the same roots, scores and ranks as the finished one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from medheb.audit.compare import Comparison
from medheb.audit.results import read_ranks, score_content
from medheb.audit.schema import read_roots
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


@pytest.mark.slow
def test_two_demos_have_the_same_roots_scores_and_ranks(second: Path) -> None:
    other = second / "results" / "demo"
    one, two = (read_roots(folder / "audit" / "roots.json") for folder in (FIRST, other))
    assert one == two
    assert all(source.state == "built" for source in one.sources.values())
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
    assert (found.verdict, found.exit_code) == ("IDENTICAL", 0), result.stdout[-5000:]
    verified = medheb(second, "audit", "verify")
    assert verified.returncode == 0, verified.stdout[-5000:]
