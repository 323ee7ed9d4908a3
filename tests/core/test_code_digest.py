"""Changed code changes the digest of the steps that use it; a comment changes none."""

from pathlib import Path

import pytest

from medheb.core import code_digest as module
from medheb.core import known_code
from medheb.core.known_code import KnownCode
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


def test_what_was_found_in_a_text_is_kept_for_the_next_start(tmp_path: Path) -> None:
    file = tmp_path / "cache" / "code.json"
    first = KnownCode(file)
    assert first.get(b"x = 1") is None
    first.put(b"x = 1", ("digest", ("medheb.other",)))
    first.write()
    second = KnownCode(file)
    assert second.get(b"x = 1") == ("digest", ("medheb.other",))
    assert second.get(b"x = 2") is None, "another text is another thing"


@pytest.mark.parametrize("content", ["{", "[]", '{"a": "b"}', '{"a": [1]}', "\\xff"])
def test_a_damaged_file_of_known_code_counts_as_none(tmp_path: Path, content: str) -> None:
    file = tmp_path / "code.json"
    file.write_bytes(content.encode("latin-1"))
    known = KnownCode(file)
    assert known.get(b"x = 1") is None
    known.put(b"x = 1", ("digest", ()))
    known.write()
    assert KnownCode(file).get(b"x = 1") == ("digest", ())


def test_known_code_that_cannot_be_written_is_done_without(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    known = KnownCode(tmp_path / "file" / "code.json")
    known.put(b"x = 1", ("digest", ()))
    known.write()
    assert known.get(b"x = 1") == ("digest", ())


def test_known_code_does_not_grow_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_code, "MOST", 2)
    file = tmp_path / "code.json"
    for number in range(4):
        known = KnownCode(file)
        known.get(b"")
        known.put(b"%d" % number, ("digest", ()))
        known.write()
    last = KnownCode(file)
    assert [last.get(b"%d" % number) is not None for number in range(4)] == [False, False, True, True]


def test_digests_are_the_same_with_and_without_what_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KNOWN", KnownCode(tmp_path / "code.json"))
    parsed = module.code_digest(STEPS["build"])
    module.KNOWN.write()
    for cached in (module.module_path, module._parse, module.code_digest):
        cached.cache_clear()
    monkeypatch.setattr(module, "KNOWN", KnownCode(tmp_path / "code.json"))
    monkeypatch.setattr(module, "_look", lambda text: pytest.fail("parsed again"))
    assert module.code_digest(STEPS["build"]) == parsed
