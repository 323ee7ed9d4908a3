"""The demo once more, under other circumstances: the same roots, scores and ranks as the finished one.

``tests/cluster/test_chain_through_slurm.py`` does the same through Slurm.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from two_demos import ELSEWHERE, assert_audits_agree, assert_same_results, second_workspace


@pytest.mark.slow
def test_two_demos_have_the_same_roots_scores_and_ranks(tmp_path: Path) -> None:
    folder = second_workspace(tmp_path / "größe" / "run")
    result = subprocess.run(
        [sys.executable, "-m", "medheb", "run", "--config", "config/demo.yaml", "--cores", "1"],
        cwd=folder,
        env=ELSEWHERE,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        umask=0o077,
    )
    assert result.returncode == 0, (result.stdout + result.stderr)[-5000:]
    assert_same_results(folder)
    assert_audits_agree(folder)
