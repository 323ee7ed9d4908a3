"""What docs/cluster.md tells people to type exists."""

import re
from pathlib import Path

import pytest
import yaml
from typer.main import get_command

from medheb.cli import app
from medheb.manifest.base import validate
from medheb.manifest.cluster import Cluster
from medheb.manifest.config import Config

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "cluster.md").read_text(encoding="utf-8")
COMMANDS = sorted(set(re.findall(r"\bmedheb (?:\$run )?((?:[a-z]+)(?: [a-z]+)?(?: --[a-z-]+)*)", TEXT)))


@pytest.mark.parametrize("line", COMMANDS)
def test_commands_and_their_options_exist(line: str) -> None:
    words = line.split()
    command = get_command(app)
    while words and words[0] in getattr(command, "commands", {}):
        command = command.commands[words.pop(0)]  # type: ignore[attr-defined]
    if command.context_settings.get("ignore_unknown_options"):
        return  # it passes them on to Snakemake
    if not hasattr(command, "commands"):
        known = {option for parameter in command.params for option in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= known
        return
    assert line.startswith("report") or not words, f"medheb {line} is no command"


def test_the_commands_were_found() -> None:
    assert {"doctor --slurm --json", "plan --slurm --json", "cluster apply"} <= set(COMMANDS)
    assert any(line.startswith("resume") for line in COMMANDS)


def test_settings_are_keys_of_the_configuration() -> None:
    (block,) = re.findall(r"```yaml\n(.*?)```", TEXT, flags=re.DOTALL)
    validate(Config, yaml.safe_load(block), "my.yaml")
    for section, key in re.findall(r"`(build|embed)\.(\w+)`", TEXT):
        assert key in type(getattr(Config(), section)).model_fields
    for key in ("software", "fetch", "apptainer_args", "jobs", "submissions_per_second"):
        assert f"`{key}" in TEXT
        assert key in Cluster.model_fields


def test_files_that_it_names_are_there() -> None:
    for path in re.findall(r"`((?:config|envs|manifests|tests)/[\w./]+\.(?:yaml|def|py|txt))`", TEXT):
        assert (ROOT / path).exists(), path
    for path in re.findall(r"\]\((\w+\.md)\)", TEXT):
        assert (ROOT / "docs" / path).exists(), path
    assert (ROOT / "config" / "clusters").is_dir()
