"""All definitions of an environment (shared, conda, Apptainer) install exactly the pins of envs/*.txt."""

import importlib.util
import re
from importlib import metadata
from pathlib import Path
from types import ModuleType

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
ENVS = ROOT / "envs"
PIN = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)==([A-Za-z0-9][A-Za-z0-9.!]*)")
WORKFLOW = ("core", "hubs", "models")  # what the jobs of the workflow need


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def as_pins(lines: list[str]) -> dict[str, str]:
    """Versions by normal name; a line that is no exact pin, or a name that stands twice, is an error."""
    found: dict[str, str] = {}
    for line in lines:
        match = PIN.fullmatch(line)
        assert match, f"{line!r} is no exact pin"
        name, version = normal(match.group(1)), match.group(2)
        assert name not in found, f"{name} stands twice"
        found[name] = version
    return found


def pins(*names: str) -> dict[str, str]:
    lines = [line for name in names for line in (ENVS / f"{name}.txt").read_text().splitlines()]
    return as_pins([line for line in lines if line and not line.startswith("#")])


def conda_pins(name: str) -> dict[str, str]:
    content = yaml.safe_load((ENVS / f"{name}.yaml").read_text())
    assert content["dependencies"][:2] == ["python=3.11", "pip"]
    return as_pins(content["dependencies"][2]["pip"])


def installs(definition: str) -> dict[str, dict[str, str]]:
    """Interpreter -> what an Apptainer definition installs into it, from its %files and the pip calls of its %post."""
    text = (ENVS / definition).read_text()
    sections = dict(re.findall(r"^%(\w+)[^\n]*\n((?:(?!^%).*\n?)*)", text, flags=re.MULTILINE))
    copied = dict(re.findall(r"^\s+envs/(\w+)\.txt (\S+)$", text, flags=re.MULTILINE))
    inside = {place: name for name, place in copied.items()}
    found: dict[str, dict[str, str]] = {}
    for line in sections["post"].splitlines():
        words = line.split()
        if "pip" not in words or "install" not in words:
            continue
        options = words[words.index("install") + 1 :]
        files = [options[number + 1] for number, word in enumerate(options) if word == "-r"]
        others = [word for word in options if word.startswith("-") or word not in files]
        assert set(others) == {"--no-cache-dir", "--disable-pip-version-check", "-r"}, "nothing but pinned files"
        assert words[0] not in found, "one call an interpreter, so that pip sees all pins together"
        found[words[0]] = pins(*(inside[file] for file in files))
    return found


def locker() -> ModuleType:
    spec = importlib.util.spec_from_file_location("lock", ROOT / "scripts" / "lock.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_conda_installs_the_pins() -> None:
    assert conda_pins("core") == pins(*WORKFLOW)
    assert conda_pins("deepdrr") == pins("deepdrr")


@pytest.mark.parametrize("name", ["core", "deepdrr"])
def test_conda_definitions_are_what_make_lock_writes(name: str) -> None:
    assert (ENVS / f"{name}.yaml").read_text() == locker().conda_text(name)


def test_apptainer_installs_the_pins() -> None:
    assert installs("core.def") == {"python": pins(*WORKFLOW)}
    assert installs("deepdrr.def") == {"python": pins(*WORKFLOW), "/opt/deepdrr/bin/python": pins("deepdrr")}


def test_images_have_the_python_of_conda_and_their_base_is_a_version() -> None:
    for definition in ("core.def", "deepdrr.def"):
        bases = re.findall(r"^From: (\S+)$", (ENVS / definition).read_text(), flags=re.MULTILINE)
        assert re.fullmatch(r"python:3\.11\.\d+(-slim)?-bookworm", bases[-1])
        assert all(re.search(r":\d+\.\d+\.\d+", base) for base in bases)


def test_the_shared_environment_installs_the_pins() -> None:
    setup = re.search(r"pip install .*-r envs/core\.txt.*", (ROOT / "Makefile").read_text())
    assert setup
    assert re.findall(r"-r envs/(\w+)\.txt", setup.group()) == [*WORKFLOW, "dev"]
    assert pins(*WORKFLOW, "dev"), "they fit together: no name stands twice"


def test_every_pin_file_belongs_to_an_environment() -> None:
    assert {path.stem for path in ENVS.glob("*.txt")} == {*WORKFLOW, "dev", "deepdrr", "validators", "bench"}


def test_this_environment_has_the_pinned_versions() -> None:
    wrong = {}
    for name, version in pins(*WORKFLOW, "dev").items():
        found = metadata.version(name).partition("+")[0]
        if found != version:
            wrong[name] = (found, version)
    assert not wrong
