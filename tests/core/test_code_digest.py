"""Changed code changes the digest of the steps that use it; a comment changes none."""

from pathlib import Path

import pytest

from medheb.core import code_digest as module
from medheb.workflow import STEPS


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "medheb"
    for name, text in {
        "__init__": "",
        "step": '"""Doc."""\nfrom medheb.used import work\n\n\ndef run():\n    """Doc."""\n    return work()\n',
        "used": "def work():\n    return 1\n",
        "unused": "x = 1\n",
    }.items():
        root.mkdir(exist_ok=True)
        (root / f"{name}.py").write_text(text)
    monkeypatch.setattr(module, "ROOT", root)
    return root


def digest() -> str:
    for cached in (module.module_path, module._parse, module.code_digest):
        cached.cache_clear()
    return module.code_digest("medheb.step")


@pytest.fixture(autouse=True)
def _clean_caches() -> object:
    yield
    for cached in (module.module_path, module._parse, module.code_digest):
        cached.cache_clear()


def test_comment_docstring_and_unused_module_change_nothing(package: Path) -> None:
    before = digest()
    (package / "step.py").write_text(
        '"""Other."""\nfrom medheb.used import work  # why\n\ndef run():\n    """Else."""\n\n    return work()\n'
    )
    (package / "unused.py").write_text("x = 2\n")
    assert digest() == before


def test_code_of_an_imported_module_changes_it(package: Path) -> None:
    before = digest()
    (package / "used.py").write_text("def work():\n    return 2\n")
    assert digest() != before


def test_every_step_has_a_digest_of_its_own() -> None:
    digests = {step: module.code_digest(entry) for step, entry in STEPS.items()}
    assert len(set(digests.values())) == len(STEPS)
