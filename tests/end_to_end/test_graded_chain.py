"""Graded relevance through Snakemake: added to a finished run, it runs itself, audit and report, and nothing else."""

import json
import re
from pathlib import Path

import pytest
from tiny_benchmark import ORGANS, medheb, snakemake

TITLES = [re.sub(r"^(\w+)_(left|right)$", r"\2 \1", organ).replace("_", " ") for organ in ORGANS]


def jobs(run: Path) -> dict[str, int]:
    result = snakemake(run, "all", "-n", "--quiet", "rules")
    assert result.returncode == 0, result.stderr
    found = re.findall(r"^(\w+)\s+(\d+)$", result.stdout + result.stderr, flags=re.MULTILINE)
    return {rule: int(count) for rule, count in found if rule not in {"total", "all"}}


def write_rules(run: Path, gain: float) -> None:
    relation = {
        "kind": "groups",
        "note": "the other side",
        "classes": TITLES,
        "groups": [{"gain": gain, "classes": ["left kidney", "right kidney"]}],
    }
    entry = {"key": "graded_Organ_i2i", "aspect": "laterality", "task": "Organ_i2i", "relation": "sides"}
    content = {"note": "Gains of a test.", "relations": {"sides": relation}, "entries": [entry]}
    (run / "manifests" / "tiny" / "graded.yaml").write_text(json.dumps(content))


def test_graded_tasks_run_alone_and_again_when_their_rule_changes(run: Path) -> None:
    write_rules(run, 0.5)
    assert jobs(run) == {"evaluate_graded": 2, "audit": 1, "collect_report": 1}
    assert snakemake(run, "all").returncode == 0
    score = json.loads((run / "results" / "graded" / "constant" / "graded_Organ_i2i.json").read_text())
    assert score["status"]["state"] == "ok", score["status"]
    assert score["metrics"]["ndcg@5"]["value"] == pytest.approx(score["metrics"]["ndcg@5"]["chance"])
    roots = json.loads((run / "results" / "audit" / "roots.json").read_text())
    assert set(roots["graded"]["entries"]) == {f"{model}/graded_Organ_i2i" for model in ("random", "constant")}
    for command in ("verify", "recompute"):
        audited = medheb(run, "audit", command, "--json")
        assert audited.returncode == 0, audited.stdout
        assert '"area": "graded"' in audited.stdout
    page = (run / "results" / "report" / "index.html").read_text()
    assert "Gains of a test." in page
    assert "Nothing to be done" in snakemake(run, "all").stderr
    write_rules(run, 0.25)
    assert jobs(run) == {"evaluate_graded": 2, "audit": 1, "collect_report": 1}


def test_the_report_of_snakemake_has_page_tables_and_figures(run: Path) -> None:
    made = snakemake(run, "--report", "run.html")
    assert made.returncode == 0, made.stderr
    for name in ("index.html", "leaderboard.csv", "table4.csv", "heat-map.svg"):
        assert f"Adding {name}" in made.stderr
    assert "it works offline and holds" in (run / "run.html").read_text(), "the caption of the workflow"
