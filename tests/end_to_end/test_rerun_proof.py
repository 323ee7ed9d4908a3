"""Two clean runs of the tiny benchmark under different circumstances: the same roots, scores and audit verdict."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tiny_benchmark import environment, make_workspace, medheb

from medheb.audit.compare import Comparison
from medheb.audit.results import read_ranks, score_content
from medheb.audit.schema import read_roots
from medheb.evaluate.score import read_score

# Differ in everything that must not matter: folder, workers, hash seed, locale, time zone, umask.
ELSEWHERE = {"PYTHONHASHSEED": "4242", "LC_ALL": "C", "LANG": "C", "TZ": "Pacific/Chatham"}


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same benchmark run in another folder, one job at a time, all else different too."""
    folder = make_workspace(tmp_path_factory.mktemp("elsewhere") / "größe" / "run")
    command = [sys.executable, "-m", "snakemake", "all", "--cores", "1"]
    result = subprocess.run(
        command,
        cwd=folder,
        env=environment(folder, **ELSEWHERE),
        capture_output=True,
        text=True,
        check=False,
        umask=0o077,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return folder


def test_all_roots_are_the_same(finished: Path, elsewhere: Path) -> None:
    first, second = (read_roots(folder / "results" / "audit" / "roots.json") for folder in (finished, elsewhere))
    assert first == second
    assert {"L0", "L1", "L2"} == set(first.overall)
    assert all(source.state == "built" for source in first.sources.values())
    assert all(entry.state == "built" for entry in first.scores.entries.values())


def test_scores_and_ranks_are_the_same(finished: Path, elsewhere: Path) -> None:
    names = sorted(path.relative_to(finished) for path in (finished / "results" / "scores").glob("*/*.json"))
    assert len(names) == 6
    for name in names:
        one, two = finished / name, elsewhere / name
        assert score_content(read_score(one)) == score_content(read_score(two)), name
        assert read_ranks(one.with_suffix(".parquet")) == read_ranks(two.with_suffix(".parquet")), name


def test_the_audit_of_one_holds_for_the_other(finished: Path, elsewhere: Path) -> None:
    audits = [str(folder / "results" / "audit") for folder in (finished, elsewhere)]
    result = medheb(elsewhere, "audit", "compare", *audits, "--json")
    found = Comparison.model_validate_json(result.stdout)
    assert (found.verdict, found.exit_code, result.returncode) == ("IDENTICAL", 0, 0), result.stdout
    assert (found.levels, found.made) == ({}, {})
    assert medheb(elsewhere, "audit", "verify", "--fast").returncode == 0
    again = medheb(elsewhere, "audit", "recompute")
    assert again.returncode == 0, again.stdout + again.stderr


def test_the_circumstances_did_differ(finished: Path, elsewhere: Path) -> None:
    def modes(folder: Path) -> set[int]:
        return {path.stat().st_mode & 0o077 for path in (folder / "results" / "audit").rglob("*") if path.is_file()}

    assert modes(elsewhere) == {0}
    assert modes(finished) != {0} or os.umask(os.umask(0o022)) == 0o077
    text = json.dumps([path.read_text() for path in (elsewhere / "results" / "audit").rglob("*.json")])
    assert "elsewhere" not in text, "no folder of the machine in the audit folder"
