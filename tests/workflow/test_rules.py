"""The Snakemake side: thin rules with everything that a cluster needs, and profiles found by themselves."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RULE_FILES = sorted((ROOT / "workflow" / "rules").glob("*.smk"))


def rule_blocks() -> dict[str, str]:
    """Text of each named rule below workflow/rules."""
    blocks: dict[str, str] = {}
    for path in RULE_FILES:
        for block in re.split(r"^(?=rule \w+:)", path.read_text(), flags=re.MULTILINE)[1:]:
            blocks[block.split()[1].rstrip(":")] = block
    return blocks


def snakemake(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "snakemake", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("rule", sorted(rule_blocks()))
def test_every_rule_has_log_benchmark_resources_and_no_python(rule: str) -> None:
    block = rule_blocks()[rule]
    if "output:" not in block:  # a target: it only names what is wanted
        assert "localrule: True" in block
        assert "shell:" not in block
        return
    for part in ("log:", "benchmark:", "threads:", "resources:", "mem_mb=", "runtime=", "conda:"):
        assert part in block, part
    assert re.search(r'shell:\n\s+"medheb [a-z-]+', block)
    assert not re.search(r"^\s+(run|script):", block, flags=re.MULTILINE)


def test_files_stay_small() -> None:
    assert len((ROOT / "Snakefile").read_text().splitlines()) < 60
    for path in RULE_FILES:
        assert len(path.read_text().splitlines()) < 150, path.name


@pytest.mark.parametrize("profile", [[], ["--profile", "slurm"]])
def test_dry_run_from_the_root_lists_the_whole_chain(profile: list[str]) -> None:
    result = snakemake(*profile, "all", "-n", "--forceall", "--quiet", "rules")
    assert result.returncode == 0, result.stderr
    listed = result.stdout + result.stderr
    for rule in ("fetch_source", "build_images", "build_index", "embed_inputs", "evaluate_task", "collect_report"):
        assert re.search(rf"^{rule}\s+\d+", listed, flags=re.MULTILINE), rule


def test_a_dry_run_begins_with_the_plan_in_short_and_a_run_does_not(tmp_path: Path) -> None:
    settings = tmp_path / "own.yaml"
    settings.write_text(f"paths: {{sources: {tmp_path}/s, benchmark: {tmp_path}/b, results: {tmp_path}/r}}\n")
    files = ["--configfile", "config/full.yaml", str(settings)]
    dry = snakemake("all", "-n", "--quiet", "rules", *files)
    assert dry.returncode == 0, dry.stderr
    listed = dry.stdout + dry.stderr
    assert re.search(
        r"^Downloads of 54 sources \(each source: medheb --config \S+ --config \S+ .*plan\)$", listed, re.M
    )
    assert re.search(r"^ blocked: 54 sources, [\d.]+ GB to load \(\+ \d+ of unknown size\)", listed, re.M)
    assert re.search(r"^ +free: [\d.]+ \w+ on disk$", listed, re.M)
    other = snakemake("--list", *files)
    assert other.returncode == 0, other.stderr
    assert "Downloads of" not in other.stdout + other.stderr


def test_one_source_and_what_depends_on_it() -> None:
    result = snakemake("dataset_icd10cm", "-n", "--configfile", "config/demo.yaml", "--forceall", "--quiet", "rules")
    assert result.returncode == 0, result.stderr
    listed = result.stdout + result.stderr
    assert re.search(r"^build_images\s+2$", listed, flags=re.MULTILINE), "icd10cm, and ct_a that trains the bridge"
    assert re.search(r"^build_index\s+1$", listed, flags=re.MULTILINE)


def test_wrong_configuration_stops_with_one_helpful_line(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("protocol: best\n")
    result = snakemake("all", "-n", "--configfile", str(tmp_path / "c.yaml"))
    assert result.returncode != 0
    assert "key 'protocol' is 'best'. Allowed: 'release' or 'corrected'" in result.stdout + result.stderr


def test_no_secret_can_be_written_by_a_rule() -> None:
    for name, block in rule_blocks().items():
        assert not re.search(r"token|password|environ", block, flags=re.IGNORECASE), name
